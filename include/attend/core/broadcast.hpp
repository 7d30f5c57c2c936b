#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <string>

#include "attend/core/shape.hpp"

namespace attend {

/// The shape that two shapes broadcast to, by NumPy's rule: aligned at the last dimension, two sizes are equal or one of them
/// is 1 (or missing). `[5, 1, 4]` and `[3, 1]` give `[5, 3, 4]`. Throws ShapeError.
inline Shape broadcast_shape(const char* operation, const Shape& a, const Shape& b) {
  const index_t rank = std::max(a.rank(), b.rank());
  std::array<index_t, Shape::max_rank> dims{};
  for (index_t i = 1; i <= rank; ++i) {
    const index_t m = i <= a.rank() ? a[-i] : 1, n = i <= b.rank() ? b[-i] : 1;
    if (m != n && m != 1 && n != 1) throw ShapeError(operation, ": shapes ", a.text(), " and ", b.text(), " do not broadcast");
    nth(dims, rank - i) = m == 1 ? n : m;
  }
  return Shape(std::span<const index_t>(dims.data(), rank));
}

/// How to walk over the elements of one contiguous array y and, along with it, over one or two others that stand still where
/// they are broadcast. Dimensions that all of them walk through in the same way are joined: two equal shapes leave a single
/// dimension, a row against a matrix two. A plain struct, so that a kernel on a device can take it by value.
struct Strides {
  index_t rank = 0;                               ///< at least 1 after `make_strides`
  std::array<index_t, Shape::max_rank> size{};    ///< of y, outermost first
  std::array<index_t, Shape::max_rank> a{}, b{};  ///< elements from one index to the next; 0 where it stands still

  /// Elements of y.
  [[nodiscard]] index_t count() const {
    index_t n = 1;
    for (index_t i = 0; i < rank; ++i) n *= nth(size, i);
    return n;
  }
  /// The size of the innermost dimension, and from element to element of it in a and in b.
  [[nodiscard]] index_t inner() const { return nth(size, rank - 1); }
  [[nodiscard]] index_t inner_a() const { return nth(a, rank - 1); }
  [[nodiscard]] index_t inner_b() const { return nth(b, rank - 1); }

  /// Adds an innermost dimension, joined to the one before if a and b walk through the two as through one.
  void append(index_t n, index_t stride_a, index_t stride_b) {
    if (n == 1) return;
    if (rank > 0) {
      const auto last = static_cast<std::size_t>(rank - 1);
      if (a[last] == n * stride_a && b[last] == n * stride_b) {
        size[last] *= n, a[last] = stride_a, b[last] = stride_b;
        return;
      }
    }
    const auto next = static_cast<std::size_t>(rank++);
    size[next] = n, a[next] = stride_a, b[next] = stride_b;
  }
  /// Makes a walk over a single element one of rank 1.
  void finish() {
    if (rank == 0) rank = 1, size[0] = 1;
  }
};

/// The walk over y along with a and b, contiguous arrays whose shapes broadcast to y's.
inline Strides broadcast_strides(const Shape& y, const Shape& a, const Shape& b) {
  std::array<index_t, Shape::max_rank> steps_a{}, steps_b{};
  const auto fill_steps = [&](const Shape& x, std::array<index_t, Shape::max_rank>& steps) {
    index_t step = 1;
    for (index_t i = 1; i <= x.rank(); ++i) {
      nth(steps, y.rank() - i) = x[-i] == 1 ? 0 : step;
      step *= x[-i];
    }
  };
  fill_steps(a, steps_a);
  fill_steps(b, steps_b);
  Strides s;
  for (index_t i = 0; i < y.rank(); ++i) s.append(y[i], nth(steps_a, i), nth(steps_b, i));
  s.finish();
  return s;
}

/// Goes through some dimensions of a `Strides` in order and knows at each step where y, a and b stand.
class StridedWalk {
 public:
  index_t y = 0, a = 0, b = 0;

  /// Adds an innermost dimension, with the elements from one index of it to the next in y, a and b.
  void append(index_t size, index_t step_y, index_t step_a, index_t step_b) {
    nth(dims_, rank_++) = {size, step_y, step_a, step_b, 0};
    count_ *= size;
  }
  /// Steps of the walk.
  [[nodiscard]] index_t count() const { return count_; }
  /// To step i, counted from 0.
  void go_to(index_t i) {
    y = a = b = 0;
    if (count_ == 0) return;
    for (index_t d = rank_ - 1; d >= 0; --d) {
      Dim& dim = nth(dims_, d);
      dim.at = i % dim.size, i /= dim.size;
      y += dim.at * dim.y, a += dim.at * dim.a, b += dim.at * dim.b;
    }
  }
  /// To the next step; after the last, the first.
  void next() {
    for (index_t d = rank_ - 1; d >= 0; --d) {
      Dim& dim = nth(dims_, d);
      y += dim.y, a += dim.a, b += dim.b;
      if (++dim.at < dim.size) return;
      y -= dim.size * dim.y, a -= dim.size * dim.a, b -= dim.size * dim.b;
      dim.at = 0;
    }
  }

 private:
  struct Dim {
    index_t size, y, a, b, at;
  };
  std::array<Dim, Shape::max_rank> dims_;
  index_t rank_ = 0, count_ = 1;
};

/// Walks over the dimensions but the innermost: over `all` of them, over those `kept`, in which a moves, and over those `summed`,
/// in which it stands still.
struct RowWalks {
  StridedWalk all, kept, summed;
  explicit RowWalks(const Strides& s) {
    std::array<index_t, Shape::max_rank> step{};
    index_t y = s.inner();
    for (index_t d = s.rank - 2; d >= 0; --d) nth(step, d) = y, y *= nth(s.size, d);
    for (index_t i = 0; i + 1 < s.rank; ++i) {
      const auto d = static_cast<std::size_t>(i);
      all.append(s.size[d], step[d], s.a[d], s.b[d]);
      (s.a[d] != 0 ? kept : summed).append(s.size[d], step[d], s.a[d], s.b[d]);
    }
  }
};

}  // namespace attend
