#pragma once

#include <array>

#include "attend/core/error.hpp"
#include "attend/core/options.hpp"

namespace attend {

/// What products compute in. All else (softmax, norms, attention's scores, losses, optimizers) stays in the model's type.
enum class Precision {
  full,  ///< the model's own type
  /// Both sides are rounded to bfloat16, to the nearest with ties to even, and their products are summed in float. For float
  /// models on the CPU; up to five times as fast as floats where the processor has AMX, twice on AMD's with AVX512_BF16, not
  /// measured on ARM's with BF16, slower (up to twice the time) elsewhere. On a GPU bfloat16 is a type of model instead.
  bf16,
  /// Of decoding alone: weights and activations in 8-bit integers with a scale for each row, sums in 32 bits. For float models on
  /// the CPU.
  int8,
};
/// The names of its values.
constexpr auto names_of(Precision) {
  return std::to_array<Named<Precision>>({{Precision::full, "full"}, {Precision::bf16, "bf16"}, {Precision::int8, "int8"}});
}

namespace detail {
/// That of this thread.
inline Precision& matmul_precision_of_thread() {
  thread_local Precision precision = Precision::full;
  return precision;
}
}  // namespace detail

/// What `linear`, `linear_cross_entropy`, `feed_forward`, `matmul` and what is made of them compute their products in. Per
/// thread.
inline Precision matmul_precision() { return detail::matmul_precision_of_thread(); }

/// While one is in scope, the products of this thread's operations are computed in this precision, and so are those of their
/// gradients, wherever these are computed later: y = r(x) r(W)^T + b, dx = r(dy) r(W), dW = r(dy)^T r(x), r(x) being x rounded.
/// Weights, what is kept between operations and all sums stay in float, so a model is trained and saved as ever. Operations on
/// other numbers than floats on the CPU throw ValueError in bf16. Source: Micikevicius et al. 2018, "Mixed Precision Training";
/// Kalamkar et al. 2019, "A Study of BFLOAT16 for Deep Learning Training".
///
///     {
///       const MatmulPrecision precision(Precision::bf16);
///       model.loss(batch, {}).backward();
///     }
///     optimizer.step();
class MatmulPrecision {
 public:
  /// Throws ValueError for int8, which has no gradients.
  explicit MatmulPrecision(Precision precision) : before_(matmul_precision()) {
    check_value(precision != Precision::int8, "MatmulPrecision", "precision is int8, expected full or bf16");
    detail::matmul_precision_of_thread() = precision;
  }
  ~MatmulPrecision() { detail::matmul_precision_of_thread() = before_; }
  MatmulPrecision(const MatmulPrecision&) = delete;
  MatmulPrecision& operator=(const MatmulPrecision&) = delete;

 private:
  Precision before_;
};

}  // namespace attend
