#pragma once

#include <algorithm>
#include <concepts>

#include "attend/core/precision.hpp"
#include "attend/cpu/bf16.hpp"
#include "attend/cpu/linear.hpp"
#include "attend/ops/held_rows.hpp"

namespace attend::detail {

/// The products of an operation and of its gradients, in the precision of the thread that made this.
template <class T, Device D>
class Products {
 public:
  /// Throws ValueError, whose message begins with `operation`, if these numbers have no products of this precision.
  explicit Products(const char* operation) : rounded_(matmul_precision() == Precision::bf16) {
    check_value(!rounded_ || can_round, operation,
                "the precision of products is bf16, which is for floats on the CPU; on a GPU bfloat16 is a type of model");
  }

  /// As the kernels `linear_forward` and so on.
  void forward(const kernels::Matrix<const T>& x, const kernels::Matrix<const T>& weight, const T* bias,
               const kernels::Matrix<T>& y) const {
    if constexpr (can_round)
      if (rounded_) return gemm_bf16(D{}, x, weight.transpose(), bias, y);
    linear_forward(D{}, x, weight, bias, y);
  }
  void backward_input(const kernels::Matrix<const T>& dy, const kernels::Matrix<const T>& weight, const kernels::Matrix<T>& dx,
                      bool add) const {
    if constexpr (can_round)
      if (rounded_) return gemm_bf16(D{}, dy, weight, nullptr, dx, {.add = add});
    linear_backward_input(D{}, dy, weight, dx, add);
  }
  void backward_weight(const kernels::Matrix<const T>& dy, const kernels::Matrix<const T>& x, const kernels::Matrix<T>& dweight,
                       bool add) const {
    if constexpr (can_round)
      if (rounded_) return gemm_bf16(D{}, dy.transpose(), x, nullptr, dweight, {.add = add});
    linear_backward_weight(D{}, dy, x, dweight, add);
  }
  void backward_weight_bias(const kernels::Matrix<const T>& dy, const kernels::Matrix<const T>& x,
                            const kernels::Matrix<T>& dweight, bool add, const kernels::Gradient<T>& dbias) const {
    if constexpr (can_round)
      if (rounded_) {
        backward_weight(dy, x, dweight, add);
        return linear_backward_bias(D{}, dy, dbias);
      }
    linear_backward_weight_bias(D{}, dy, x, dweight, add, dbias);
  }
  /// Those of a weight that may hold other numbers than elements. These are made of a large one's rows by parts, and the bits are
  /// those of all at once, but with products of another library (ATTEND_GEMM), which round by their sizes.
  void forward(const kernels::Matrix<const T>& x, const Tensor<T, D>& weight, const T* bias, const kernels::Matrix<T>& y) const {
    for_rows(weight, rows_at_a_time(weight), [&, this](index_t first, const kernels::Matrix<const T>& rows) {
      this->forward(x, rows, bias ? bias + first : nullptr, kernels::Matrix<T>{y.data + first, y.rows, rows.rows, y.stride});
    });
  }
  void backward_input(const kernels::Matrix<const T>& dy, const Tensor<T, D>& weight, const kernels::Matrix<T>& dx,
                      bool add) const {
    for_rows(weight, rows_at_a_time(weight), [&, this](index_t first, const kernels::Matrix<const T>& rows) {
      this->backward_input(kernels::Matrix<const T>{dy.data + first, dy.rows, rows.rows, dy.stride}, rows, dx, add || first > 0);
    });
  }
  void batched(index_t count, const kernels::Matrices<const T>& a, const kernels::Matrices<const T>& b,
               const kernels::Matrices<T>& c, const kernels::ProductOptions& options) const {
    if constexpr (can_round)
      if (rounded_) return gemm_bf16_batched(D{}, count, a, b, c, options);
    gemm_batched(D{}, count, a, b, c, options);
  }

 private:
  /// Of a weight that becomes elements by parts: all of 2^24 numbers or fewer, otherwise as many as are summed in one go where
  /// they are what is summed over, or several times as many.
  [[nodiscard]] index_t rows_at_a_time(const Tensor<T, D>& weight) const {
    constexpr index_t most = index_t{1} << 24, block = cpu::k_block;
    const index_t count = std::max<index_t>(1, weight.dim(0)), width = std::max<index_t>(1, weight.dim(1));
    if (count <= most / width) return count;
    return rounded_ ? cpu::pair_depth(count) : std::max<index_t>(1, most / width / block) * block;
  }
  static constexpr bool can_round = std::same_as<T, float> && std::same_as<D, Cpu>;
  bool rounded_;
};

}  // namespace attend::detail
