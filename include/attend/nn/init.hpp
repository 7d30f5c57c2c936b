#pragma once

#include <cmath>
#include <utility>

#include "attend/core/random.hpp"
#include "attend/core/tensor.hpp"
#include "attend/nn/fields.hpp"

/// Initial values. Each draws one stream of `default_generator()`, so that a seed gives the same model on every device.
namespace attend::nn {

namespace detail {

template <class T, Device D, class F>
void set_from(const Tensor<T, D>& x, F&& value) {
  Tensor<T, Cpu> host(x.shape());
  for (index_t i = 0; i < host.size(); ++i) host.data()[i] = static_cast<T>(value(static_cast<std::uint64_t>(i)));
  if constexpr (std::same_as<D, Cpu>) x.assign(host);
  else copy_to_device(D{}, host.size(), host.data(), x.data());
}

}  // namespace detail

/// U(-a, a) with a = sqrt(6 / (in + out)) for a matrix [out, in]. Source: Glorot and Bengio 2010, eq. 16.
template <class T, Device D>
void xavier_uniform(const Tensor<T, D>& weight) {
  check_value(weight.rank() == 2, "xavier_uniform", "shape " + weight.shape().text() + " is not a matrix");
  const double bound = std::sqrt(6.0 / static_cast<double>(std::max<index_t>(1, weight.dim(0) + weight.dim(1))));
  const auto random = default_generator().next();
  detail::set_from(weight, [&](std::uint64_t i) { return bound * (2 * random.uniform(i) - 1); });
}

/// Normal with mean 0 and the given standard deviation.
template <class T, Device D>
void normal(const Tensor<T, D>& x, double deviation) {
  const auto random = default_generator().next();
  detail::set_from(x, [&](std::uint64_t i) { return deviation * random.normal(i); });
}

/// Xavier's distribution for every matrix of a model, part by part where a matrix is packed. Vectors stay as they are.
template <class M>
requires requires {
  typename M::value_type;
  typename M::device_type;
}
void xavier_uniform_all(const M& model) {
  for (const auto& t : state(model))
    if (t.value.rank() == 2) xavier_uniform(t.value);
}

/// A parameter of the given shape that holds one value everywhere.
template <class T, Device D>
Var<T, D> constant_parameter(const Shape& shape, double value) {
  return Var<T, D>(Tensor<T, D>(shape, static_cast<T>(value)), true);
}

}  // namespace attend::nn
