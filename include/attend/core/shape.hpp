#pragma once

#include <algorithm>
#include <array>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>

#include "attend/core/error.hpp"
#include "attend/core/types.hpp"

namespace attend {

/// The sizes of a tensor's dimensions, outermost first. Up to `Shape::max_rank` of them, held without an allocation.
/// A shape of rank 0 is a scalar of one element.
class Shape {
 public:
  static constexpr index_t max_rank = 8;

  Shape() = default;
  /// `{3, 4}`. Throws as the next.
  Shape(std::initializer_list<index_t> dims) : Shape(std::span<const index_t>(dims.begin(), dims.size())) {}
  /// Throws ShapeError if a size is negative, there are more than `max_rank`, or their product overflows.
  explicit Shape(std::span<const index_t> dims) {
    if (count_of(dims) > max_rank) throw ShapeError("shape: got ", dims.size(), " dimensions, at most ", max_rank);
    rank_ = count_of(dims);
    std::copy(dims.begin(), dims.end(), dims_.begin());
    for (const index_t d : dims) {
      if (d < 0) throw ShapeError("shape: a size in ", text(), " is negative");
      if (d != 0 && size_ > std::numeric_limits<index_t>::max() / d)
        throw ShapeError("shape: ", text(), " has too many elements");
      size_ *= d;
    }
  }

  /// The number of dimensions.
  [[nodiscard]] index_t rank() const { return rank_; }
  /// The number of elements: the product of all sizes.
  [[nodiscard]] index_t size() const { return size_; }
  /// The size of dimension `i`; negative `i` counts from the end (-1 is the innermost). Throws IndexError.
  index_t operator[](index_t i) const { return nth(dims_, axis(i)); }
  /// `i` as a dimension number from 0, where negative numbers count from the end. Throws IndexError.
  [[nodiscard]] index_t axis(index_t i) const {
    if (i < -rank_ || i >= rank_) throw IndexError("shape: dimension ", i, " of ", text(), " does not exist");
    return i < 0 ? i + rank_ : i;
  }
  /// A copy in which dimension `i` has size `n`.
  [[nodiscard]] Shape with(index_t i, index_t n) const {
    auto dims = dims_;
    nth(dims, axis(i)) = n;
    return Shape(std::span<const index_t>(dims.data(), rank_));
  }
  [[nodiscard]] const index_t* begin() const { return dims_.data(); }
  [[nodiscard]] const index_t* end() const { return dims_.data() + rank_; }
  /// `[2, 3, 4]`.
  [[nodiscard]] std::string text() const {
    std::string s = "[";
    for (index_t i = 0; i < rank_; ++i) s += (i ? ", " : "") + std::to_string(nth(dims_, i));
    return s + "]";
  }
  friend bool operator==(const Shape& a, const Shape& b) {
    return a.rank_ == b.rank_ && std::equal(a.begin(), a.end(), b.begin());
  }

 private:
  std::array<index_t, max_rank> dims_{};
  index_t rank_ = 0;
  index_t size_ = 1;
};

/// A tensor seen as rows over its last dimension.
struct RowsAndWidth {
  index_t rows, width;
};

/// `[a, b, n]` is a·b rows of width n. Throws ShapeError for a scalar.
inline RowsAndWidth rows_and_width(const Shape& shape) {
  if (shape.rank() == 0) throw ShapeError("rows_and_width: a scalar has no last dimension");
  const index_t width = shape[-1];
  index_t rows = 1;
  for (index_t i = 0; i + 1 < shape.rank(); ++i) rows *= shape[i];
  return {rows, width};
}

/// A shape as [outer, n, inner] around one axis, counted from 0.
struct AroundAxis {
  index_t outer = 1, n = 1, inner = 1;
  /// Throws IndexError if the shape has no such axis.
  AroundAxis(const Shape& shape, index_t axis) : n(shape[axis]) {
    for (index_t i = 0; i < axis; ++i) outer *= shape[i];
    for (index_t i = axis + 1; i < shape.rank(); ++i) inner *= shape[i];
  }
};

/// Throws ShapeError `operation: name has shape [..], expected [..]` unless both are equal.
inline void check_shape(const char* operation, const char* name, const Shape& got, const Shape& expected) {
  if (!(got == expected)) throw ShapeError(operation, ": ", name, " has shape ", got.text(), ", expected ", expected.text());
}

}  // namespace attend
