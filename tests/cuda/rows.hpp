#pragma once

#include <limits>

#include "device.hpp"

/// What the tests of kernels over rows share: numbers that both sides get, and tensors that begin where 16 bytes do not.
namespace device {

/// Standard normal numbers that T can hold, in the type that the processor computes with.
template <class T>
attend::Tensor<attend::Wide<T>> representable(const attend::Shape& shape, std::uint64_t stream) {
  return converted<attend::Wide<T>>(converted<T>(random<attend::Wide<T>>(shape, stream)));
}

/// An uninitialised tensor that begins `offset` elements after a multiple of 16 bytes.
template <class T>
attend::Tensor<T, attend::Cuda> placed(const attend::Shape& shape, attend::index_t offset) {
  return attend::Tensor<T, attend::Cuda>({shape.size() + offset}).rows(offset, shape.size()).reshape(shape);
}
/// The same numbers on the device, `offset` elements after a multiple of 16 bytes.
template <class T, class E>
attend::Tensor<T, attend::Cuda> upload(const attend::Tensor<E>& x, attend::index_t offset = 0) {
  auto y = placed<T>(x.shape(), offset);
  copy_to_device(attend::Cuda{}, x.size(), converted<T>(x).data(), y.data());
  return y;
}
/// NaN everywhere, or the numbers of x where `keep` is 1: what a kernel that keeps or overwrites is given.
template <class T, class E>
attend::Tensor<T, attend::Cuda> before(const attend::Tensor<E>& x, int keep, attend::index_t offset = 0) {
  auto y = upload<T>(x, offset);
  if (keep == 0) y.fill(std::numeric_limits<T>::quiet_NaN());
  return y;
}

}  // namespace device
