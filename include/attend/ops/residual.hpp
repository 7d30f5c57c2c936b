#pragma once

#include <utility>

#include "attend/cpu/residual.hpp"
#include "attend/ops/arithmetic.hpp"
#include "attend/ops/dropout.hpp"
#include "attend/ops/layer_norm.hpp"

/// What stands around the sublayers of a Transformer, in one pass each way.
namespace attend {

namespace detail {

/// dbranch += mask * dsum.
template <class T, Device D>
void accumulate_masked(const DropoutMask& mask, const Tensor<T, D>& dsum, const GradientSink<T, D>& branch) {
  if (mask.threshold == 0) return branch.accumulate(dsum);
  branch.accumulate_with([&](auto db) { dropout_apply(D{}, dsum.size(), mask, dsum.data(), db); });
}

}  // namespace detail

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
    detail::accumulate_masked(mask, dy, branch);
  });
}

/// y = normalize(x + dropout(branch), of): of what stands between, only the sum is kept, which the norm's backward
/// reads. Shapes: x, branch, y alike; what `of` has, as for normalize. Throws ShapeError; ValueError as normalize does, and
/// unless 0 <= p < 1.
template <class T, Device D>
Var<T, D> add_dropout_norm(const Var<T, D>& x, const Var<T, D>& branch, double p,
                           const std::type_identity_t<NormParameters<T, D>>& of, Generator& generator = default_generator()) {
  check_shape("add_dropout_norm", "branch", branch.shape(), x.shape());
  const NormLayout norm = detail::norm_layout("add_dropout_norm", x.shape(), of);
  const DropoutMask mask = detail::next_mask(p, generator);
  const index_t rows = norm.width == 0 ? 0 : x.size() / norm.width;
  Tensor<T, D> sum(x.shape()), y(x.shape());
  const detail::KeptStatistics<T, D> kept(rows);
  add_dropout_norm_forward(D{}, of.of_rows(norm, rows), {mask, x.data(), branch.data(), sum.data()}, y.data(), kept.data());
  auto inputs = of.inputs(x);
  inputs.insert(inputs.begin() + 1, branch);
  const detail::AffineGradients<T, D> affine(of);
  return record(std::move(y), inputs, [=, x = x.sink(), branch = branch.sink()](const Tensor<T, D>& dy) {
    const bool below = x.requires_grad() || branch.requires_grad();
    const bool masked = branch.requires_grad() && mask.threshold != 0;
    Tensor<T, D> dsum, dbranch;
    if (below) dsum = Tensor<T, D>(dy.shape());
    if (masked) dbranch = Tensor<T, D>(dy.shape());
    affine.accumulate_with([&](auto dgamma, auto dbeta) {
      add_dropout_norm_backward(
          D{}, of.of_rows(norm, rows), dy.data(), sum.data(), kept.data(),
          {{{dsum.empty() ? nullptr : dsum.data()}, dgamma, dbeta}, mask, dbranch.empty() ? nullptr : dbranch.data()});
    });
    branch.accumulate(masked ? std::move(dbranch) : dsum);
    x.accumulate(std::move(dsum));
  });
}

/// A sum and its norm, for when both are read further on.
template <class T, Device D>
struct SumAndNorm {
  Var<T, D> sum, norm;
};

/// sum = x + dropout(branch) and norm = normalize(sum, of), for Transformers that normalise what enters a sublayer.
/// dsum = what reaches the sum from elsewhere + what reaches it through the norm,  dx = dsum,  dbranch = mask * dsum / (1 - p).
/// Shapes: x, branch, sum, norm alike; what `of` has, as for normalize. Throws ShapeError; ValueError as normalize does, and
/// unless 0 <= p < 1.
template <class T, Device D>
SumAndNorm<T, D> add_dropout_and_norm(const Var<T, D>& x, const Var<T, D>& branch, double p,
                                      const std::type_identity_t<NormParameters<T, D>>& of,
                                      Generator& generator = default_generator()) {
  check_shape("add_dropout_and_norm", "branch", branch.shape(), x.shape());
  const NormLayout norm = detail::norm_layout("add_dropout_and_norm", x.shape(), of);
  const DropoutMask mask = detail::next_mask(p, generator);
  const index_t rows = norm.width == 0 ? 0 : x.size() / norm.width;
  Tensor<T, D> total(x.shape()), y(x.shape());
  const detail::KeptStatistics<T, D> kept(rows);
  add_dropout_norm_forward(D{}, of.of_rows(norm, rows), {mask, x.data(), branch.data(), total.data()}, y.data(), kept.data());
  std::vector<Var<T, D>> affine_inputs{of.gamma};
  if (of.beta) affine_inputs.push_back(*of.beta);
  const detail::AffineGradients<T, D> affine(of);
  auto [sum, normed] =
      record_pair(total, {x, branch}, std::move(y), std::move(affine_inputs),
                  [=, x = x.sink(), branch = branch.sink()](const Tensor<T, D>& dsum, const Tensor<T, D>& dy) {
                    Tensor<T, D> dbranch;
                    if (!dy.empty()) {
                      if (!dsum.empty() && branch.requires_grad() && mask.threshold != 0) dbranch = Tensor<T, D>(dy.shape());
                      affine.accumulate_with([&](auto dgamma, auto dbeta) {
                        add_dropout_norm_backward(D{}, of.of_rows(norm, rows), dy.data(), total.data(), kept.data(),
                                                  {{{dsum.empty() ? nullptr : dsum.data(), true}, dgamma, dbeta},
                                                   mask,
                                                   dbranch.empty() ? nullptr : dbranch.data()});
                      });
                    }
                    if (dsum.empty()) return;
                    if (dbranch.empty()) detail::accumulate_masked(mask, dsum, branch);
                    else branch.accumulate(std::move(dbranch));
                    x.accumulate(dsum);
                  });
  return {std::move(sum), std::move(normed)};
}

}  // namespace attend
