#pragma once

#include <concepts>

#include "attend/core/precision.hpp"
#include "attend/cpu/bf16.hpp"
#include "attend/cpu/linear.hpp"

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

  /// As the kernels of these names.
  void linear_forward(const kernels::Matrix<const T>& x, const kernels::Matrix<const T>& weight, const T* bias,
                      const kernels::Matrix<T>& y) const {
    if constexpr (can_round)
      if (rounded_) return gemm_bf16<T>(D{}, x, weight.transpose(), bias, y);
    kernels::linear_forward<T>(D{}, x, weight, bias, y);
  }
  void linear_backward_input(const kernels::Matrix<const T>& dy, const kernels::Matrix<const T>& weight,
                             const kernels::Matrix<T>& dx, bool add) const {
    if constexpr (can_round)
      if (rounded_) return gemm_bf16<T>(D{}, dy, weight, nullptr, dx, {.add = add});
    kernels::linear_backward_input<T>(D{}, dy, weight, dx, add);
  }
  void linear_backward_weight(const kernels::Matrix<const T>& dy, const kernels::Matrix<const T>& x,
                              const kernels::Matrix<T>& dweight, bool add) const {
    if constexpr (can_round)
      if (rounded_) return gemm_bf16<T>(D{}, dy.transpose(), x, nullptr, dweight, {.add = add});
    kernels::linear_backward_weight<T>(D{}, dy, x, dweight, add);
  }
  void linear_backward_weight_bias(const kernels::Matrix<const T>& dy, const kernels::Matrix<const T>& x,
                                   const kernels::Matrix<T>& dweight, bool add, const kernels::Gradient<T>& dbias) const {
    if constexpr (can_round)
      if (rounded_) {
        linear_backward_weight(dy, x, dweight, add);
        return linear_backward_bias(D{}, dy, dbias);
      }
    kernels::linear_backward_weight_bias<T>(D{}, dy, x, dweight, add, dbias);
  }
  void gemm_batched(index_t count, const kernels::Matrices<const T>& a, const kernels::Matrices<const T>& b,
                    const kernels::Matrices<T>& c, const kernels::ProductOptions& options) const {
    if constexpr (can_round)
      if (rounded_) return gemm_bf16_batched<T>(D{}, count, a, b, c, options);
    kernels::gemm_batched<T>(D{}, count, a, b, c, options);
  }

 private:
  static constexpr bool can_round = std::same_as<T, float> && std::same_as<D, Cpu>;
  bool rounded_;
};

}  // namespace attend::detail
