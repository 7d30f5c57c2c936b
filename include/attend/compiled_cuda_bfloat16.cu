// Compiled once for a program with ATTEND_COMPILED_CUDA: see compiled_cuda.hpp.

#include "attend/compiled_cuda.hpp"

#define ATTEND_TEMPLATE template
#define ATTEND_T bfloat16
#define ATTEND_D Cuda
#include "attend/compiled_core.hpp"
