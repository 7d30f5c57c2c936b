// See compiled.hpp.
#define ATTEND_COMPILE_FLOAT
#include "cuda/compiled.hpp"
