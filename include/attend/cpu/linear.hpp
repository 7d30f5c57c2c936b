#pragma once

#include "attend/core/threads.hpp"
#include "attend/core/types.hpp"
#include "attend/cpu/basic.hpp"
#include "attend/cpu/gemm.hpp"

namespace attend::kernels {

/// y [rows, out] = x [rows, in] * weight^T + bias; weight is [out, in], bias [out] or null.
template <class T>
void linear_forward(Cpu, index_t rows, index_t in, index_t out, const T* x, const T* weight, const T* bias, T* y) {
  cpu::multiply(true, rows, out, in, cpu::stored(false, x, in), cpu::stored(true, weight, in), {T(1), false, bias}, y, out);
}

/// dx = keep * dx + dy * weight.
template <class T>
void linear_backward_input(Cpu, index_t rows, index_t in, index_t out, const T* dy, const T* weight, T keep, T* dx) {
  gemm(Cpu{}, false, false, rows, in, out, T(1), dy, out, weight, in, keep, dx, in);
}

/// dweight = keep * dweight + dy^T * x, over all rows at once.
template <class T>
void linear_backward_weight(Cpu, index_t rows, index_t in, index_t out, const T* dy, const T* x, T keep, T* dweight) {
  gemm(Cpu{}, true, false, out, in, rows, T(1), dy, out, x, in, keep, dweight, in);
}

/// dbias = keep * dbias + the sum of dy's rows.
template <class T>
void linear_backward_bias(Cpu, index_t rows, index_t out, const T* dy, T keep, T* dbias) {
  sum_rows(Cpu{}, rows, out, dy, out, keep, dbias);
}

/// Both at once.
template <class T>
void linear_backward_weight_bias(Cpu, index_t rows, index_t in, index_t out, const T* dy, const T* x, T keep, T* dweight,
                                 T bias_keep, T* dbias) {
  linear_backward_weight(Cpu{}, rows, in, out, dy, x, keep, dweight);
  linear_backward_bias(Cpu{}, rows, out, dy, bias_keep, dbias);
}

}  // namespace attend::kernels
