#pragma once

#include <atomic>
#include <cstdint>

namespace attend {

namespace detail {
/// The number itself.
inline std::atomic<std::uint64_t> weights_version{0};
}  // namespace detail

/// Grows whenever the library may have changed the weights of a model: an optimizer's step, `Tensor::assign` and `fill`,
/// `Var::set_value`, loading. What was made from weights (see PackedWeights) is made again once this has grown.
inline std::uint64_t weights_version() { return detail::weights_version.load(std::memory_order_acquire); }

/// To be called after writing a part of a matrix of weights by hand (a value, a row), through `data()` or `span()`: what was
/// packed of it is then made again. A whole matrix overwritten is noticed without this call (see PackedWeights::refresh).
inline void weights_changed() { detail::weights_version.fetch_add(1, std::memory_order_acq_rel); }

/// While one is in scope, weights are being written: the version grows when it goes out of scope, by an exception too, since what
/// was written until then counts. It must not grow sooner: what was packed meanwhile would hold old weights under the new number.
class WeightsChange {
 public:
  WeightsChange() = default;
  WeightsChange(const WeightsChange&) = delete;
  WeightsChange& operator=(const WeightsChange&) = delete;
  ~WeightsChange() { weights_changed(); }
};

}  // namespace attend
