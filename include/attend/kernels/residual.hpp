#pragma once

#include "attend/kernels/dropout.hpp"
#include "attend/kernels/layer_norm.hpp"

/// What a norm of a sum is told: of a sublayer's result on top of what went into it.
namespace attend::kernels {

/// sum = x + mask * branch.
template <class T>
struct ResidualSum {
  DropoutMask mask = {};
  const T *x = nullptr, *branch = nullptr;
  T* sum = nullptr;
};

/// Where the backward of the norm of such a sum leaves its gradients: norm.x is that of the sum, `branch` gets the mask times it.
/// `branch` may be null, and must be if norm.x is.
template <class T>
struct ResidualGradients {
  NormGradients<T> norm = {};
  DropoutMask mask = {};
  T* branch = nullptr;
};

}  // namespace attend::kernels
