#pragma once

#include <string>
#include <vector>

#include "attend/nn/hidden_matrices.hpp"
#include "attend/nn/transformer.hpp"
#include "attend/optim/adam.hpp"
#include "attend/optim/average.hpp"
#include "attend/optim/muon.hpp"
#include "attend/optim/sgd.hpp"
#include "attend/train/step_runner.hpp"
#include "learn.hpp"

/// Runs of training, by each optimizer.
namespace bits {

inline constexpr index_t language_vocabulary = 29;

/// A language to learn: targets are 1 to 9 words, sources the same words backwards.
inline train::EncodedPairs language(index_t count, std::uint64_t stream) {
  train::EncodedPairs pairs;
  for (index_t i = 0; i < count; ++i) {
    const auto target = words(1 + i * 7 % 9, language_vocabulary, stream + static_cast<std::uint64_t>(i));
    pairs.add(std::vector<token_t>(target.rbegin(), target.rend()), target);
  }
  return pairs;
}

/// Batch after batch of the language; on a device the steps are recorded and repeated.
template <class M>
class Lessons {
 public:
  Lessons(const M& model, index_t pairs, index_t tokens_per_batch)
      : model_(model), batches_(language(pairs, 500), 1, 2, {.tokens_per_batch = tokens_per_batch}) {}
  /// The loss of the next batch; adds its gradients to the model's.
  auto next(const CrossEntropyOptions& how = {.smoothing = 0.1}) {
    if (at_ == epoch_.size()) epoch_ = batches_.epoch(number_++), at_ = 0;
    return runner_.run(model_, batches_, epoch_[at_++], how, 1.0).item();
  }

 private:
  const M& model_;
  train::Batches batches_;
  train::Batches::Epoch epoch_;
  train::StepRunner<M> runner_;
  index_t number_ = 0, at_ = 0;
};

/// A run of `count` steps, and besides what they lead to all that the optimizer knows at their end.
template <class O, class M>
void train_by(Record& record, const std::string& name, O& optimizer, const M& model, int count) {
  Lessons<M> lessons(model, sized(200, 24), sized(96, 40));
  steps(record, name, optimizer, model, count, [&](int) { return lessons.next(); });
  item(record, name + "/last_gradients", optimizer.parameters().gradients());
  for (const auto& entry : optimizer.state().entries) item(record, name + "/optimizer/" + entry.name, entry.values);
}

/// The preset `tiny`, or on the emulator something tinier.
template <class T>
nn::Transformer<T, D> tiny_model() {
  seed(51);
  auto o = nn::TransformerOptions::tiny(language_vocabulary);
  o.dropout = 0.1;
  if (emulated) o.d_model = 32, o.d_ff = 48, o.layers = 1;
  return nn::Transformer<T, D>(o);
}

template <class T>
void tiny(Record& record) {
  constexpr int count = sized(50, 8);
  {
    const auto model = tiny_model<T>();
    optim::Adam<T, D> adam(nn::parameters(model), {.learning_rate = 1e-3, .beta2 = 0.98, .eps = 1e-9});
    train_by(record, "tiny/adam", adam, model, count);
  }
  {
    const auto model = tiny_model<T>();
    optim::Muon<T, D> muon(nn::parameters(model), nn::hidden_matrices(model));
    train_by(record, "tiny/muon", muon, model, count);
  }
}

/// A smaller network by the other optimizers, and the moving average of its weights.
template <class T>
void optimizers(Record& record) {
  const auto make = [] {
    seed(52);
    return nn::Transformer<T, D>({.vocabulary = language_vocabulary,
                                  .d_model = 32,
                                  .heads = 2,
                                  .d_ff = 64,
                                  .layers = 1,
                                  .share_embeddings = true,
                                  .tie_head = true});
  };
  constexpr int count = sized(12, 4);
  {
    const auto model = make();
    optim::AdamW<T, D> adamw(nn::parameters(model), {.learning_rate = 1e-3});
    const optim::WeightAverage<T, D> average(adamw.parameters(), 0.9);
    train_by(record, "optimizers/adamw", adamw, model, count);
    for (index_t step = 1; step <= 3; ++step) average.update(step);
    item(record, "optimizers/average", average.values());
  }
  {
    const auto model = make();
    optim::Sgd<T, D> sgd(nn::parameters(model), {.learning_rate = 0.1, .momentum = 0.9, .nesterov = true, .weight_decay = 1e-3});
    train_by(record, "optimizers/sgd", sgd, model, count);
  }
  {
    const auto model = make();
    optim::Muon<T, D> muon(nn::parameters(model), nn::hidden_matrices(model), {.cautious = false});
    train_by(record, "optimizers/muon_bold", muon, model, count);
  }
}

}  // namespace bits
