// See compiled.hpp.
#include "cuda/compiled.hpp"

#define ATTEND_TEMPLATE template
#define ATTEND_T double
#define ATTEND_D Cuda
#include "attend/compiled_core.hpp"
