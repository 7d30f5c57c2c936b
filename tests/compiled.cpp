// See compiled.hpp.
#define ATTEND_TEMPLATE template
#include "compiled.hpp"
