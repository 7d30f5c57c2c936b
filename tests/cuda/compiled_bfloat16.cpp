// See compiled.hpp.
#define ATTEND_COMPILE_BFLOAT16
#include "cuda/compiled.hpp"
