#pragma once

#include <cmath>

#include "attend/autograd/var.hpp"
#include "attend/cpu/positions.hpp"

namespace attend {

/// In which order a row of sinusoids has its columns.
enum class SinusoidOrder {
  interleaved,  ///< sine and cosine of each angle side by side, as in the paper
  halves,       ///< all sines, then all cosines, as in Marian and tensor2tensor; an odd width has one sine more
};

/// The column, in interleaved order, of the number that stands in `column` of the given order.
constexpr index_t interleaved_column(index_t column, index_t width, SinusoidOrder order) {
  const index_t sines = (width + 1) / 2;
  if (order == SinusoidOrder::interleaved) return column;
  return column < sines ? 2 * column : 2 * (column - sines) + 1;
}

/// PE[pos, 2i] = sin(pos / base^(2i / width)),  PE[pos, 2i + 1] = cos of the same angle, for pos from 0; any width, odd too.
/// In the order `halves` column 2i of these stands in column i, and column 2i + 1 in column ceil(width / 2) + i.
/// Shape: [length, width]. PE(pos + k) is a fixed linear map of PE(pos): each pair of columns turns by an angle.
/// Throws ValueError. Source: Vaswani et al. 2017, section 3.5.
template <class T>
Tensor<T, Cpu> sinusoid(index_t length, index_t width, double base = 10000, SinusoidOrder order = SinusoidOrder::interleaved) {
  check_value(length >= 0 && width > 0, "sinusoid", "length ", length, ", width ", width);
  check_value(base > 0, "sinusoid", "base ", base, " is not positive");
  Tensor<T, Cpu> table({length, width});
  for (index_t pos = 0; pos < length; ++pos)
    for (index_t column = 0; column < width; ++column) {
      const index_t j = interleaved_column(column, width, order);
      const double angle = static_cast<double>(pos) / std::pow(base, static_cast<double>(j - j % 2) / static_cast<double>(width));
      table.data()[pos * width + column] = static_cast<T>(j % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  return table;
}

/// y = x + table[position]; the rows of each sentence count from 0.  dx = dy,  dtable[p] = the sum of dy over rows at p.
/// Shapes: x, y [rows, width], table [at least the longest sentence, width]. Throws ShapeError.
template <class T, Device D>
Var<T, D> add_positions(const Var<T, D>& x, const Var<T, D>& table, const Segments& segments) {
  const auto [rows, width_of_rows] = rows_and_width(x.shape());
  const index_t width = width_of_rows;
  segments.check_rows("add_positions", "x", rows);
  if (table.shape().rank() != 2 || table.dim(1) != width)
    throw ShapeError("add_positions: table has shape ", table.shape().text(), ", expected [positions, ", width, "]");
  if (segments.longest() > table.dim(0))
    throw ShapeError("add_positions: a sentence of ", segments.longest(), " tokens is longer than the ", table.dim(0),
                     " positions of the model");
  Tensor<T, D> y(x.shape());
  add_positions_forward(D{}, segments, width, x.data(), table.data(), y.data());
  return record(std::move(y), {x, table}, [=, x = x.sink()](const Tensor<T, D>& dy) {
    x.accumulate(dy);
    table.accumulate_with([&](auto g) { add_positions_backward_table(D{}, segments, width, table.size(), dy.data(), g); });
  });
}

}  // namespace attend
