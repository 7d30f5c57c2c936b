#pragma once

#include <array>
#include <initializer_list>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "attend/autograd/var.hpp"
#include "attend/core/broadcast.hpp"
#include "attend/cpu/rearrange.hpp"

namespace attend {

namespace detail {

/// `axis` counted from 0. Throws IndexError.
inline index_t checked_axis(const char* operation, const Shape& shape, index_t axis) {
  if (axis < -shape.rank() || axis >= shape.rank())
    throw IndexError(operation, ": axis ", axis, " of x ", shape.text(), " does not exist");
  return axis < 0 ? axis + shape.rank() : axis;
}

/// The walk over y along with x where y's dimension i is x's dimension axes[i].
inline Strides permute_strides(const Shape& x, std::span<const index_t> axes) {
  std::array<index_t, Shape::max_rank> step{};
  index_t n = 1;
  for (index_t i = x.rank() - 1; i >= 0; --i) nth(step, i) = n, n *= x[i];
  Strides s;
  for (const index_t axis : axes) s.append(x[axis], nth(step, axis), 0);
  s.finish();
  return s;
}

}  // namespace detail

/// The same values, row by row, under another shape of the same size. Shares x's storage. Throws ShapeError.
template <class T, Device D>
Var<T, D> reshape(const Var<T, D>& x, const Shape& shape) {
  return record(x.value().reshape(shape), {x}, [x = x.sink()](const Tensor<T, D>& dy) { x.accumulate(dy.reshape(x.shape())); });
}

/// x's dimensions in another order: y's dimension i is x's dimension axes[i]. `permute(x, {0, 2, 1, 3})` makes
/// [batch, heads, length, width] of [batch, length, heads, width]. Throws ShapeError unless `axes` names each dimension once.
template <class T, Device D>
Var<T, D> permute(const Var<T, D>& x, std::span<const index_t> axes) {
  const Shape& shape = x.shape();
  const index_t rank = shape.rank();
  std::vector<index_t> order, inverse(rank, -1), dims;
  bool good = count_of(axes) == rank;
  for (std::size_t i = 0; good && i < axes.size(); ++i) {
    const index_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
    good = axis >= 0 && axis < rank && nth(inverse, axis) < 0;
    if (!good) break;
    nth(inverse, axis) = static_cast<index_t>(i);
    order.push_back(axis);
    dims.push_back(shape[axis]);
  }
  if (!good) {
    std::string text;
    for (const index_t axis : axes) text += (text.empty() ? "" : ", ") + std::to_string(axis);
    throw ShapeError("permute: axes {", text, "} do not name each of the ", rank, " dimensions of x ", shape.text(), " once");
  }
  Tensor<T, D> y{Shape(dims)};
  permute_copy(D{}, detail::permute_strides(shape, order), x.data(), {y.data()});
  return record(std::move(y), {x}, [=, x = x.sink()](const Tensor<T, D>& dy) {
    x.accumulate_with([&](auto dx) { permute_copy(D{}, detail::permute_strides(dy.shape(), inverse), dy.data(), dx); });
  });
}
/// The same with axes that are written out: `permute(x, {1, 0})`.
template <class T, Device D>
Var<T, D> permute(const Var<T, D>& x, std::initializer_list<index_t> axes) {
  return permute(x, std::span<const index_t>(axes.begin(), axes.size()));
}

/// Two dimensions of x exchanged; negative axes count from the end. Throws IndexError.
template <class T, Device D>
Var<T, D> transpose(const Var<T, D>& x, index_t axis_a, index_t axis_b) {
  const index_t a = detail::checked_axis("transpose", x.shape(), axis_a);
  const index_t b = detail::checked_axis("transpose", x.shape(), axis_b);
  std::vector<index_t> axes(x.shape().rank());
  std::iota(axes.begin(), axes.end(), index_t{0});
  std::swap(nth(axes, a), nth(axes, b));
  return permute(x, std::span<const index_t>(axes));
}

/// `count` indices of one axis, from `first` on; negative axes count from the end. Shares x's storage if the slice is one piece
/// of it (all axes before this one have size 1). Shapes: x [.., n, ..], y [.., count, ..]. Throws IndexError.
template <class T, Device D>
Var<T, D> slice(const Var<T, D>& x, index_t axis, index_t first, index_t count) {
  const index_t at = detail::checked_axis("slice", x.shape(), axis);
  const AroundAxis size(x.shape(), at);
  if (first < 0 || count < 0 || first > size.n - count)
    throw IndexError("slice: ", count, " from ", first, " along axis ", axis, " of x ", x.shape().text());
  const Shape shape = x.shape().with(at, count);
  const index_t step = size.n * size.inner, length = count * size.inner, offset = first * size.inner;
  Tensor<T, D> y;
  if (size.outer == 1) {
    y = x.value().reshape({size.n, size.inner}).rows(first, count).reshape(shape);
  } else {
    y = Tensor<T, D>(shape);
    copy_runs<T>(D{}, {x.data() + offset, size.outer, length, step}, {y.data(), size.outer, length});
  }
  return record(std::move(y), {x}, [=, x = x.sink()](const Tensor<T, D>& dy) {
    x.accumulate_with([&](auto dx) {
      if (!dx.add) {
        clear_runs<T>(D{}, {dx.data, size.outer, offset, step});
        clear_runs<T>(D{}, {dx.data + offset + length, size.outer, step - offset - length, step});
      }
      copy_runs<T>(D{}, {dy.data(), size.outer, length}, {dx.data + offset, size.outer, length, step}, dx.add);
    });
  });
}

/// Tensors one after another along an axis; negative axes count from the end. Shapes: parts [.., n_i, ..], equal but for n_i;
/// y [.., sum of n_i, ..]. Throws ShapeError; IndexError for an axis that does not exist.
template <class T, Device D>
Var<T, D> concatenate(std::span<const Var<T, D>> parts, index_t axis) {
  if (parts.empty()) throw ShapeError("concatenate: there is nothing to put together");
  const Shape& first = parts[0].shape();
  const index_t at = detail::checked_axis("concatenate", first, axis);
  index_t n = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Shape& shape = parts[i].shape();
    if (shape.rank() != first.rank() || !(shape.with(at, 0) == first.with(at, 0)))
      throw ShapeError("concatenate: part ", i, " has shape ", shape.text(), ", part 0 has ", first.text(),
                       "; they may differ only along axis ", axis);
    n += shape[at];
  }
  Tensor<T, D> y(first.with(at, n));
  const AroundAxis size(y.shape(), at);
  const index_t step = n * size.inner;
  std::vector<Var<T, D>> inputs(parts.begin(), parts.end());
  index_t offset = 0;
  for (const auto& part : inputs) {
    const index_t length = part.dim(at) * size.inner;
    copy_runs<T>(D{}, {part.data(), size.outer, length}, {y.data() + offset, size.outer, length, step});
    offset += length;
  }
  std::vector<GradientSink<T, D>> sinks;
  for (const auto& part : inputs) sinks.push_back(part.sink());
  return record(std::move(y), std::move(inputs), [=](const Tensor<T, D>& dy) {
    index_t from = 0;
    for (const auto& part : sinks) {
      const index_t length = part.shape()[at] * size.inner;
      part.accumulate_with([&](auto dx) {
        copy_runs<T>(D{}, {dy.data() + from, size.outer, length, step}, {dx.data, size.outer, length}, dx.add);
      });
      from += length;
    }
  });
}
/// The same of parts that are written out: `concatenate({x, y}, 0)`.
template <class T, Device D>
Var<T, D> concatenate(std::initializer_list<Var<T, D>> parts, index_t axis) {
  return concatenate(std::span<const Var<T, D>>(parts.begin(), parts.size()), axis);
}
/// The same of a list.
template <class T, Device D>
Var<T, D> concatenate(const std::vector<Var<T, D>>& parts, index_t axis) {
  return concatenate(std::span<const Var<T, D>>(parts), axis);
}

}  // namespace attend
