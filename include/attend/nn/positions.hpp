#pragma once

#include <array>

#include "attend/core/options.hpp"
#include "attend/nn/init.hpp"
#include "attend/ops/arithmetic.hpp"
#include "attend/ops/positions.hpp"

namespace attend::nn {

enum class PositionKind {
  sinusoidal,         ///< fixed sinusoids, sine and cosine side by side, as in the paper
  sinusoidal_halves,  ///< fixed sinusoids, all sines before all cosines, as in Marian
  learned,
  none
};
constexpr auto names_of(PositionKind) {
  using enum PositionKind;
  return std::to_array<Named<PositionKind>>(
      {{sinusoidal, "sinusoidal"}, {sinusoidal_halves, "sinusoidal_halves"}, {learned, "learned"}, {none, "none"}});
}

/// Adds to each row of a sentence what says where in the sentence it stands: fixed sinusoids or a learned table.
template <class T, Device D = Cpu>
struct Positions {
  using value_type = T;
  using device_type = D;
  PositionKind kind;
  Var<T, D> table;  // [max_length, width]; for sinusoids a constant, computed and not stored

  Positions(PositionKind kind_, index_t max_length, index_t width, double base = 10000) : kind(kind_) {
    if (kind == PositionKind::none) return;
    check_value(max_length > 0, "Positions", "max_length ", max_length, " is not positive");
    if (kind != PositionKind::learned) {
      const auto order = kind == PositionKind::sinusoidal ? SinusoidOrder::interleaved : SinusoidOrder::halves;
      table = Var<T, D>(sinusoid<T>(max_length, width, base, order).template to<D>());
    } else {
      table = constant_parameter<T, D>({max_length, width}, 0);
      normal(table.value(), 0.02);
    }
  }
  /// Shapes: x [rows, width]. Throws ShapeError if a sentence has more rows than there are positions.
  Var<T, D> operator()(const Var<T, D>& x, const Segments& segments) const {
    return kind == PositionKind::none ? x : add_positions(x, table, segments);
  }
  /// The same for rows that all stand at place `place` of their sentences, from 0. Throws ShapeError if there is no such
  /// place.
  Var<T, D> at(const Var<T, D>& x, index_t place) const {
    check_place(place);
    return kind == PositionKind::none ? x : add(x, Var<T, D>(table.value().rows(place, 1)));
  }
  /// Throws ShapeError if there is no such place.
  void check_place(index_t place) const {
    if (kind != PositionKind::none && place >= table.dim(0))
      throw ShapeError("Positions: token ", place, " is beyond the ", table.dim(0), " positions of the model");
  }
  template <class F>
  void fields(F&& field) {
    if (kind == PositionKind::learned) field("weight", table);
  }
};

}  // namespace attend::nn
