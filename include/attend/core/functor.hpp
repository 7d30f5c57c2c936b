#pragma once

// The processor's kernels unroll some loops by a pragma of GCC's, which nvcc hands on and remarks upon.
#if defined(__CUDACC__) && defined(__NVCC_DIAG_PRAGMA_SUPPORT__)
#pragma nv_diag_suppress 1675
#endif

/// Marks small functions that run inside a loop: they are inlined into it, which only then becomes vector instructions, and a
/// CUDA compiler makes them for the device as well.
#if defined(__CUDACC__)
#define ATTEND_FUNCTOR [[gnu::always_inline]] __host__ __device__ inline
#else
#define ATTEND_FUNCTOR [[gnu::always_inline]] inline
#endif
