#pragma once

/// As compiled.hpp, for the device: what most programs use of core.hpp's templates for `float` and `bfloat16` on `Cuda`, kernels
/// among it, is compiled once, in compiled_cuda_float.cu and compiled_cuda_bfloat16.cu, and no longer in every file that includes
/// cuda.hpp.
///
/// With CMake, link `attend::compiled_cuda` instead of `attend::cuda`. Without CMake, define ATTEND_COMPILED_CUDA for all files
/// that a CUDA compiler compiles and add the two to them, with the flags that they have.

#include "attend/core.hpp"
#include "attend/cuda.hpp"

#define ATTEND_TEMPLATE extern template
#define ATTEND_T float
#define ATTEND_D Cuda
#include "attend/compiled_core.hpp"
#define ATTEND_T bfloat16
#define ATTEND_D Cuda
#include "attend/compiled_core.hpp"
#undef ATTEND_TEMPLATE
