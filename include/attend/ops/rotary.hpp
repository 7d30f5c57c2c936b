#pragma once

#include <cmath>

#include "attend/autograd/var.hpp"
#include "attend/cpu/rotary.hpp"

namespace attend {

/// What rotary positions turn by: row p has the cosines of p * base^(-2i / width) for i from 0 to width / 2, then the sines.
/// Shape: [length, width]. Throws ValueError for a width that is odd or not positive. Source: Su et al. 2021, eq. 15.
template <class T>
Tensor<T, Cpu> rotary_turns(index_t length, index_t width, double base = 10000) {
  check_value(length >= 0 && width > 0 && width % 2 == 0, "rotary_turns", "length ", length, ", width ", width,
              ", expected an even width");
  check_value(base > 0, "rotary_turns", "base ", base, " is not positive");
  const index_t pairs = width / 2;
  Tensor<T, Cpu> turns({length, width});
  for (index_t i = 0; i < pairs; ++i) {
    const double frequency = std::pow(base, -2 * static_cast<double>(i) / static_cast<double>(width));
    for (index_t p = 0; p < length; ++p) {
      turns(p, i) = static_cast<T>(std::cos(static_cast<double>(p) * frequency));
      turns(p, pairs + i) = static_cast<T>(std::sin(static_cast<double>(p) * frequency));
    }
  }
  return turns;
}

/// How `rotary` finds what turns in a row.
struct RotaryOptions {
  index_t heads = 1;  ///< how many of them stand at the beginning of a row; what comes behind them stays as it is
  index_t width = 0;  ///< of a head; of it as many columns turn, from its first on, as `turns` is wide
  RotaryOrder order = RotaryOrder::halves;
};

/// Turns each pair (a, b) of columns of a head by the angle that `turns` has for its row's place:
///   (a cos - b sin, b cos + a sin),  and back for the gradient.
/// So q . k of two rows depends on how far they stand apart and not on where. A packed projection of queries, keys and values is
/// turned at once, its queries' and keys' heads being the first. Shapes: x, y [rows, columns]; turns [places, an even number], as
/// `rotary_turns` makes it. Throws ShapeError, also for a sentence longer than there are places. Source: Su et al. 2021.
template <class T, Device D>
Var<T, D> rotary(const Var<T, D>& x, const Tensor<Wide<T>, D>& turns, const Places& places, const RotaryOptions& options) {
  const RowsAndWidth size = rows_and_width(x.shape());
  const index_t rows = size.rows, columns = size.width;
  if (turns.rank() != 2 || turns.dim(1) % 2 != 0 || turns.dim(1) > options.width)
    throw ShapeError("rotary: turns have shape ", turns.shape().text(), ", expected [places, an even number up to ",
                     options.width, "]");
  if (options.heads < 0 || options.width < 0 || options.heads * options.width > columns)
    throw ShapeError("rotary: x has shape ", x.shape().text(), ", expected at least ", options.heads, " heads of ", options.width,
                     " columns");
  if (places.sentences) places.sentences->check_rows("rotary", "x", rows);
  check_value(places.sentences || places.place >= 0, "rotary", "place ", places.place, " is negative");
  const index_t longest = places.sentences ? places.sentences->longest() : places.place + 1;
  if (longest > turns.dim(0))
    throw ShapeError("rotary: a sentence of ", longest, " tokens is longer than the ", turns.dim(0), " positions of the model");
  const kernels::RotaryLayout layout{columns, options.heads, options.width, turns.dim(1), options.order};
  const auto turned = [=](const Tensor<T, D>& from, Wide<T> sign) {
    Tensor<T, D> to(from.shape());
    rotary_turn(D{}, places, rows, layout, turns.data(), sign, from.data(), to.data());
    return to;
  };
  return record(turned(x.value(), Wide<T>(1)), {x},
                [=, x = x.sink()](const Tensor<T, D>& dy) { x.accumulate(turned(dy, Wide<T>(-1))); });
}

}  // namespace attend
