#pragma once

#include <string>
#include <vector>

#include "attend/decode/beam.hpp"
#include "attend/decode/beam_trace.hpp"
#include "attend/decode/decoder_only.hpp"
#include "attend/decode/ensemble.hpp"
#include "attend/decode/greedy.hpp"
#include "attend/decode/sample.hpp"
#include "attend/decode/scoring.hpp"
#include "attend/decode/transformer.hpp"
#include "attend/ops/cross_entropy.hpp"
#include "training.hpp"

/// Every search and what may steer it, over a Transformer, an ensemble and a language model that have learned a little.
namespace bits {

inline constexpr index_t longest_hypothesis = sized(20, 9);

/// A network that has learned the language for some steps.
template <class T>
nn::Transformer<T, D> learned_model(std::uint64_t start, int count) {
  seed(start);
  nn::Transformer<T, D> model({.vocabulary = language_vocabulary,
                               .d_model = sized(48, 24),
                               .heads = 2,
                               .d_ff = sized(96, 32),
                               .layers = sized(2, 1),
                               .dropout = 0.1,
                               .max_length = 40});
  optim::Adam<T, D> adam(nn::parameters(model), {.learning_rate = 3e-3});
  Lessons<nn::Transformer<T, D>> lessons(model, sized(200, 24), sized(96, 40));
  for (int i = 0; i < count; ++i) {
    adam.zero_grad();
    (void)lessons.next();
    adam.update(3e-3, 1.0);
  }
  nn::set_training(model, false);
  return model;
}

/// Sources of several lengths, each with its end token.
inline std::vector<std::vector<token_t>> search_sources() {
  std::vector<std::vector<token_t>> sources;
  for (const index_t length : emulated ? std::vector<index_t>{4, 1, 7} : std::vector<index_t>{4, 1, 8, 5, 2}) {
    sources.push_back(words(length, language_vocabulary, 700 + static_cast<std::uint64_t>(length)));
    sources.back().push_back(2);
  }
  return sources;
}
struct Sources {
  Tensor<token_t, D> tokens;
  Segments segments;
};
inline Sources end_to_end(const std::vector<std::vector<token_t>>& sentences) {
  std::vector<token_t> all;
  std::vector<index_t> lengths;
  for (const auto& s : sentences) {
    all.insert(all.end(), s.begin(), s.end());
    lengths.push_back(static_cast<index_t>(s.size()));
  }
  return {tensor_of(all).to<D>(), Segments::ragged(lengths)};
}

/// Lists of hypotheses as three items: the tokens, each with its end; the scores; the log-probabilities. One more if
/// distributions were asked for.
template <class Lists>
void hypotheses(Record& record, const std::string& name, const Lists& lists) {
  std::vector<token_t> tokens;
  std::vector<double> scores;
  std::vector<float> log_probabilities, distributions;
  for (const auto& list : lists) {
    for (const auto& h : list) {
      tokens.insert(tokens.end(), h.tokens.begin(), h.tokens.end());
      tokens.push_back(h.finished ? h.end_token : -1);
      scores.push_back(h.score), scores.push_back(h.log_probability);
      log_probabilities.insert(log_probabilities.end(), h.token_log_probabilities.begin(), h.token_log_probabilities.end());
      for (const auto& d : h.distributions) distributions.insert(distributions.end(), d.begin(), d.end());
    }
    tokens.push_back(-2);
  }
  record.add(name + "/tokens", tokens);
  record.add(name + "/scores", scores);
  record.add(name + "/log_probabilities", log_probabilities);
  if (!distributions.empty()) record.add(name + "/distributions", distributions);
}
/// Of a search that finds one hypothesis for each sentence.
template <class List>
void best_hypotheses(Record& record, const std::string& name, const List& list) {
  hypotheses(record, name, std::vector<std::remove_cvref_t<List>>{list});
}

/// `begin()` makes a state of `sentences` rows.
template <class M, class Begin>
void search_plainly(Record& record, const std::string& name, const M& model, index_t sentences, const Begin& begin) {
  auto state = begin();
  best_hypotheses(record, name + "/greedy", decode::greedy(model, state, sentences, {.max_length = longest_hypothesis}));
  state = begin();
  hypotheses(
      record, name + "/beam",
      decode::beam_search(model, state, sentences, {.max_length = longest_hypothesis, .beam = 4, .n_best = 4, .alpha = 0.6}));
  state = begin();
  hypotheses(record, name + "/sample",
             decode::sample(model, state, sentences, {.max_length = longest_hypothesis, .samples = 3, .seed = 5}));
}

template <class M, class Begin>
void steer_beams(Record& record, const std::string& name, const M& model, index_t sentences, const Begin& begin) {
  const auto check = [&](const std::string& kind, decode::BeamOptions options) {
    auto state = begin();
    options.max_length = longest_hypothesis;
    if (options.n_best == 1) options.n_best = options.beam;
    hypotheses(record, name + "/beam/" + kind, decode::beam_search(model, state, sentences, options));
  };
  const std::vector<std::vector<std::vector<token_t>>> phrases(static_cast<std::size_t>(sentences), {{5, 6}, {9}});
  check("unnormalised", {.alpha = 0, .stop = decode::Stop::first});
  check("marian", {.alpha = 1, .normalization = decode::LengthNormalization::marian, .stop = decode::Stop::present_length});
  check("groups", {.beam = 6, .beam_groups = 3, .diversity_penalty = 0.7});
  check("required", {.beam = 8, .required = phrases});
  check("temperature", {.keep_unfinished = true, .temperature = 1.5, .distributions = true});
  check("coverage", {.coverage = 0.3});
  check("end_tokens", {.end_tokens = {7, 8}, .min_length = 2, .suppressed = {0, 1}});
  decode::Constraints constraints{.prefix = std::vector<std::vector<token_t>>(static_cast<std::size_t>(sentences)),
                                  .banned = {{4}, {10, 11}},
                                  .no_repeat_ngram = 2,
                                  .force_end = true,
                                  .renormalize = true,
                                  .repetition_penalty = 1.3};
  constraints.prefix.front() = {12, 13};
  check("constraints", {.constraints = constraints});
  constraints.allowed.assign(static_cast<std::size_t>(sentences), words(12, language_vocabulary, 60));
  constraints.banned.clear(), constraints.prefix.clear();
  check("allowed", {.constraints = constraints});
  decode::BeamTrace trace;
  check("traced", {.beam = 3, .trace = &trace});
  std::vector<double> traced;
  for (const auto& sentence : trace.sentences)
    for (const auto& c : sentence)
      traced.insert(traced.end(),
                    {static_cast<double>(c.parent), static_cast<double>(c.token), c.total, c.score, static_cast<double>(c.fate)});
  record.add(name + "/beam/trace", traced);
}

template <class M, class Begin>
void steer_samples(Record& record, const std::string& name, const M& model, index_t sentences, const Begin& begin) {
  const auto check = [&](const std::string& kind, decode::SampleOptions options) {
    auto state = begin();
    options.max_length = longest_hypothesis, options.samples = 4, options.seed = 9;
    hypotheses(record, name + "/sample/" + kind, decode::sample(model, state, sentences, options));
  };
  check("top_k", {.top_k = 5});
  check("top_p", {.top_p = 0.8});
  check("min_p", {.min_p = 0.1});
  check("temperature", {.temperature = 1.7, .distributions = true});
  check("all", {.temperature = 1.3, .top_k = 12, .top_p = 0.9, .min_p = 0.01, .constraints = {.no_repeat_ngram = 1}});
}

/// Searches over one Transformer in a ragged batch, and sentence by sentence.
template <class T>
void search_transformer(Record& record, const nn::Transformer<T, D>& model) {
  const auto sources = search_sources();
  const auto batch = end_to_end(sources);
  const decode::TransformerModel<T, D> steps(model, decode::StepOptions{.attention = true});
  const auto count = static_cast<index_t>(sources.size());
  const auto begin = [&] { return steps.begin(batch.tokens, batch.segments); };
  search_plainly(record, "search/batch", steps, count, begin);
  steer_beams(record, "search/batch", steps, count, begin);
  steer_samples(record, "search/batch", steps, count, begin);
  for (std::size_t i = 0; i < sources.size(); i += 2) {
    const auto one = end_to_end({sources[i]});
    search_plainly(record, "search/sentence" + std::to_string(i), steps, 1,
                   [&] { return steps.begin(one.tokens, one.segments); });
  }
  const auto given = language(static_cast<index_t>(sources.size()), 900);
  std::vector<std::vector<token_t>> targets;
  for (index_t i = 0; i < given.size(); ++i) targets.emplace_back(given.target(i).begin(), given.target(i).end());
  best_hypotheses(record, "search/score", decode::score<T, D>(model, sources, targets, 1, 2));
}

template <class T>
void search_ensemble(Record& record, const nn::Transformer<T, D>& first, const nn::Transformer<T, D>& second) {
  using Model = decode::TransformerModel<T, D>;
  const auto sources = search_sources();
  const auto batch = end_to_end(sources);
  for (const auto mean : {decode::EnsembleMean::probabilities, decode::EnsembleMean::log_probabilities}) {
    const decode::Ensemble<Model> both({Model(first), Model(second)}, {.mean = mean, .weights = {2, 1}});
    search_plainly(record, mean == decode::EnsembleMean::probabilities ? "search/ensemble" : "search/ensemble_of_logs", both,
                   static_cast<index_t>(sources.size()), [&] { return both.begin(batch.tokens, batch.segments); });
  }
}

/// A decoder without cross-attention, its head its embedding.
template <class T>
struct LanguageModel {
  using value_type = T;
  using device_type = D;
  nn::Decoder<T, D> decoder;
  [[nodiscard]] Var<Wide<T>, D> loss(const nn::Batch<D>& batch, const CrossEntropyOptions& how = {}) const {
    return linear_cross_entropy(decoder(batch.target, batch.target_segments, {}), decoder.embed_tokens->weight, batch.labels,
                                how);
  }
  template <class F>
  void fields(F&& field) {
    field("decoder", decoder);
  }
};

template <class T>
void language_model(Record& record) {
  seed(61);
  const LanguageModel<T> model{nn::Decoder<T, D>({.vocabulary = language_vocabulary,
                                                  .d_model = 32,
                                                  .heads = 4,
                                                  .d_ff = 64,
                                                  .layers = 2,
                                                  .norm_order = nn::NormOrder::pre,
                                                  .final_norm = true,
                                                  .max_length = 40,
                                                  .dropout = {.residual = 0.1},
                                                  .cross_attentions = 0})};
  const auto batch =
      made_batch(Segments::ragged({1, 1, 1}), Segments::ragged({6, 1, 11}), language_vocabulary, language_vocabulary, 61);
  learn(record, "language_model", model, [&] { return model.loss(batch); });
  const decode::DecoderOnly<T, D> steps(model.decoder, model.decoder.embed_tokens->weight);
  search_plainly(record, "language_model", steps, 2, [&] { return steps.begin(2); });
}

template <class T>
void searches(Record& record) {
  const auto first = learned_model<T>(62, sized(200, 25)), second = learned_model<T>(63, sized(60, 10));
  search_transformer<T>(record, first);
  search_ensemble<T>(record, first, second);
}

}  // namespace bits
