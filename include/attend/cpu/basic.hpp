#if !defined(ATTEND_CPU_BASIC) || defined(ATTEND_READING)
#ifndef ATTEND_READING
#define ATTEND_CPU_BASIC

#include "attend/core/threads.hpp"
#include "attend/core/types.hpp"
#include "attend/cpu/targets.hpp"
#include "attend/cpu/vector.hpp"
#include "attend/kernels/matrix.hpp"
#include "attend/kernels/squares.hpp"

#endif  // ATTEND_READING

/// Passes over whole arrays that everything else needs.
namespace attend::kernels {

/// y[i] += x[i].
template <class T>
void add_into(Cpu, index_t n, const T* x, T* y) {
  ATTEND_FASTEST(add_into, n, x, y);
  parallel_rows(n, 1, [=](index_t begin, index_t end) {
    for (index_t i = begin; i < end; ++i) y[i] += x[i];
  });
}

/// y[i] = a * x[i] + b * y[i]; with b = 0, y need not hold anything yet. x may be y.
template <class T>
void scale_add(Cpu, index_t n, T a, const T* x, T b, T* y) {
  ATTEND_FASTEST(scale_add, n, a, x, b, y);
  parallel_rows(n, 1, [=](index_t begin, index_t end) {
    if (b == T(0))
      for (index_t i = begin; i < end; ++i) y[i] = a * x[i];
    else
      for (index_t i = begin; i < end; ++i) y[i] = a * x[i] + b * y[i];
  });
}

/// y[i] = factor[0] * x[i].
template <class T>
void scale_add_by(Cpu, index_t n, const T* factor, const T* x, Gradient<T> y) {
  ATTEND_FASTEST(scale_add_by, n, factor, x, y);
  scale_add(Cpu{}, n, *factor, x, T(y.add), y.data);
}

/// y[i] = x[i] in another type.
template <class From, class To>
void convert(Cpu, index_t n, const From* x, To* y) {
  ATTEND_FASTEST(convert, n, x, y);
  parallel_rows(n, 1, [=](index_t begin, index_t end) {
    for (index_t i = begin; i < end; ++i) y[i] = static_cast<To>(x[i]);
  });
}

/// The sum of x's rows, into a row. x is not transposed.
template <class T>
void sum_rows(Cpu, ConstMatrix<T> x, Gradient<T> into) {
  ATTEND_FASTEST(sum_rows, x, into);
  // Four lines of the cache a part, or for many threads down to one: only the columns are shared out, so that the order stays.
  const index_t least = std::clamp<index_t>(x.columns / threads(), 16, 64);
  parallel_for(x.columns, std::max(least, 8192 / std::max<index_t>(1, x.rows)), [=](index_t begin, index_t end) {
    T* const y = into.data;
    for (index_t j = begin; !into.add && j < end; ++j) y[j] = T(0);
    index_t i = 0;
    for (; i + 4 <= x.rows; i += 4) {  // four at a time, so that y is read and written a quarter as often
      const T *x0 = x.data + i * x.stride, *x1 = x0 + x.stride, *x2 = x1 + x.stride, *x3 = x2 + x.stride;
      for (index_t j = begin; j < end; ++j) y[j] += (x0[j] + x1[j]) + (x2[j] + x3[j]);
    }
    for (; i < x.rows; ++i)
      for (index_t j = begin; j < end; ++j) y[j] += x.data[i * x.stride + j];
  });
}

/// sums[p] = the sum of the squares of part p of x, see `square_part`, in double.
template <class T>
void squares_of_parts(Cpu, index_t n, const T* x, double* sums) {
  ATTEND_FASTEST(squares_of_parts, n, x, sums);
  parallel_for(square_parts(n), 1, [&](index_t begin, index_t end) {
    for (index_t p = begin; p < end; ++p) {
      const T* first = x + p * square_part;
      sums[p] = cpu::sum_over<double>(std::min(square_part, n - p * square_part), [=](index_t i) {
        const auto v = static_cast<double>(first[i]);
        return v * v;
      });
    }
  });
}
/// *result = the sum of those of n numbers' parts.
inline void sum_of_parts(Cpu, index_t n, const double* sums, double* result) {
  *result = 0;
  for (index_t p = 0; p < square_parts(n); ++p) *result += sums[p];
}
/// The sum of x[i]^2, in double, part by part, so that the number of threads does not show.
template <class T>
double sum_of_squares(Cpu, index_t n, const T* x) {
  ATTEND_FASTEST(sum_of_squares, n, x);
  std::vector<double> sums(static_cast<std::size_t>(square_parts(n)));
  squares_of_parts(Cpu{}, n, x, sums.data());
  double sum = 0;
  sum_of_parts(Cpu{}, n, sums.data(), &sum);
  return sum;
}

}  // namespace attend::kernels

#define ATTEND_READ_AGAIN "attend/cpu/basic.hpp"
#include "attend/cpu/each_target.hpp"
#endif
