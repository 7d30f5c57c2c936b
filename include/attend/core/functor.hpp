#pragma once

// The processor's kernels unroll some loops by a pragma of GCC's, which nvcc hands on and remarks upon.
#if defined(__CUDACC__) && defined(__NVCC_DIAG_PRAGMA_SUPPORT__)
#pragma nv_diag_suppress 1675
#endif

/// Marks small functions that run in the middle of a loop: put into the loop that calls them, which only then becomes vector
/// instructions, and made for the device as well where a CUDA compiler is at work.
#if defined(__CUDACC__)
#define ATTEND_FUNCTOR [[gnu::always_inline]] __host__ __device__ inline
#else
#define ATTEND_FUNCTOR [[gnu::always_inline]] inline
#endif
