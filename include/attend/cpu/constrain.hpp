#if !defined(ATTEND_CPU_CONSTRAIN) || defined(ATTEND_READING)
#ifndef ATTEND_READING
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
#include "attend/kernels/constrain.hpp"

#endif  // ATTEND_READING

/// What searches do to single rows of log-probabilities x [., width]. Rows and columns are within it; where whole rows change
/// (`keep_entries` and lists of columns), no row is named twice.
namespace attend::kernels {

/// values[i] = what x has at place i.
template <class T>
void take_entries(Cpu, const Entries& at, index_t width, const T* x, T* values) {
  ATTEND_FASTEST(take_entries, at, width, x, values);
  for (index_t i = 0; i < at.count; ++i) values[i] = x[at.rows[i] * width + at.columns[i]];
}

/// What x has at each place becomes `value`.
template <class T>
void set_entries(Cpu, const Entries& at, index_t width, std::type_identity_t<T> value, T* x) {
  ATTEND_FASTEST(set_entries, at, width, value, x);
  for (index_t i = 0; i < at.count; ++i) x[at.rows[i] * width + at.columns[i]] = value;
}

/// What x has at each place is multiplied by `factor` where it is below 0, and divided by it where it is above: a factor above 1
/// lowers it either way. No place is named twice.
template <class T>
void scale_entries(Cpu, const Entries& at, index_t width, std::type_identity_t<T> factor, T* x) {
  ATTEND_FASTEST(scale_entries, at, width, factor, x);
  for (index_t i = 0; i < at.count; ++i) {
    T& value = x[at.rows[i] * width + at.columns[i]];
    value = value < T(0) ? value * factor : value / factor;
  }
}

/// x[r, column] += value for every row r. x [rows, width].
template <class T>
void add_to_column(Cpu, index_t rows, index_t width, token_t column, std::type_identity_t<T> value, T* x) {
  ATTEND_FASTEST(add_to_column, rows, width, column, value, x);
  for (index_t r = 0; r < rows; ++r) x[r * width + column] += value;
}

/// The row of place i becomes minus infinity but for values[i] at that place.
template <class T>
void keep_entries(Cpu, const Entries& at, index_t width, const T* values, T* x) {
  ATTEND_FASTEST(keep_entries, at, width, values, x);
  parallel_rows(at.count, width, [=](index_t begin, index_t end) {
    for (index_t i = begin; i < end; ++i) {
      T* const row = x + at.rows[i] * width;
      std::fill_n(row, width, -std::numeric_limits<T>::infinity());
      row[at.columns[i]] = values[i];
    }
  });
}

}  // namespace attend::kernels

namespace attend::ATTEND_CPU {

/// The rows keep the columns that are listed, as change(length, values) leaves them, and become minus infinity elsewhere.
template <class T, class F>
void keep_columns(const kernels::ColumnLists& lists, index_t width, T* x, const F& change) {
  parallel_rows(lists.count, width, [=](index_t begin, index_t end) {
    std::vector<T> kept;
    for (index_t i = begin; i < end; ++i) {
      T* const row = x + lists.rows[i] * width;
      const token_t* const list = lists.columns + lists.begins[i];
      kept.resize(lists.lengths[i]);
      for (std::size_t k = 0; k < kept.size(); ++k) kept[k] = row[list[k]];
      std::fill_n(row, width, -std::numeric_limits<T>::infinity());
      change(lists.lengths[i], kept.data());
      for (std::size_t k = 0; k < kept.size(); ++k) row[list[k]] = kept[k];
    }
  });
}

}  // namespace attend::ATTEND_CPU

namespace attend::kernels {

/// The rows keep the columns that are listed, and become minus infinity elsewhere; what is kept becomes x - log(sum of exp x over
/// it). The columns of a list are distinct.
template <class T>
void restrict_rows(Cpu, const ColumnLists& lists, index_t width, T* x) {
  ATTEND_FASTEST(restrict_rows, lists, width, x);
  cpu::keep_columns(lists, width, x, [](index_t n, T* kept) { log_softmax_forward(Cpu{}, index_t{1}, n, kept, kept); });
}

/// The rows keep the columns that are listed as they are, and become minus infinity elsewhere.
template <class T>
void keep_listed(Cpu, const ColumnLists& lists, index_t width, T* x) {
  ATTEND_FASTEST(keep_listed, lists, width, x);
  cpu::keep_columns(lists, width, x, [](index_t, T*) {});
}

}  // namespace attend::kernels

#define ATTEND_READ_AGAIN "attend/cpu/constrain.hpp"
#include "attend/cpu/each_target.hpp"
#endif
