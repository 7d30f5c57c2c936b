#pragma once

#include <utility>

#include "attend/cpu/residual.hpp"
#include "attend/ops/arithmetic.hpp"
#include "attend/ops/dropout.hpp"
#include "attend/ops/layer_norm.hpp"

/// What stands around the sublayers of a Transformer, in one pass each way.
namespace attend {

/// y = x + dropout(branch),  dx = dy,  dbranch = mask * dy / (1 - p): `add(x, dropout(branch, p))` without what stands between.
/// Shapes: x, branch, y any, all alike. Throws ShapeError; ValueError unless 0 <= p < 1.
template <class T, Device D>
Var<T, D> add_dropout(const Var<T, D>& x, const Var<T, D>& branch, double p, Generator& generator = default_generator()) {
  check_shape("add_dropout", "branch", branch.shape(), x.shape());
  const DropoutMask mask = detail::next_mask(p, generator);
  Tensor<T, D> y(x.shape());
  add_dropout_forward(D{}, y.size(), mask, x.data(), branch.data(), y.data());
  return record(std::move(y), {x, branch}, [mask, x = x.sink(), branch = branch.sink()](const Tensor<T, D>& dy) {
    x.accumulate(dy);
    if (mask.threshold == 0) return branch.accumulate(dy);
    branch.accumulate_with([&](T* db, T keep) {
      dropout_apply(D{}, dy.size(), mask.stream, mask.threshold, static_cast<Wide<T>>(mask.scale), dy.data(), keep, db);
    });
  });
}

/// y = layer_norm(x + dropout(branch), gamma, beta): of what stands between, only the sum is kept, which the norm's backward
/// reads. Shapes: x, branch, y alike; gamma, beta as for layer_norm. Throws ShapeError; ValueError, also unless 0 <= p < 1.
template <class T, Device D>
Var<T, D> add_dropout_norm(const Var<T, D>& x, const Var<T, D>& branch, double p, const Var<T, D>& gamma, const Var<T, D>& beta,
                           const LayerNormOptions& options = {}, Generator& generator = default_generator()) {
  check_shape("add_dropout_norm", "branch", branch.shape(), x.shape());
  const LayerNormLayout norm = detail::layer_norm_layout("add_dropout_norm", x.shape(), gamma, beta, options);
  const DropoutMask mask = detail::next_mask(p, generator);
  const index_t rows = norm.width == 0 ? 0 : x.size() / norm.width;
  Tensor<T, D> sum(x.shape()), y(x.shape());
  Tensor<Wide<T>, D> mean({rows}), rstd({rows});
  add_dropout_norm_forward(D{}, norm, rows, mask, x.data(), branch.data(), gamma.data(), beta.data(), sum.data(), y.data(),
                           mean.data(), rstd.data());
  return record(std::move(y), {x, branch, gamma, beta}, [=, x = x.sink(), branch = branch.sink()](const Tensor<T, D>& dy) {
    const bool below = x.requires_grad() || branch.requires_grad();
    const bool masked = branch.requires_grad() && mask.threshold != 0;
    Tensor<T, D> dsum, dbranch;
    if (below) dsum = Tensor<T, D>(dy.shape());
    if (masked) dbranch = Tensor<T, D>(dy.shape());
    detail::accumulate_affine(gamma.sink(), beta.sink(), [&](T gamma_keep, T* dgamma, T beta_keep, T* dbeta) {
      add_dropout_norm_backward(D{}, norm, rows, mask, dy.data(), sum.data(), gamma.data(), mean.data(), rstd.data(),
                                below ? dsum.data() : nullptr, masked ? dbranch.data() : nullptr, gamma_keep, dgamma, beta_keep,
                                dbeta);
    });
    branch.accumulate(masked ? std::move(dbranch) : dsum);
    x.accumulate(std::move(dsum));
  });
}

}  // namespace attend
