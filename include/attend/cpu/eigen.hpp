#pragma once

/// Eigen as the CPU's kernels use it: only `cpu/` includes it, and only through here.

#ifndef EIGEN_DONT_PARALLELIZE
#define EIGEN_DONT_PARALLELIZE  // threads are ours: one thread's share is one single-threaded product
#endif
#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 calls AVX-512's "undefined" registers, on purpose not initialised, a mistake of whoever uses them.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <Eigen/Core>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
