// See compiled.hpp.
#include "cuda/compiled.hpp"
// After what is declared there.
#include "attend/compiled_cuda_float.cu"
