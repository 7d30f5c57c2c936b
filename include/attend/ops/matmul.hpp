#pragma once

#include <array>
#include <span>
#include <utility>
#include <vector>

#include "attend/autograd/var.hpp"
#include "attend/core/broadcast.hpp"
#include "attend/cpu/gemm.hpp"

namespace attend {

struct MatmulOptions {
  bool transpose_a = false;  ///< a's matrices are stored [k, m]
  bool transpose_b = false;  ///< b's matrices are stored [n, k]
};

namespace detail {

/// `count` products c_i = op(a_i) op(b_i) + beta * c_i of matrices that lie a_step, b_step, c_step elements apart. With a c_step
/// of 0 all are added up in one c. Where the matrices lie end to end, this is a single product of larger ones.
template <class T, Device D>
void product(D, index_t count, bool ta, bool tb, index_t m, index_t n, index_t k, const T* a, index_t a_step, const T* b,
             index_t b_step, T beta, T* c, index_t c_step) {
  const index_t lda = ta ? m : k, ldb = tb ? k : n;
  if (count > 1 && c_step == 0) {
    if (ta && !tb && a_step == m * k && b_step == k * n) {
      k *= count, count = 1;
    } else {
      for (index_t i = 0; i < count; ++i)
        gemm(D{}, ta, tb, m, n, k, T(1), a + i * a_step, lda, b + i * b_step, ldb, i == 0 ? beta : T(1), c, n);
      return;
    }
  } else if (b_step == 0 && !ta && a_step == m * k && c_step == m * n) {
    m *= count, count = 1;
  }
  gemm_batched(D{}, count, ta, tb, m, n, k, T(1), a, lda, a_step, b, ldb, b_step, beta, c, n, c_step);
}

/// All dimensions but the last two.
inline Shape batch_shape(const Shape& shape) {
  return Shape(std::span<const index_t>(shape.begin(), static_cast<std::size_t>(shape.rank() - 2)));
}

/// f(count, y, a, b) for the runs of `count` products along the innermost dimension of a batch; y, a, b: the matrices with
/// which the run begins.
template <class F>
void for_each_run(const Strides& s, F&& f) {
  if (s.count() == 0) return;
  StridedWalk walk = RowWalks(s).all;
  walk.go_to(0);
  for (index_t i = 0; i < walk.count(); ++i, walk.next()) f(s.inner(), walk.y, walk.a, walk.b);
}

/// Prepares a gradient into which `for_each_run` adds: cleared where runs meet in it. Returns the beta of each run.
template <class T, Device D>
T start_gradient(D, const Strides& s, const std::array<index_t, Shape::max_rank>& steps, index_t size, T keep, T* gradient) {
  bool meet = s.count() == 0;
  for (index_t i = 0; i + 1 < s.rank; ++i) meet = meet || steps[static_cast<std::size_t>(i)] == 0;
  if (!meet) return keep;
  if (keep == T(0)) fill(D{}, size, T(0), gradient);
  return T(1);
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
  const index_t m = a.dim(ta ? -1 : -2), k = a.dim(ta ? -2 : -1), n = b.dim(tb ? -2 : -1);
  expect(b.dim(tb ? -1 : -2) == k, "[.., m, k] and [.., k, n]");
  const Shape batch_a = detail::batch_shape(a.shape()), batch_b = detail::batch_shape(b.shape());
  const Shape batch = broadcast_shape("matmul", batch_a, batch_b);
  const Strides s = broadcast_strides(batch, batch_a, batch_b);

  std::vector<index_t> dims(batch.begin(), batch.end());
  dims.insert(dims.end(), {m, n});
  Tensor<T, D> y{Shape(dims)};
  const index_t ma = m * k, mb = k * n, my = m * n;  // elements of one matrix
  const index_t step_a = s.inner_a() * ma, step_b = s.inner_b() * mb;
  detail::for_each_run(s, [&](index_t count, index_t at_y, index_t at_a, index_t at_b) {
    detail::product(D{}, count, ta, tb, m, n, k, a.data() + at_a * ma, step_a, b.data() + at_b * mb, step_b, T(0),
                    y.data() + at_y * my, my);
  });
  return record(std::move(y), {a, b}, [=, va = a.value(), vb = b.value()](const Tensor<T, D>& dy) {
    const T *pa = va.data(), *pb = vb.data(), *g = dy.data();
    a.accumulate_with([&](T* da, T keep) {
      const T beta = detail::start_gradient(D{}, s, s.a, va.size(), keep, da);
      detail::for_each_run(s, [&](index_t count, index_t at_y, index_t at_a, index_t at_b) {
        const T *gi = g + at_y * my, *bi = pb + at_b * mb;
        T* di = da + at_a * ma;
        if (ta) detail::product(D{}, count, tb, true, k, m, n, bi, step_b, gi, my, beta, di, step_a);
        else detail::product(D{}, count, false, !tb, m, k, n, gi, my, bi, step_b, beta, di, step_a);
      });
    });
    b.accumulate_with([&](T* db, T keep) {
      const T beta = detail::start_gradient(D{}, s, s.b, vb.size(), keep, db);
      detail::for_each_run(s, [&](index_t count, index_t at_y, index_t at_a, index_t at_b) {
        const T *gi = g + at_y * my, *ai = pa + at_a * ma;
        T* di = db + at_b * mb;
        if (tb) detail::product(D{}, count, true, ta, n, k, m, gi, my, ai, step_a, beta, di, step_b);
        else detail::product(D{}, count, !ta, false, k, n, m, ai, step_a, gi, my, beta, di, step_b);
      });
    });
  });
}

}  // namespace attend
