#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "attend/autograd/var.hpp"
#include "attend/cpu/basic.hpp"
#include "attend/cpu/cross_entropy.hpp"
#include "attend/ops/linear.hpp"

namespace attend {

namespace detail {

/// Checks the labels and gives what the sum of the losses is to be multiplied by, [1].
template <class W, Device D>
Tensor<W, D> checked_scale(const char* operation, const Tensor<token_t, D>& labels, index_t rows, index_t classes,
                           const CrossEntropyOptions& options) {
  if (labels.size() != rows)
    throw ShapeError(operation, ": labels have shape ", labels.shape().text(), ", expected ", rows, " of them");
  check_value(options.smoothing >= 0 && options.smoothing < 1, operation, "smoothing ", options.smoothing, " is outside [0, 1)");
  check_value(options.r_drop >= 0, operation, "r_drop is ", options.r_drop, ", expected 0 or more");
  check_value(options.r_drop == 0 || rows % 2 == 0, operation, "R-Drop takes two rows for each token, got ", rows, " rows");
  if constexpr (std::same_as<D, Cpu>)
    check_value(options.r_drop == 0 || std::equal(labels.data(), labels.data() + rows / 2, labels.data() + rows / 2), operation,
                "R-Drop takes the same labels for row r and row r + rows / 2");
  const kernels::LabelledRows of{rows, classes, labels.data(), options};
  const index_t bad = find_bad_label(D{}, of);
  if (bad >= 0)
    throw IndexError(operation, ": label ", nth(labels.values(), bad), " at position ", bad, " is outside [0, ", classes, ")");
  Tensor<W, D> scale({1});
  loss_scale(D{}, of, scale.data());
  return scale;
}

/// Hands an input its gradient: `gradient`, which is that for a dloss of 1, times dloss.
template <class T, Device D>
void hand_over(const GradientSink<T, D>& input, const Tensor<T, D>& gradient, const Tensor<Wide<T>, D>& dloss) {
  if (gradient.empty()) return;
  input.accumulate_with([&](auto g) { scale_add_by(D{}, gradient.size(), dloss.data(), gradient.data(), g); });
}

/// The loss of pairs of rows: see `CrossEntropyOptions::r_drop`.
template <class T, Device D>
Var<Wide<T>, D> r_drop(const Var<T, D>& logits, const Tensor<token_t, D>& labels, const CrossEntropyOptions& options,
                       const Tensor<Wide<T>, D>& scale) {
  const auto [rows, classes] = rows_and_width(logits.shape());
  const index_t half = rows / 2;
  Tensor<Wide<T>, D> losses({rows}), loss({1});
  const Tensor<T, D> gradient = logits.value().clone();
  r_drop_in_place<T>(D{}, {half, classes, labels.data(), options}, scale.data(), {gradient.data(), losses.data()},
                     {gradient.data() + half * classes, losses.data() + half});
  sum_losses(D{}, rows, losses.data(), scale.data(), loss.data());
  return record(std::move(loss), std::vector{logits},
                [sink = logits.sink(), gradient](const Tensor<Wide<T>, D>& dloss) { hand_over(sink, gradient, dloss); });
}

}  // namespace detail

/// loss = mean over the rows that count of -(1 - e) log p[label] - e/n sum_j log p[j],  p = softmax(logits), e the smoothing.
/// dlogits = (p - (1 - e) onehot(label) - e/n) / rows that count.
/// If no row counts, because there is none or all labels are ignored, the loss is 0 and so are its gradients.
/// With options.r_drop two passes over the same tokens are drawn together: see CrossEntropyOptions.
/// Shapes: logits [..., n], labels one for each row, loss [1], in float for logits in bfloat16. Throws ShapeError, ValueError,
/// IndexError for a label outside [0, n) that is not the ignored one (on a GPU, which finds it in passing, when the host next
/// waits). Source: Szegedy et al. 2016, section 7.
template <class T, Device D>
Var<Wide<T>, D> cross_entropy(const Var<T, D>& logits, const Tensor<token_t, D>& labels,
                              const CrossEntropyOptions& options = {}) {
  const auto [row_count, width] = rows_and_width(logits.shape());
  const index_t rows = row_count, classes = width;
  const auto scale = detail::checked_scale<Wide<T>>("cross_entropy", labels, rows, classes, options);
  if (options.r_drop > 0) return detail::r_drop(logits, labels, options, scale);
  Tensor<Wide<T>, D> losses({rows}), log_sums({rows}), loss({1});
  const auto of = [=] { return kernels::LabelledRows{rows, classes, labels.data(), options}; };
  cross_entropy_forward(D{}, of(), logits.data(), losses.data(), log_sums.data());
  sum_losses(D{}, rows, losses.data(), scale.data(), loss.data());
  return record(std::move(loss), std::vector{logits}, [=](const Tensor<Wide<T>, D>& dloss) {
    Tensor<T, D> dlogits(logits.shape());
    cross_entropy_backward(D{}, of(), logits.data(), log_sums.data(), {scale.data(), dloss.data()}, dlogits.data());
    logits.accumulate(std::move(dlogits));
  });
}

namespace detail {

/// Rows of logits, which have just been computed, and what is to be made of them: `n` rows from `first` on, once for each pass.
template <class T>
struct LossChunk {
  index_t first, n;
  bool gradients;                              ///< whether the logits are to become their gradients
  std::array<kernels::DropPass<T>, 2> passes;  ///< the second is R-Drop's
};

/// A loss of linear(x, weight, bias), rows by rows: `score(LossChunk)` sees the logits of some at a time. `chunk` says of how
/// many; 0 leaves it to the device, which is told that the logits of a row are `widths` times as wide as they are.
template <class T, Device D, class Score>
Var<Wide<T>, D> linear_loss(const Products<T, D>& products, const Var<T, D>& x, const Var<T, D>& weight, const Var<T, D>* bias,
                            const Tensor<Wide<T>, D>& scale, index_t passes, index_t widths, index_t chunk, const Score& score) {
  const index_t rows = rows_and_width(x.shape()).rows, in = weight.dim(1), classes = weight.dim(0);
  std::vector<Var<T, D>> inputs{x, weight};
  if (bias) inputs.push_back(*bias);
  const bool need = grad_enabled() && std::any_of(inputs.begin(), inputs.end(), [](const auto& v) { return v.requires_grad(); });

  const index_t pass_rows = rows / passes;
  if (chunk == 0) chunk = logits_chunk(D{}, pass_rows, in, widths * classes);
  Tensor<Wide<T>, D> losses({rows}), loss({1});
  Tensor<T, D> logits({passes * std::min(chunk, pass_rows), classes}), dx, dweight, dbias;
  if (need && x.requires_grad()) dx = Tensor<T, D>(x.shape());
  if (need && weight.requires_grad()) dweight = Tensor<T, D>(weight.shape());
  if (need && bias && bias->requires_grad()) dbias = Tensor<T, D>(bias->shape());
  for (index_t first = 0; first < pass_rows; first += chunk) {
    const index_t n = std::min(chunk, pass_rows - first);
    LossChunk<T> part{.first = first, .n = n, .gradients = need, .passes = {}};
    const auto place_of = [&](index_t pass) { return (pass * pass_rows + first) * in; };
    const auto inputs_of = [&](index_t pass) { return kernels::Matrix<T>{x.data() + place_of(pass), n, in}; };
    for (index_t pass = 0; pass < passes; ++pass) {
      nth(part.passes, pass) = {logits.data() + pass * n * classes, losses.data() + pass * pass_rows + first};
      products.forward(inputs_of(pass), weight.value(), bias ? bias->data() : nullptr,
                       kernels::Matrix<T>{nth(part.passes, pass).logits, n, classes});
    }
    score(part);
    for (index_t pass = 0; need && pass < passes; ++pass) {
      const kernels::Matrix<T> rows_of_x = inputs_of(pass), dlogits{nth(part.passes, pass).logits, n, classes};
      const bool add = first > 0 || pass > 0;
      const kernels::Gradient<T> bias_gradient{dbias.data(), add};
      if (!dx.empty())
        products.backward_input(dlogits, weight.value(), kernels::Matrix<T>{dx.data() + place_of(pass), n, in}, false);
      if (!dweight.empty() && !dbias.empty())
        products.backward_weight_bias(dlogits, rows_of_x, as_rows(dweight), add, bias_gradient);
      else if (!dweight.empty()) products.backward_weight(dlogits, rows_of_x, as_rows(dweight), add);
      else if (!dbias.empty()) linear_backward_bias(D{}, dlogits, bias_gradient);
    }
  }
  sum_losses(D{}, rows, losses.data(), scale.data(), loss.data());
  if (rows == 0) {  // no chunk has written these
    if (!dweight.empty()) dweight.fill(T(0));
    if (!dbias.empty()) dbias.fill(T(0));
  }
  std::vector<GradientSink<T, D>> sinks;
  for (const auto& input : inputs) sinks.push_back(input.sink());
  return record(std::move(loss), std::move(inputs), [sinks, dx, dweight, dbias](const Tensor<Wide<T>, D>& dloss) {
    hand_over(sinks[0], dx, dloss);
    hand_over(sinks[1], dweight, dloss);
    if (sinks.size() == 3) hand_over(sinks[2], dbias, dloss);
  });
}

/// `chunk`: rows whose logits exist at a time; 0 leaves it to the device.
template <class T, Device D>
Var<Wide<T>, D> linear_cross_entropy(const Var<T, D>& x, const Var<T, D>& weight, const Var<T, D>* bias,
                                     const Tensor<token_t, D>& labels, const CrossEntropyOptions& options, index_t chunk = 0) {
  detail::linear_shape("linear_cross_entropy", x, weight, bias);
  check_may_learn("linear_cross_entropy", weight);
  const index_t rows = rows_and_width(x.shape()).rows, classes = weight.dim(0);
  const auto scale = checked_scale<Wide<T>>("linear_cross_entropy", labels, rows, classes, options);
  const Products<T, D> products("linear_cross_entropy");
  const index_t passes = options.r_drop > 0 ? 2 : 1;
  return linear_loss(products, x, weight, bias, scale, passes, passes, chunk, [&](const LossChunk<T>& part) {
    const kernels::LabelledRows of{part.n, classes, labels.data() + part.first, options};
    const auto [logits, losses] = part.passes[0];
    if (passes == 2) {
      r_drop_in_place<T>(D{}, of, scale.data(), part.passes[0], part.passes[1]);
    } else if (!part.gradients) {
      Tensor<Wide<T>, D> log_sums({part.n});
      cross_entropy_forward(D{}, of, logits, losses, log_sums.data());
    } else {
      cross_entropy_in_place(D{}, of, scale.data(), logits, losses);
    }
  });
}

}  // namespace detail

/// cross_entropy(linear(x, weight, bias), labels) without ever holding the logits of all rows: they come and go in chunks, and
/// the gradients are computed on the way, so that memory does not grow with rows times classes.
/// Shapes: x [..., in], weight [n, in], bias [n], labels one for each row, loss [1]. Throws as cross_entropy.
template <class T, Device D>
Var<Wide<T>, D> linear_cross_entropy(const Var<T, D>& x, const Var<T, D>& weight, const Var<T, D>& bias,
                                     const Tensor<token_t, D>& labels, const CrossEntropyOptions& options = {}) {
  return detail::linear_cross_entropy(x, weight, &bias, labels, options);
}

/// The same without a bias.
template <class T, Device D>
Var<Wide<T>, D> linear_cross_entropy(const Var<T, D>& x, const Var<T, D>& weight, const Tensor<token_t, D>& labels,
                                     const CrossEntropyOptions& options = {}) {
  return detail::linear_cross_entropy<T, D>(x, weight, nullptr, labels, options);
}

}  // namespace attend
