// See compiled.hpp.
#include "cuda/compiled.hpp"

#define ATTEND_TEMPLATE template
#define ATTEND_T bfloat16
#define ATTEND_D Cuda
#include "attend/compiled_core.hpp"
