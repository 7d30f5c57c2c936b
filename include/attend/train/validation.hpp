#pragma once

#include <atomic>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "attend/autograd/var.hpp"
#include "attend/core/precision.hpp"
#include "attend/core/random.hpp"
#include "attend/cpu/cross_entropy.hpp"
#include "attend/nn/fields.hpp"
#include "attend/text/any_tokenizer.hpp"
#include "attend/text/bleu.hpp"
#include "attend/text/corpus.hpp"
#include "attend/train/batches.hpp"
#include "attend/train/options.hpp"
#include "attend/train/ranks.hpp"

namespace attend::train {

/// What a validation finds.
struct Measured {
  double loss = 0;                                         ///< see `Validation::loss`; if it is not finite, the rest is missing
  double bleu = std::numeric_limits<double>::quiet_NaN();  ///< NaN if nothing was translated
  std::vector<std::string> translations = {};              ///< one for each pair of the corpus: empty if it was left out
};

/// Measures a model on pairs that it was not trained on. Pairs that are too long are left out, as in training: see `batches()`.
class Validation {
 public:
  /// Throws ValueError if all pairs are too long for `options`.
  Validation(const text::Corpus& corpus, const text::AnyTokenizer& tokenizer, const BatchOptions& options)
      : batches_(make_batches(corpus, tokenizer, options)), epoch_(batches_.in_order()) {
    for (const index_t i : batches_.kept()) sources_.push_back(corpus[i].source), references_.push_back(corpus[i].target);
  }

  /// The pairs in their batches.
  [[nodiscard]] const Batches& batches() const { return batches_; }

  /// The cross-entropy per target token in evaluation mode, without label smoothing. Nothing if `stop` became true meanwhile.
  /// Ranks share the batches; the losses are added up in the order of the batches, whatever the number of ranks.
  template <class Model>
  [[nodiscard]] std::optional<double> loss(Model& model, const std::atomic<bool>* stop = nullptr,
                                           const Ranks& ranks = alone()) const {
    const NoGrad no_grad;
    const GeneratorScope generator;
    const nn::EvaluationScope evaluation(model);
    std::vector<double> means;
    for (index_t b = ranks.first(epoch_.size()); b < ranks.last(epoch_.size()); ++b) {
      if (stop != nullptr && stop->load(std::memory_order_relaxed)) break;
      const auto batch = batches_.make<typename Model::device_type>(epoch_[b]);
      means.push_back(static_cast<double>(model.loss(batch, CrossEntropyOptions{}).item()));
    }
    means = ranks.gather(means);
    if (count_of(means) < epoch_.size()) return std::nullopt;
    double sum = 0;
    index_t labels = 0;
    for (index_t b = 0; b < epoch_.size(); ++b) {
      const index_t count = batches_.labels(epoch_[b]);
      sum += nth(means, b) * static_cast<double>(count);
      labels += count;
    }
    return sum / static_cast<double>(labels);
  }

  /// The sources of the pairs that are not left out, translated in evaluation mode. Ranks share them.
  template <class Model, class F>
  [[nodiscard]] std::vector<std::string> translations(Model& model, F&& translate, const Ranks& ranks = alone()) const {
    const NoGrad no_grad;
    const GeneratorScope generator;
    const nn::EvaluationScope evaluation(model);
    const index_t n = count_of(sources_);
    const std::vector<std::string> own(sources_.begin() + ranks.first(n), sources_.begin() + ranks.last(n));
    return ranks.gather(own.empty() ? own : std::vector<std::string>(translate(own)));
  }
  /// The BLEU of these translations, 0 to 100. Throws ValueError if there are not as many as sources.
  [[nodiscard]] double bleu(const std::vector<std::string>& translations) const {
    return text::bleu(translations, references_).score;
  }
  /// The loss, with products in this precision, and the BLEU if `translate` is given. Nothing if `stop` became true meanwhile.
  template <class Model, class F>
  [[nodiscard]] std::optional<Measured> measure(Model& model, const F& translate, const std::atomic<bool>* stop = nullptr,
                                                const Ranks& ranks = alone(), Precision precision = Precision::full) const {
    const auto mean = [&] {
      const MatmulPrecision scope(precision);
      return loss(model, stop, ranks);
    }();
    if (!mean) return std::nullopt;
    Measured measured{.loss = *mean};
    if (!translate || !std::isfinite(*mean)) return measured;
    auto own = translations(model, translate, ranks);
    measured.bleu = bleu(own);
    measured.translations = in_places(std::move(own));
    return measured;
  }
  /// These translations, one for each pair of the corpus: empty if it was left out.
  [[nodiscard]] std::vector<std::string> in_places(std::vector<std::string> translations) const {
    std::vector<std::string> all(batches_.pairs().size());
    for (std::size_t k = 0; k < translations.size(); ++k) nth(all, batches_.kept()[k]) = std::move(translations[k]);
    return all;
  }

 private:
  static Batches make_batches(const text::Corpus& corpus, const text::AnyTokenizer& tokenizer, const BatchOptions& options) {
    try {
      return Batches(encode_pairs(corpus, tokenizer), tokenizer.bos(), tokenizer.eos(), options);
    } catch (const ValueError& e) {
      throw ValueError("fit: the validation pairs: ", e.what());
    }
  }

  static const Ranks& alone() {
    static const Ranks nobody(nullptr);
    return nobody;
  }

  Batches batches_;
  Batches::Epoch epoch_;
  std::vector<std::string> sources_, references_;
};

}  // namespace attend::train
