// See compiled.hpp.
#define ATTEND_COMPILE_DOUBLE
#include "cuda/compiled.hpp"
