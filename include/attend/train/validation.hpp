#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "attend/autograd/var.hpp"
#include "attend/core/random.hpp"
#include "attend/cpu/cross_entropy.hpp"
#include "attend/nn/fields.hpp"
#include "attend/text/bleu.hpp"
#include "attend/text/corpus.hpp"
#include "attend/train/batches.hpp"
#include "attend/train/options.hpp"

namespace attend::train {

/// While one stands in scope, what is drawn from this thread's generator is drawn aside: afterwards it stands where it stood.
class GeneratorScope {
 public:
  GeneratorScope() : before_(default_generator()) {}
  ~GeneratorScope() { default_generator() = before_; }
  GeneratorScope(const GeneratorScope&) = delete;
  GeneratorScope& operator=(const GeneratorScope&) = delete;

 private:
  Generator before_;
};

/// Measures a model on pairs that it was not trained on.
class Validation {
 public:
  /// Throws ValueError where all pairs are too long for `options`.
  template <class Tokenizer>
  Validation(const text::Corpus& corpus, const Tokenizer& tokenizer, const BatchOptions& options)
      : batches_(encode_pairs(corpus, tokenizer), tokenizer.bos(), tokenizer.eos(), options),
        epoch_(batches_.in_order()),
        sources_(corpus.sources()),
        references_(corpus.targets()) {}

  [[nodiscard]] const Batches& batches() const { return batches_; }

  /// The cross-entropy per target token in evaluation mode, without label smoothing. Pairs that are too long do not count.
  /// Nothing where `stop` became true meanwhile.
  template <class Model>
  [[nodiscard]] std::optional<double> loss(Model& model, const std::atomic<bool>* stop = nullptr) const {
    const NoGrad no_grad;
    const GeneratorScope generator;
    const nn::EvaluationScope evaluation(model);
    double sum = 0;
    index_t labels = 0;
    for (index_t b = 0; b < epoch_.size(); ++b) {
      if (stop != nullptr && stop->load(std::memory_order_relaxed)) return std::nullopt;
      const auto count = batches_.labels(epoch_[b]);
      const auto mean = model.loss(batches_.make<typename Model::device_type>(epoch_[b]), CrossEntropyOptions{});
      sum += static_cast<double>(mean.item()) * static_cast<double>(count);
      labels += count;
    }
    return sum / static_cast<double>(labels);
  }

  /// All sources translated in evaluation mode.
  template <class Model, class F>
  [[nodiscard]] std::vector<std::string> translations(Model& model, F&& translate) const {
    const NoGrad no_grad;
    const GeneratorScope generator;
    const nn::EvaluationScope evaluation(model);
    return translate(sources_);
  }
  /// The BLEU of these translations, 0 to 100. Throws ValueError where there are not as many as sources.
  [[nodiscard]] double bleu(const std::vector<std::string>& translations) const {
    return text::bleu(translations, references_).score;
  }

 private:
  Batches batches_;
  Batches::Epoch epoch_;
  std::vector<std::string> sources_, references_;
};

}  // namespace attend::train
