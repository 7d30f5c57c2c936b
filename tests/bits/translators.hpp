#pragma once

#include <string>
#include <vector>

#include "attend/train/fit.hpp"
#include "attend/translate/shortlist.hpp"
#include "attend/translate/translator.hpp"
#include "searches.hpp"

/// Strings to strings, and a run of training from strings.
namespace bits {

/// A token for each letter.
struct Letters {
  [[nodiscard]] std::vector<token_t> encode(const std::string& text) const {
    std::vector<token_t> tokens;
    for (const char c : text)
      if (c >= 'a' && c <= 'z') tokens.push_back(static_cast<token_t>(c - 'a' + 3));
    return tokens;
  }
  [[nodiscard]] std::string decode(std::span<const token_t> tokens) const {
    std::string text;
    for (const token_t t : tokens)
      if (t >= 3) text += static_cast<char>('a' + t - 3);
    return text;
  }
  [[nodiscard]] index_t size() const { return language_vocabulary; }
  [[nodiscard]] token_t pad() const { return 0; }
  [[nodiscard]] token_t bos() const { return 1; }
  [[nodiscard]] token_t eos() const { return 2; }
};

inline std::vector<std::string> texts() { return {"dcba", "z", "", "hgfedcb", "mlk", "qwertyuiop", "zyx", "ba"}; }

/// Lists of translations: as hypotheses, and their texts and alignments.
template <class Lists>
void translations(Record& record, const std::string& name, const Lists& lists) {
  hypotheses(record, name, lists);
  std::string text;
  for (const auto& list : lists)
    for (const auto& t : list) text += t.text + " " + decode::to_pharaoh(t.alignment) + "\n";
  record.add(name + "/text", text);
}

inline void translate_by(Record& record, const std::string& name, const nn::Transformer<float>& first,
                         const nn::Transformer<float>& second) {
  using Translator = decode::Translator<Letters, float>;
  const auto shortlist =
      decode::Shortlist::learn(language(100, 500), language_vocabulary, language_vocabulary, {.best = 3, .frequent = 6});
  const auto check = [&](const std::string& kind, const decode::TranslatorOptions& options) {
    translations(record, name + "/" + kind, Translator(first, Letters(), options).translate(texts()));
  };
  check("greedy", {.beam = 1});
  check("beam", {.n_best = 4, .batch_sentences = 3, .alignments = true});
  check("distributions", {.beam = 2, .distributions = true});
  check("coverage", {.coverage_penalty = 0.2, .alignment_layer = 0});
  check("groups", {.beam = 6, .n_best = 6, .beam_groups = 2, .diversity_penalty = 0.5});
  check("required", {.beam = 8, .required = [](std::string_view) { return std::vector<std::string>{"ab", "q"}; }});
  check("shortlist", {.n_best = 2, .shortlist = shortlist});
  check("shortlist_alone", {.batch_sentences = 1, .shortlist = shortlist});
  check("int8", {.n_best = 2, .precision = Precision::int8});
  check("int8_shortlist", {.precision = Precision::int8, .shortlist = shortlist});
  check("sample", {.n_best = 3, .sample = true, .temperature = 1.2, .top_k = 9, .top_p = 0.9, .min_p = 0.02, .seed = 4});
  check("constraints",
        {.no_repeat_ngram = 2, .force_end = true, .renormalize = true, .repetition_penalty = 1.2, .banned_text = {"a", "cd"}});
  translations(record, name + "/ensemble",
               Translator(std::vector{first, second}, Letters(), {.n_best = 2, .alignments = true}).translate(texts()));

  const Translator translate(first, Letters(), {.alignments = true});
  const std::vector<std::string> targets{"abcd", "z", "", "bcdefgh", "klx", "poi", "xyz", "abc"};
  const auto all = texts();
  const std::vector<decode::Results<decode::Translation>> scored{translate.score(all, targets)};
  translations(record, name + "/score", scored);
  const std::vector<decode::Results<decode::Translation>> others{translate.alternatives("hgfedcb", "bc", 5)};
  translations(record, name + "/alternatives", others);
  const std::vector<std::string> prefixes{"ab", "", "", "bc", "k", "", "x", ""};
  translations(record, name + "/prefixes", translate.translate(all, 0, prefixes));
}

/// train::fit from text: what it reports, and the weights.
inline void fit_texts(Record& record) {
  struct Pair {
    std::string source, target;
  };
  const Letters letters;
  const auto pairs_of = [&](index_t count, std::uint64_t stream) {
    std::vector<Pair> pairs;
    const auto encoded = language(count, stream);
    for (index_t i = 0; i < count; ++i) pairs.push_back({letters.decode(encoded.source(i)), letters.decode(encoded.target(i))});
    return pairs;
  };
  seed(71);
  nn::Transformer<float> model({.vocabulary = language_vocabulary, .d_model = 32, .heads = 2, .d_ff = 64, .layers = 1});
  train::FitOptions options{.epochs = 3,
                            .tokens_per_batch = 64,
                            .accumulate = 2,
                            .optimizer = optim::MuonOptions{},
                            .schedule = optim::ScheduleOptions{.learning_rate = 5e-3, .warmup = 10},
                            .progress = {.mode = train::ProgressMode::off},
                            .curve_every = 1};
  options.average_decay = 0.9;
  const auto report = train::fit(model, pairs_of(120, 500), letters, options);
  std::vector<double> curve;
  for (const auto& point : report.curve) curve.insert(curve.end(), {point.loss, point.gradient_norm, point.learning_rate});
  record.add("fit/curve", curve);
  weights(record, "fit", model);
}

inline void translators(Record& record) {
  const auto first = learned_model<float>(62, 200), second = learned_model<float>(63, 60);
  translate_by(record, "translator", first, second);
  fit_texts(record);
}

}  // namespace bits
