#pragma once

#include <cstdint>
#include <string>

#include "attend/autograd/var.hpp"
#include "attend/core/random.hpp"
#include "attend/cpu/dropout.hpp"

namespace attend {

/// The least random word that keeps an element: an element is dropped with probability p = threshold / 2^32.
/// Throws ValueError unless 0 <= p < 1.
inline std::uint32_t dropout_threshold(double p) {
  check_value(p >= 0 && p < 1, "dropout", "p is ", p, ", expected a probability in [0, 1)");
  return static_cast<std::uint32_t>(p * 0x1p32);
}

namespace detail {

/// The mask of the next dropout at rate p; nothing is drawn if p is 0. Throws ValueError unless 0 <= p < 1.
inline DropoutMask next_mask(double p, Generator& generator) {
  DropoutMask mask{.threshold = dropout_threshold(p)};
  if (p > 0) mask.stream = generator.next(), mask.scale = 1 / (1 - p);
  return mask;
}

}  // namespace detail

/// y = mask * x / (1 - p),  dx = mask * dy / (1 - p); the mask is 0 with probability p, otherwise 1. It is made anew for the
/// backward from its random stream, not kept. Element i draws word i of a stream of its own, so that the mask is the same on
/// every device and with any number of threads. With p = 0 this is x itself and nothing is drawn.
/// Shapes: x, y any. Throws ValueError unless 0 <= p < 1. Source: Srivastava et al. 2014.
template <class T, Device D>
Var<T, D> dropout(const Var<T, D>& x, double p, Generator& generator = default_generator()) {
  const DropoutMask mask = detail::next_mask(p, generator);
  if (p == 0) return x;
  Tensor<T, D> y(x.shape());
  dropout_apply(D{}, x.size(), mask, x.data(), {y.data()});
  return record(std::move(y), {x}, [mask, x = x.sink()](const Tensor<T, D>& dy) {
    x.accumulate_with([&](auto dx) { dropout_apply(D{}, dy.size(), mask, dy.data(), dx); });
  });
}

}  // namespace attend
