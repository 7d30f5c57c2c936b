#pragma once

#include <array>
#include <span>
#include <utility>
#include <vector>

#include "attend/autograd/var.hpp"
#include "attend/core/broadcast.hpp"
#include "attend/cpu/gemm.hpp"
#include "attend/ops/products.hpp"

namespace attend {

/// How the matrices of `matmul` are stored.
struct MatmulOptions {
  bool transpose_a = false;  ///< a's matrices are stored [k, m]
  bool transpose_b = false;  ///< b's matrices are stored [n, k]
};

namespace detail {

/// `count` products c_i = a_i b_i, with c_i on top if `add`, of matrices without gaps between their rows. If c's step is 0, all
/// are added up in one c. Where the matrices lie end to end, this is a single product of larger ones.
template <class T, Device D>
void product(const Products<T, D>& products, index_t count, kernels::Matrices<T> a, kernels::Matrices<T> b,
             kernels::Matrices<T> c, bool add) {
  const index_t m = c.first.rows, n = c.first.columns, k = a.first.columns;
  const bool a_end_to_end = a.step == m * k, b_end_to_end = b.step == k * n;
  if (count > 1 && c.step == 0) {
    if (a.first.transposed && !b.first.transposed && a_end_to_end && b_end_to_end) {
      a.first.columns *= count, b.first.rows *= count, count = 1;
    } else {
      for (index_t i = 0; i < count; ++i) products.batched(1, {a[i]}, {b[i]}, {c.first}, {.add = add || i > 0});
      return;
    }
  } else if (b.step == 0 && !a.first.transposed && a_end_to_end && c.step == m * n) {
    a.first.rows *= count, c.first.rows *= count, count = 1;
  }
  products.batched(count, a, b, c, {.add = add});
}

/// All dimensions but the last two.
inline Shape batch_shape(const Shape& shape) { return Shape(std::span<const index_t>(shape.begin(), shape.rank() - 2)); }

/// f(count, y, a, b) for the runs of `count` products along the innermost dimension of a batch; y, a, b: the matrices with
/// which the run begins.
template <class F>
void for_each_run(const Strides& s, F&& f) {
  if (s.count() == 0) return;
  StridedWalk walk = RowWalks(s).all;
  walk.go_to(0);
  for (index_t i = 0; i < walk.count(); ++i, walk.next()) f(s.inner(), walk.y, walk.a, walk.b);
}

/// Prepares a gradient into which `for_each_run` adds: cleared if several runs add to the same place. Returns whether each run is
/// to add.
template <class T, Device D>
bool start_gradient(D, const Strides& s, const std::array<index_t, Shape::max_rank>& steps, index_t size,
                    const kernels::Gradient<T>& gradient) {
  bool meet = s.count() == 0;
  for (index_t i = 0; i + 1 < s.rank; ++i) meet = meet || nth(steps, i) == 0;
  if (!meet) return gradient.add;
  if (!gradient.add) fill(D{}, size, T(0), gradient.data);
  return true;
}

}  // namespace detail

/// y = a b, matrix by matrix.  da = dy b^T,  db = a^T dy, each summed over the batch dimensions in which it was repeated.
/// Shapes: a [..., m, k] ([..., k, m] with `transpose_a`), b [..., k, n] ([..., n, k] with `transpose_b`), y [..., m, n]; the
/// batch dimensions `...` broadcast as in `add`. Throws ShapeError.
template <class T, Device D>
Var<T, D> matmul(const Var<T, D>& a, const Var<T, D>& b, const MatmulOptions& options = {}) {
  const bool ta = options.transpose_a, tb = options.transpose_b;
  const auto expect = [&](bool good, const char* what) {
    if (!good)
      throw ShapeError("matmul: a has shape ", a.shape().text(), (ta ? ", transposed," : ""), " and b ", b.shape().text(),
                       (tb ? ", transposed" : ""), "; expected ", what);
  };
  expect(a.shape().rank() >= 2 && b.shape().rank() >= 2, "two dimensions or more of each");
  const detail::Products<T, D> products("matmul");
  const index_t m = a.dim(ta ? -1 : -2), k = a.dim(ta ? -2 : -1), n = b.dim(tb ? -2 : -1);
  expect(b.dim(tb ? -1 : -2) == k, "[.., m, k] and [.., k, n]");
  const Shape batch_a = detail::batch_shape(a.shape()), batch_b = detail::batch_shape(b.shape());
  const Shape batch = broadcast_shape("matmul", batch_a, batch_b);
  const Strides s = broadcast_strides(batch, batch_a, batch_b);

  std::vector<index_t> dims(batch.begin(), batch.end());
  dims.insert(dims.end(), {m, n});
  Tensor<T, D> y{Shape(dims)};
  // The matrices of a run, in the tensor that begins at `data`.
  const auto run_of_a = [=, step = s.inner_a()](T* data, index_t at) {
    return kernels::Matrices{kernels::stored(ta, data + at * m * k, m, k), step * m * k};
  };
  const auto run_of_b = [=, step = s.inner_b()](T* data, index_t at) {
    return kernels::Matrices{kernels::stored(tb, data + at * k * n, k, n), step * k * n};
  };
  const auto run_of_y = [=](T* data, index_t at) {
    return kernels::Matrices{kernels::stored(false, data + at * m * n, m, n), m * n};
  };
  detail::for_each_run(s, [&](index_t count, index_t at_y, index_t at_a, index_t at_b) {
    detail::product(products, count, run_of_a(a.data(), at_a), run_of_b(b.data(), at_b), run_of_y(y.data(), at_y), false);
  });
  return record(std::move(y), {a, b}, [=, va = a.value(), vb = b.value()](const Tensor<T, D>& dy) {
    // What was stored transposed gets its gradient transposed too: (x y)^T = y^T x^T.
    a.accumulate_with([&](auto da) {
      const bool add = detail::start_gradient(D{}, s, s.a, va.size(), da);
      detail::for_each_run(s, [&](index_t count, index_t at_y, index_t at_a, index_t at_b) {
        const auto dys = run_of_y(dy.data(), at_y), bs = run_of_b(vb.data(), at_b), das = run_of_a(da.data, at_a);
        if (ta) detail::product(products, count, bs, dys.transpose(), das.transpose(), add);
        else detail::product(products, count, dys, bs.transpose(), das, add);
      });
    });
    b.accumulate_with([&](auto db) {
      const bool add = detail::start_gradient(D{}, s, s.b, vb.size(), db);
      detail::for_each_run(s, [&](index_t count, index_t at_y, index_t at_a, index_t at_b) {
        const auto dys = run_of_y(dy.data(), at_y), as = run_of_a(va.data(), at_a), dbs = run_of_b(db.data, at_b);
        if (tb) detail::product(products, count, dys.transpose(), as, dbs.transpose(), add);
        else detail::product(products, count, as.transpose(), dys, dbs, add);
      });
    });
  });
}

}  // namespace attend
