#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "attend/core/random.hpp"
#include "attend/core/tensor.hpp"
#include "attend/cuda/device/memory.cuh"
#include "catch.hpp"

/// What the tests of the CUDA back end share. They run on a GPU if there is one, and on any machine by an emulator.
namespace device {

/// True if there is a device to test on; says why not otherwise. A test begins with `if (!device::present()) return;`.
inline bool present() {
  const std::string why = attend::cuda::unavailable();
  if (!why.empty()) WARN("skipped: " << why);
  return why.empty();
}

/// Standard normal numbers; another `stream`, others.
template <class T>
attend::Tensor<T> random(const attend::Shape& shape, std::uint64_t stream = 0) {
  const attend::Tensor<T> x(shape);
  const attend::Generator::Stream numbers{20, stream};
  for (attend::index_t i = 0; i < x.size(); ++i) x.data()[i] = static_cast<T>(numbers.normal(static_cast<std::uint64_t>(i)));
  return x;
}

/// The same numbers in another type.
template <class To, class T>
attend::Tensor<To> converted(const attend::Tensor<T>& x) {
  const attend::Tensor<To> y(x.shape());
  for (attend::index_t i = 0; i < x.size(); ++i) y.data()[i] = static_cast<To>(x.data()[i]);
  return y;
}

/// What error, relative to the largest number of a tensor, passes.
template <class T>
inline constexpr double tolerance = std::is_same_v<T, attend::bfloat16> ? 2e-2
                                    : std::is_same_v<T, float>          ? 2e-5
                                                                        : 1e-12;

/// Why `got` is not `expected`; empty if it is. `size`: of the numbers that these are differences of, if that is more than
/// their own.
template <class T, class E>
std::string difference(const attend::Tensor<T, attend::Cuda>& got, const attend::Tensor<E>& expected,
                       double allowed = tolerance<T>, double size = 0) {
  if (!(got.shape() == expected.shape())) return "shape " + got.shape().text() + ", expected " + expected.shape().text();
  const auto host = got.to_host();
  double largest = std::max(size, 1e-30);
  for (const E e : expected.span())
    if (std::isfinite(static_cast<double>(e))) largest = std::max(largest, std::abs(static_cast<double>(e)));
  for (attend::index_t i = 0; i < host.size(); ++i) {
    const double g = static_cast<double>(host.data()[i]), e = static_cast<double>(expected.data()[i]);
    if (g == e || (std::isnan(g) && std::isnan(e))) continue;
    if (!(std::abs(g - e) <= allowed * largest))
      return "element " + std::to_string(i) + " of " + expected.shape().text() + " is " + std::to_string(g) + ", expected " +
             std::to_string(e) + " (largest " + std::to_string(largest) + ")";
  }
  return {};
}

}  // namespace device
