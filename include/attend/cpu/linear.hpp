#if !defined(ATTEND_CPU_LINEAR) || defined(ATTEND_READING)
#ifndef ATTEND_READING
#define ATTEND_CPU_LINEAR

#include "attend/core/threads.hpp"
#include "attend/core/types.hpp"
#include "attend/cpu/basic.hpp"
#include "attend/cpu/gemm.hpp"
#include "attend/cpu/targets.hpp"

#endif  // ATTEND_READING

namespace attend::kernels {

/// y [rows, out] = x [rows, in] * weight^T + bias; weight is [out, in], bias [out] or null.
template <class T>
void linear_forward(Cpu, ConstMatrix<T> x, ConstMatrix<T> weight, const T* bias, Matrix<T> y) {
  ATTEND_BY_PROVIDER(x, weight.transpose(), bias, y);
  ATTEND_FASTEST(linear_forward, x, weight, bias, y);
  cpu::multiply(cpu::Product<T>(x, weight.transpose(), bias, y), true);
}

/// dx = dy * weight, and dx on top if `add`.
template <class T>
void linear_backward_input(Cpu, ConstMatrix<T> dy, ConstMatrix<T> weight, Matrix<T> dx, bool add) {
  gemm(Cpu{}, dy, weight, dx, {.add = add});
}

/// dweight = dy^T * x, over all rows at once, and dweight on top if `add`.
template <class T>
void linear_backward_weight(Cpu, ConstMatrix<T> dy, ConstMatrix<T> x, Matrix<T> dweight, bool add) {
  gemm(Cpu{}, dy.transpose(), x, dweight, {.add = add});
}

/// dbias = the sum of dy's rows.
template <class T>
void linear_backward_bias(Cpu, ConstMatrix<T> dy, Gradient<T> dbias) {
  ATTEND_FASTEST(linear_backward_bias, dy, dbias);
  sum_rows(Cpu{}, dy, dbias);
}

/// Both at once.
template <class T>
void linear_backward_weight_bias(Cpu, ConstMatrix<T> dy, ConstMatrix<T> x, Matrix<T> dweight, bool add, Gradient<T> dbias) {
  linear_backward_weight(Cpu{}, dy, x, dweight, add);
  linear_backward_bias(Cpu{}, dy, dbias);
}

}  // namespace attend::kernels

#define ATTEND_READ_AGAIN "attend/cpu/linear.hpp"
#include "attend/cpu/each_target.hpp"
#endif
