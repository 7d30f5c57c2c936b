#pragma once

#include <vector>

#include "attend/core/tensor.hpp"

namespace attend {

/// The elements of a tensor on their way to the host, which may go on working meanwhile. On the processor they are there at once.
template <class T, Device D>
class Arriving {
 public:
  /// Sets off the values of `x`, as they are at this point of the stream.
  explicit Arriving(const Tensor<T, D>& x) : values_(x.values()) {}
  /// The elements as they were when this was made. On a GPU this waits until all that the device was given before is done, and
  /// throws what went wrong there.
  const std::vector<T>& values() { return values_; }

 private:
  std::vector<T> values_;
};

}  // namespace attend
