#if !defined(ATTEND_CPU_CONSTRAIN) || defined(ATTEND_TARGET)
#ifndef ATTEND_TARGET
#define ATTEND_CPU_CONSTRAIN

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "attend/core/threads.hpp"
#include "attend/core/types.hpp"
#include "attend/cpu/softmax.hpp"
#include "attend/cpu/targets.hpp"
#endif

/// What searches do to single rows of log-probabilities x [., width]. Rows and columns are within it; no row is named twice,
/// except in `set_entries`.
namespace attend::ATTEND_IN(kernels) {

  /// values[i] = x[rows[i], columns[i]] for i < count. rows and columns are host memory.
  template <class T>
  void take_entries(Cpu, index_t count, index_t width, const index_t* rows, const token_t* columns, const T* x, T* values) {
    ATTEND_FASTEST(take_entries, count, width, rows, columns, x, values);
    for (index_t i = 0; i < count; ++i) values[i] = x[rows[i] * width + columns[i]];
  }

  /// x[rows[i], columns[i]] = value for i < count. rows and columns are host memory.
  template <class T>
  void set_entries(Cpu, index_t count, index_t width, const index_t* rows, const token_t* columns, std::type_identity_t<T> value,
                   T* x) {
    ATTEND_FASTEST(set_entries, count, width, rows, columns, value, x);
    for (index_t i = 0; i < count; ++i) x[rows[i] * width + columns[i]] = value;
  }

  /// x[rows[i], columns[i]] is multiplied by `factor` where it is below 0, and divided by it where it is above, for i < count: a
  /// factor above 1 lowers it either way. No place is named twice. rows and columns are host memory.
  template <class T>
  void scale_entries(Cpu, index_t count, index_t width, const index_t* rows, const token_t* columns,
                     std::type_identity_t<T> factor, T* x) {
    ATTEND_FASTEST(scale_entries, count, width, rows, columns, factor, x);
    for (index_t i = 0; i < count; ++i) {
      T& value = x[rows[i] * width + columns[i]];
      value = value < T(0) ? value * factor : value / factor;
    }
  }

  /// x[r, column] += value for every row r. x [rows, width].
  template <class T>
  void add_to_column(Cpu, index_t rows, index_t width, token_t column, std::type_identity_t<T> value, T * x) {
    ATTEND_FASTEST(add_to_column, rows, width, column, value, x);
    for (index_t r = 0; r < rows; ++r) x[r * width + column] += value;
  }

  /// Row rows[i] becomes minus infinity but for x[rows[i], columns[i]] = values[i], for i < count. rows and columns are host
  /// memory.
  template <class T>
  void keep_entries(Cpu, index_t count, index_t width, const index_t* rows, const token_t* columns, const T* values, T* x) {
    ATTEND_FASTEST(keep_entries, count, width, rows, columns, values, x);
    parallel_rows(count, width, [=](index_t begin, index_t end) {
      for (index_t i = begin; i < end; ++i) {
        T* const row = x + rows[i] * width;
        std::fill_n(row, width, -std::numeric_limits<T>::infinity());
        row[columns[i]] = values[i];
      }
    });
  }

}  // namespace attend::ATTEND_IN(kernels)

namespace attend::ATTEND_IN(cpu) {

  /// Row rows[i] keeps `lengths[i]` of its columns, those that are listed from columns[begins[i]] on, as change(length, values)
  /// leaves them, and becomes minus infinity elsewhere.
  template <class T, class F>
  void keep_columns(index_t count, index_t width, const index_t* rows, const index_t* begins, const index_t* lengths,
                    const token_t* columns, T* x, const F& change) {
    parallel_rows(count, width, [=](index_t begin, index_t end) {
      std::vector<T> kept;
      for (index_t i = begin; i < end; ++i) {
        T* const row = x + rows[i] * width;
        const token_t* const list = columns + begins[i];
        kept.resize(static_cast<std::size_t>(lengths[i]));
        for (std::size_t k = 0; k < kept.size(); ++k) kept[k] = row[list[k]];
        std::fill_n(row, width, -std::numeric_limits<T>::infinity());
        change(lengths[i], kept.data());
        for (std::size_t k = 0; k < kept.size(); ++k) row[list[k]] = kept[k];
      }
    });
  }

}  // namespace attend::ATTEND_IN(cpu)

namespace attend::ATTEND_IN(kernels) {

  /// Row rows[i] keeps `lengths[i]` of its columns, those that are listed from columns[begins[i]] on, and becomes minus infinity
  /// elsewhere; what is kept becomes x - log(sum of exp x over it). rows, begins and lengths are host memory; the columns of a
  /// list are distinct.
  template <class T>
  void restrict_rows(Cpu, index_t count, index_t width, const index_t* rows, const index_t* begins, const index_t* lengths,
                     const token_t* columns, T* x) {
    ATTEND_FASTEST(restrict_rows, count, width, rows, begins, lengths, columns, x);
    cpu::keep_columns(count, width, rows, begins, lengths, columns, x,
                      [](index_t n, T* kept) { log_softmax_forward(Cpu{}, index_t{1}, n, kept, kept); });
  }

  /// Row rows[i] keeps `lengths[i]` of its columns as they are, those that are listed from columns[begins[i]] on, and becomes
  /// minus infinity elsewhere. rows, begins and lengths are host memory.
  template <class T>
  void keep_listed(Cpu, index_t count, index_t width, const index_t* rows, const index_t* begins, const index_t* lengths,
                   const token_t* columns, T* x) {
    ATTEND_FASTEST(keep_listed, count, width, rows, begins, lengths, columns, x);
    cpu::keep_columns(count, width, rows, begins, lengths, columns, x, [](index_t, T*) {});
  }

}  // namespace attend::ATTEND_IN(kernels)

#if ATTEND_DISPATCH && !defined(ATTEND_TARGET)
#define ATTEND_TEXT "attend/cpu/constrain.hpp"
#include "attend/cpu/each_target.hpp"
#endif
#endif  // ATTEND_CPU_CONSTRAIN
