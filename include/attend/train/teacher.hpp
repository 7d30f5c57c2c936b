#pragma once

#include <algorithm>
#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "attend/autograd/var.hpp"
#include "attend/core/number_text.hpp"
#include "attend/io/config.hpp"
#include "attend/nn/batch.hpp"
#include "attend/nn/fields.hpp"
#include "attend/nn/transformer_options.hpp"
#include "attend/ops/distillation_loss.hpp"
#include "attend/text/any_tokenizer.hpp"
#include "attend/train/checkpoint.hpp"
#include "attend/train/model_hash.hpp"
#include "attend/train/options.hpp"

/// Word-level knowledge distillation: a model learns, at each token, what another makes of the tokens before it.
namespace attend::train {

/// A model that says what its logits for the labels of a batch are made of: what a teacher needs, and a student.
template <class M>
concept GivesLogits = requires(const M& model, const nn::Batch<typename M::device_type>& batch) {
  { model.linear_logits(batch) } -> std::same_as<LinearLogits<typename M::value_type, typename M::device_type>>;
};

/// Whom a model learns from besides the labels; see `fit`. A handle: the parameters are those of the model that it was made from.
template <class T, Device D = Cpu>
class Teacher {
 public:
  /// Nobody.
  Teacher() = default;
  /// This model, which stays as it is: it works without dropout, whatever mode it is in, and nothing in it learns. Not explicit,
  /// so that `fit` takes a model.
  template <GivesLogits Model>
  requires std::same_as<typename Model::value_type, T> && std::same_as<typename Model::device_type, D> Teacher(
      const Model& model) {  // NOLINT(google-explicit-constructor)
    auto own = std::make_shared<Model>(model);
    nn::set_training(*own, false);
    by_threads_ = requires { requires Model::loss_by_threads; };
    logits_ = [own](const nn::Batch<D>& batch) { return own->linear_logits(batch); };
    index_t numbers = 0;
    detail::ModelHash hash;
    for (const auto& t : nn::state(*own)) {
      numbers += t.value.size();
      hash.add(t);
    }
    for (const auto& p : nn::parameters(*own)) parameters_.push_back(p.id());
    if constexpr (requires { nn::ModelOptions(model.options); }) {
      options_ = model.options;
      hash.add(io::to_json(*options_).dump());
    }
    identity_ = "of " + number_text(numbers) + " numbers" + detail::fingerprint_mark + number_text(hash.value());
  }

  /// Whether there is one.
  explicit operator bool() const { return logits_ != nullptr; }
  /// What it makes of the targets of a batch, of which nothing is recorded.
  [[nodiscard]] LinearLogits<T, D> operator()(const nn::Batch<D>& batch) const {
    const NoGrad no_grad;
    return logits_(batch);
  }
  /// Whether several threads may ask it at the same time, as its type says by `loss_by_threads`.
  [[nodiscard]] bool by_threads() const { return by_threads_; }
  /// The options of a run with this teacher or, if it is nobody, without. Throws ValueError if they do not go with one.
  [[nodiscard]] FitOptions taught(FitOptions o) const {
    if (!*this) o.distillation_weight = 0;
    check_value(!*this || o.r_drop == 0, "fit", "r_drop is ", o.r_drop, ", which excludes a teacher");
    return o;
  }
  /// Adds what must be the same of the teacher in a run that goes on with another's state.
  void add_to(RunIdentity& identity, const FitOptions& o) const {
    identity["teacher"] = identity_;
    if (!*this) return;
    identity["distillation_weight"] = number_text(o.distillation_weight);
    identity["distillation_temperature"] = number_text(o.distillation_temperature);
  }
  /// Throws ValueError if it cannot teach this model with sentences of up to `longest` tokens, as far as their options say.
  template <class Model>
  void check(const Model& student, const text::AnyTokenizer& tokenizer, index_t longest) const {
    if (!*this) return;
    check_value(GivesLogits<Model>, "fit",
                "the model has no `linear_logits(batch)`, by which it would be compared with a teacher");
    for (const auto& p : nn::parameters(student))
      check_value(std::find(parameters_.begin(), parameters_.end(), p.id()) == parameters_.end(), "fit",
                  "the teacher shares parameters with the model that is trained, and so would change");
    if (!options_) return;
    if constexpr (requires { nn::ModelOptions(student.options); })
      check_value(options_->decoder.vocabulary == student.options.decoder.vocabulary, "fit", "the teacher's vocabulary is ",
                  options_->decoder.vocabulary, ", that of the model that is trained ", student.options.decoder.vocabulary,
                  "; they must be the same");
    check_value(count_of(tokenizer) <= options_->encoder.vocabulary, "fit", "the tokenizer has ", count_of(tokenizer),
                " tokens, the teacher's source vocabulary ", options_->encoder.vocabulary);
    for (const auto* stack : {&options_->encoder, &options_->decoder})
      check_value(longest <= stack->max_length, "fit", "a sentence has ", longest, " tokens, the teacher takes ",
                  stack->max_length, "; set max_length");
  }

 private:
  std::function<LinearLogits<T, D>(const nn::Batch<D>&)> logits_;
  std::optional<nn::ModelOptions> options_;
  std::vector<const void*> parameters_;
  std::string identity_ = "none";  // or what changes with any number of it
  bool by_threads_ = true;
};

/// What is learnt from a teacher; see `DistillationOptions`.
template <class T, Device D>
struct Lesson {
  Teacher<T, D> teacher = {};
  double weight = 0, temperature = 1;

  /// The mean loss of a model over the labels of a batch. The teacher goes first, so that what it needs on the way is given back
  /// before the model's own layers are there.
  template <class Model>
  [[nodiscard]] Var<Wide<T>, D> loss(const Model& model, const nn::Batch<D>& batch, const CrossEntropyOptions& labels) const {
    if constexpr (GivesLogits<Model>)
      if (teacher) {
        const auto theirs = teacher(batch);
        return linear_distillation_loss(model.linear_logits(batch), theirs, batch.labels, {weight, temperature, labels});
      }
    return model.loss(batch, labels);
  }
};

}  // namespace attend::train
