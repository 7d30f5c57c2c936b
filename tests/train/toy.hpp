#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "attend/nn/dropout.hpp"
#include "attend/nn/embedding.hpp"
#include "attend/nn/linear.hpp"
#include "attend/ops/cross_entropy.hpp"
#include "attend/ops/distillation_loss.hpp"
#include "attend/train/fit.hpp"
#include "catch.hpp"
#include "temporary_folder.hpp"

/// What tests of training share: a tokenizer of letters, a language of letters, a model that predicts a letter from the one
/// before it.
namespace toy {

using attend::index_t;
using attend::token_t;
using attend::Var;

/// A token for each of the first `letters` letters of the alphabet.
struct Letters {
  index_t letters = 26;
  [[nodiscard]] std::vector<token_t> encode(const std::string& text) const {
    std::vector<token_t> tokens;
    for (const char c : text) tokens.push_back(static_cast<token_t>(c - 'a' + 3));
    return tokens;
  }
  [[nodiscard]] std::string decode(std::span<const token_t> tokens) const {
    std::string text;
    for (const token_t t : tokens)
      if (t >= 3) text += static_cast<char>('a' + t - 3);
    return text;
  }
  [[nodiscard]] index_t size() const { return letters + 3; }
  [[nodiscard]] token_t pad() const { return 0; }
  [[nodiscard]] token_t bos() const { return 1; }
  [[nodiscard]] token_t eos() const { return 2; }
};

/// Targets are runs of the alphabet, `cdef`; sources are the same backwards. Lengths are 1 to 8.
inline attend::text::Corpus corpus(index_t pairs, std::uint64_t seed = 1) {
  attend::text::Corpus corpus;
  for (index_t i = 0; i < pairs; ++i) {
    const attend::Generator::Stream random{seed, static_cast<std::uint64_t>(i)};
    const auto length = 1 + random.below(0, 8), first = random.below(1, 26 - length + 1);
    std::string target;
    for (std::uint64_t k = 0; k < length; ++k) target += static_cast<char>('a' + first + k);
    corpus.pairs.push_back({std::string(target.rbegin(), target.rend()), target});
  }
  return corpus;
}

template <class T>
struct Model {
  using value_type = T;
  using device_type = attend::Cpu;
  static constexpr bool loss_by_threads = true;
  attend::nn::Embedding<T> embedding;
  attend::nn::Dropout dropout;
  attend::nn::Linear<T> head;
  bool poisoned = false;  // the gradient of the loss is then not a number
  std::function<void()> on_loss = {};

  explicit Model(double p = 0, index_t width = 12, index_t vocabulary = 29)
      : embedding(vocabulary, width), dropout{p}, head(width, vocabulary) {}
  [[nodiscard]] Var<T> loss(const attend::nn::Batch<>& batch, const attend::CrossEntropyOptions& how) const {
    if (on_loss) on_loss();
    const auto logits = linear_logits(batch);
    const auto mean = attend::linear_cross_entropy(logits.x, logits.weight, *logits.bias, batch.labels, how);
    if (!poisoned) return mean;
    return attend::record(mean.value(), std::vector{mean}, [=](const attend::Tensor<T>&) {
      mean.accumulate(attend::Tensor<T>({1}, std::numeric_limits<T>::quiet_NaN()));
    });
  }
  [[nodiscard]] attend::LinearLogits<T> linear_logits(const attend::nn::Batch<>& batch) const {
    return {attend::nn::apply(dropout, embedding(batch.target)), head.weight, head.bias};
  }
  template <class F>
  void fields(F&& field) {
    field("embedding", embedding);
    field("dropout", dropout);
    field("head", head);
  }
};

/// A new model, always with the same weights.
template <class T = float>
Model<T> model(double dropout = 0) {
  attend::seed(3);
  return Model<T>(dropout);
}

/// All weights, end to end.
template <class M>
std::vector<typename M::value_type> weights(const M& m) {
  std::vector<typename M::value_type> all;
  for (const auto& t : attend::nn::state(m)) {
    const auto values = t.value.values();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

/// Options of a short, silent run.
inline attend::train::FitOptions options(index_t epochs = 3) {
  return {.epochs = epochs,
          .tokens_per_batch = 64,
          .optimizer = attend::optim::AdamOptions{.learning_rate = 0.02},
          .schedule =
              attend::optim::Schedule({.kind = attend::optim::ScheduleKind::inverse_sqrt, .learning_rate = 0.02, .warmup = 10}),
          .progress = {.mode = attend::train::ProgressMode::off}};
}

/// Trains a model on 60 pairs into a folder, until a step after which it is stopped. Returns the options by which the run goes
/// on.
template <class M>
attend::train::FitOptions stopped_run(const std::filesystem::path& folder, M&& model, attend::train::FitOptions options,
                                      index_t last_step) {
  options.output = folder;
  std::atomic<bool> stop{false};
  auto until = options;
  until.stop = &stop;
  until.on_step = [&](const attend::train::CurvePoint& point) { stop = point.step == last_step; };
  REQUIRE(fit(model, corpus(60), Letters(), until).stopped == attend::train::StopReason::interrupted);
  options.resume = true;
  return options;
}

}  // namespace toy
