#pragma once

#include <algorithm>
#include <cmath>

#include "attend/cpu/optimizer.hpp"
#include "attend/optim/parameters.hpp"

namespace attend::optim {

/// The Euclidean norm of all gradients together. It does not depend on the number of threads.
/// If it is not finite, the gradients are marked as such, and no optimizer takes a step with them. Optimizers look at the norm
/// themselves too.
template <class T, Device D>
double grad_norm(const FlatParameters<T, D>& parameters) {
  parameters.gather();
  const double norm = std::sqrt(sum_of_squares(D{}, parameters.size(), parameters.gradients().data()));
  if (!std::isfinite(norm)) parameters.mark_not_finite();
  return norm;
}

/// What to multiply gradients of that norm by so that their norm is at most `max_norm`: min(1, max_norm / (norm + 1e-6)), or 1 if
/// the norm is not finite. Throws ValueError if max_norm is not positive.
inline double clip_coefficient(double norm, double max_norm) {
  check_value(max_norm > 0, "clip_grad_norm", "max_norm is ", max_norm, ", expected more than 0");
  return std::isfinite(norm) ? clip_scale(norm, max_norm) : 1.0;
}

/// Scales all gradients by one factor so that their norm is at most `max_norm`, and returns the norm before.
/// Gradients that are not finite stay as they are: see `grad_norm`. Throws ValueError if max_norm is not positive.
template <class T, Device D>
double clip_grad_norm(const FlatParameters<T, D>& parameters, double max_norm) {
  const double norm = grad_norm(parameters), coefficient = clip_coefficient(norm, max_norm);
  T* gradients = parameters.gradients().data();
  if (coefficient < 1) scale_add(D{}, parameters.size(), static_cast<Wide<T>>(coefficient), gradients, T(0), gradients);
  return norm;
}

}  // namespace attend::optim
