#if !defined(ATTEND_CPU_SOFTMAX) || defined(ATTEND_READING)
#ifndef ATTEND_READING
#define ATTEND_CPU_SOFTMAX

#include <cmath>
#include <limits>

#include "attend/core/threads.hpp"
#include "attend/core/types.hpp"
#include "attend/cpu/targets.hpp"
#include "attend/cpu/vector.hpp"
#include "attend/kernels/matrix.hpp"

#endif  // ATTEND_READING

namespace attend::ATTEND_CPU {

/// What may be subtracted from every value of a row whose largest is `top`: that, or 0 if it is minus infinity.
template <class T>
T softmax_shift(T top) {
  return top == -std::numeric_limits<T>::infinity() ? T(0) : top;
}
/// The same of a row.
template <class T>
T softmax_shift(index_t n, const T* x) {
  return softmax_shift(max_over<T>(n, [=](index_t i) { return x[i]; }));
}

/// Log-softmax of the values of one row.
template <class T>
class LogSoftmax {
 public:
  LogSoftmax(index_t n, const T* x, T shift) : shift_(shift) {
    const T sum = sum_over<T>(n, [=](index_t i) { return cpu::exp_to_88(x[i] - shift); });
    log_sum_ = sum == T(0) ? T(0) : std::log(sum);
  }
  /// In two steps: shift + log_sum would lose the digits of log_sum where the shift is large.
  [[nodiscard]] T operator()(T x) const { return (x - shift_) - log_sum_; }
  /// Whether the row holds NaN or infinity, which leave no value as it should be.
  [[nodiscard]] bool is_nan() const { return std::isnan(log_sum_); }

 private:
  T shift_, log_sum_;
};

}  // namespace attend::ATTEND_CPU

namespace attend::kernels {

/// y = exp(x - max) / sum over rows of width n; a row of minus infinities gives zeros.
template <class T>
void softmax_forward(Cpu, index_t rows, index_t n, const T* x, T* y) {
  ATTEND_FASTEST(softmax_forward, rows, n, x, y);
  parallel_rows(rows, n, [=](index_t begin, index_t end) {
    for (index_t r = begin; r < end; ++r) {
      const T* row = x + r * n;
      T* out = y + r * n;
      const T shift = cpu::softmax_shift(n, row);
      const T sum = cpu::sum_over<T>(n, [=](index_t i) { return out[i] = cpu::exp_to_88(row[i] - shift); });
      const T factor = sum == T(0) ? T(0) : T(1) / sum;
      for (index_t i = 0; i < n; ++i) out[i] *= factor;
    }
  });
}

/// dx = y * (dy - sum(dy * y)).
template <class T>
void softmax_backward(Cpu, index_t rows, index_t n, const T* dy, const T* y, Gradient<T> dx) {
  ATTEND_FASTEST(softmax_backward, rows, n, dy, y, dx);
  parallel_rows(rows, n, [=](index_t begin, index_t end) {
    for (index_t r = begin; r < end; ++r) {
      const T *dout = dy + r * n, *out = y + r * n;
      T* din = dx.data + r * n;
      const T sum = cpu::sum_over<T>(n, [=](index_t i) { return dout[i] * out[i]; });
      if (!dx.add)
        for (index_t i = 0; i < n; ++i) din[i] = out[i] * (dout[i] - sum);
      else
        for (index_t i = 0; i < n; ++i) din[i] += out[i] * (dout[i] - sum);
    }
  });
}

/// y = x - max - log(sum(exp(x - max))) over rows of width n; a row of minus infinities stays so. y may be x.
template <class T>
void log_softmax_forward(Cpu, index_t rows, index_t n, const T* x, T* y) {
  ATTEND_FASTEST(log_softmax_forward, rows, n, x, y);
  parallel_rows(rows, n, [=](index_t begin, index_t end) {
    for (index_t r = begin; r < end; ++r) {
      const T* row = x + r * n;
      T* out = y + r * n;
      const cpu::LogSoftmax<T> log_softmax(n, row, cpu::softmax_shift(n, row));
      for (index_t i = 0; i < n; ++i) out[i] = log_softmax(row[i]);
    }
  });
}

/// dx = dy - exp(y) * sum(dy).
template <class T>
void log_softmax_backward(Cpu, index_t rows, index_t n, const T* dy, const T* y, Gradient<T> dx) {
  ATTEND_FASTEST(log_softmax_backward, rows, n, dy, y, dx);
  parallel_rows(rows, n, [=](index_t begin, index_t end) {
    for (index_t r = begin; r < end; ++r) {
      const T *dout = dy + r * n, *out = y + r * n;
      T* din = dx.data + r * n;
      const T sum = cpu::sum_over<T>(n, [=](index_t i) { return dout[i]; });
      if (!dx.add)
        for (index_t i = 0; i < n; ++i) din[i] = dout[i] - cpu::exp_to_88(out[i]) * sum;
      else
        for (index_t i = 0; i < n; ++i) din[i] += dout[i] - cpu::exp_to_88(out[i]) * sum;
    }
  });
}

}  // namespace attend::kernels

#define ATTEND_READ_AGAIN "attend/cpu/softmax.hpp"
#include "attend/cpu/each_target.hpp"
#endif
