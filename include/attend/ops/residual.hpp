#pragma once

#include <memory>
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
  branch.accumulate_with([&](T* db, T keep) {
    dropout_apply(D{}, dsum.size(), mask.stream, mask.threshold, static_cast<Wide<T>>(mask.scale), dsum.data(), keep, db);
  });
}

/// True where the device adds a norm's gradient to that of the sum and masks it for the branch in one pass.
template <class T, class D>
concept AddsNormGradient = requires(const LayerNormLayout& norm, index_t n, const DropoutMask& mask, const T* in,
                                    const Wide<T>* statistics, T keep, T* out) {
  add_dropout_norm_backward(D{}, norm, n, mask, in, in, in, statistics, statistics, keep, out, out, keep, out, keep, out);
};

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

/// A sum and its norm, where both are read further on.
template <class T, Device D>
struct SumAndNorm {
  Var<T, D> sum, norm;
};

/// sum = x + dropout(branch) and norm = layer_norm(sum, gamma, beta), for Transformers that normalise what enters a sublayer.
/// dsum = dsum from elsewhere + that of the norm,  dx = dsum,  dbranch = mask * dsum / (1 - p).
/// Shapes: x, branch, sum, norm alike; gamma, beta as for layer_norm. Throws ShapeError; ValueError, also unless 0 <= p < 1.
template <class T, Device D>
SumAndNorm<T, D> add_dropout_and_norm(const Var<T, D>& x, const Var<T, D>& branch, double p, const Var<T, D>& gamma,
                                      const Var<T, D>& beta, const LayerNormOptions& options = {},
                                      Generator& generator = default_generator()) {
  check_shape("add_dropout_and_norm", "branch", branch.shape(), x.shape());
  const LayerNormLayout norm = detail::layer_norm_layout("add_dropout_and_norm", x.shape(), gamma, beta, options);
  const DropoutMask mask = detail::next_mask(p, generator);
  const index_t rows = norm.width == 0 ? 0 : x.size() / norm.width;
  Tensor<T, D> total(x.shape()), y(x.shape());
  Tensor<Wide<T>, D> mean({rows}), rstd({rows});
  add_dropout_norm_forward(D{}, norm, rows, mask, x.data(), branch.data(), gamma.data(), beta.data(), total.data(), y.data(),
                           mean.data(), rstd.data());
  // All that reads the sum is younger than the norm. So when the norm's backward runs, the sum's gradient lacks nothing but what
  // it adds itself, and it can pass the branch its share.
  const auto passed_on = std::make_shared<bool>(false);
  const auto below = branch.sink();
  const Var<T, D> sum = record(total, {x, branch}, [mask, passed_on, x = x.sink(), below](const Tensor<T, D>& dsum) {
    x.accumulate(dsum);
    if (!*passed_on) detail::accumulate_masked(mask, dsum, below);
  });
  const auto sink = sum.sink();
  return {sum, record(std::move(y), {sum, gamma, beta}, [=](const Tensor<T, D>& dy) {
            Tensor<T, D> dbranch;
            if (detail::AddsNormGradient<T, D> && below.requires_grad() && mask.threshold != 0)
              dbranch = Tensor<T, D>(dy.shape());
            detail::accumulate_affine(gamma.sink(), beta.sink(), [&](T gamma_keep, T* dgamma, T beta_keep, T* dbeta) {
              const auto write = [&](T* dsum, T keep) {
                if constexpr (detail::AddsNormGradient<T, D>)
                  add_dropout_norm_backward(D{}, norm, rows, mask, dy.data(), total.data(), gamma.data(), mean.data(),
                                            rstd.data(), keep, dsum, dbranch.empty() ? nullptr : dbranch.data(), gamma_keep,
                                            dgamma, beta_keep, dbeta);
                else
                  layer_norm_backward(D{}, norm, rows, dy.data(), total.data(), gamma.data(), mean.data(), rstd.data(), keep,
                                      dsum, gamma_keep, dgamma, beta_keep, dbeta);
              };
              if (sink.requires_grad()) sink.accumulate_with(write);
              else write(nullptr, T(0));
            });
            if (dbranch.empty()) return;
            below.accumulate(std::move(dbranch));
            *passed_on = true;
          })};
}

}  // namespace attend
