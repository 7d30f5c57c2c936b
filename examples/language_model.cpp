// A language model of one's own, from a decoder that attends to itself alone: trained by `train::fit`, searched by the searches.
//
// It learns a small artificial language in which a verb agrees with a noun that stands several words before it. The program that
// makes the sentences knows the probability of each, and so the least perplexity that a model can have; it ends with an error if
// the perplexity of the trained model is not near that.

#include <cmath>
#include <cstdio>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "attend/attend.hpp"

using namespace attend;

/// A decoder without cross-attention. Its head is its embedding.
struct LanguageModel {
  using value_type = float;
  using device_type = Cpu;
  nn::Decoder<float> decoder;

  explicit LanguageModel(index_t vocabulary)
      : decoder({.vocabulary = vocabulary,
                 .d_model = 32,
                 .heads = 4,
                 .d_ff = 64,
                 .layers = 2,
                 .norm_order = nn::NormOrder::pre,
                 .final_norm = true,
                 .max_length = 64,
                 .cross_attentions = 0}) {}

  /// The last layer for sentences that begin with the begin token: tokens [rows] -> [rows, d_model].
  Var<float> operator()(const Tensor<token_t>& tokens, const Segments& segments) const { return decoder(tokens, segments); }
  const Var<float>& head() const { return decoder.embed_tokens->weight; }

  /// What `train::fit` asks of a model. The sources of a batch are not looked at.
  Var<float> loss(const nn::Batch<>& batch, const CrossEntropyOptions& how = {}) const {
    return linear_cross_entropy((*this)(batch.target, batch.target_segments), head(), batch.labels, how);
  }
  template <class F>
  void fields(F&& field) {
    field("decoder", decoder);
  }
};

/// The least that the searches need of a model: a state is the prefixes, and each step computes everything for them anew.
/// `decode::DecoderOnly` does the same with the keys and values of the prefixes kept.
struct PlainSteps {
  using value_type = float;
  using device_type = Cpu;
  using State = std::vector<std::vector<token_t>>;  // a prefix for each row
  LanguageModel model;

  index_t vocabulary() const { return model.decoder.options.vocabulary; }
  Tensor<float> step(State& state, std::span<const token_t> tokens) const {
    const Tensor<float> result({count_of(state), vocabulary()});
    for (std::size_t i = 0; i < state.size(); ++i) {
      state[i].push_back(tokens[i]);
      const auto length = count_of(state[i]);
      const auto x = model(Tensor<token_t>({length}, std::span<const token_t>(state[i])), Segments::ragged({length}));
      const auto all = log_softmax(linear(x, model.head()));  // [length, vocabulary]
      result.rows(i, 1).assign(all.value().rows(length - 1, 1));
    }
    return result;
  }
  void reorder(State& state, std::span<const index_t> rows) const {
    State next;
    for (const index_t row : rows) next.push_back(nth(state, row));
    state = std::move(next);
  }
};

/// A tokenizer of one's own: a token for each word that it was made with.
class Words {
 public:
  explicit Words(const std::vector<std::string>& words) : words_(words) {
    for (std::size_t i = 0; i < words.size(); ++i) tokens_[words[i]] = static_cast<token_t>(first + i);
  }
  std::vector<token_t> encode(const std::string& text) const {
    std::vector<token_t> tokens;
    std::istringstream in(text);
    for (std::string word; in >> word;) tokens.push_back(tokens_.at(word));
    return tokens;
  }
  std::string decode(std::span<const token_t> tokens) const {
    std::string text;
    for (const token_t t : tokens)
      if (t >= token_t{first}) text += (text.empty() ? "" : " ") + words_[static_cast<std::size_t>(t) - first];
    return text;
  }
  index_t size() const { return static_cast<index_t>(first + words_.size()); }
  token_t pad() const { return 0; }
  token_t bos() const { return 1; }
  token_t eos() const { return 2; }

 private:
  static constexpr std::size_t first = 3;
  std::vector<std::string> words_;
  std::map<std::string, token_t> tokens_;
};

/// The language: `the small dogs near a red cat sleep`. The verb agrees with the first noun, whatever stands between.
class Language {
 public:
  struct Sentence {
    std::string source;  // nothing: a language model has none
    std::string target;
    double log_probability;
  };
  static std::vector<std::string> words() {
    return {"the",  "a",     "two",  "old",    "red",  "small", "dog",   "cat", "bird", "dogs",
            "cats", "birds", "near", "sleeps", "runs", "sings", "sleep", "run", "sing"};
  }

  explicit Language(std::uint64_t seed) : generator_(seed) {}

  Sentence make() {
    random_ = generator_.next(), drawn_ = 0, text_ = {}, log_probability_ = 0;
    const bool plural = noun_phrase();
    if (chance(1, 3)) {
      say("near");
      noun_phrase();
    }
    one_of(plural ? std::vector{"sleep", "run", "sing"} : std::vector{"sleeps", "runs", "sings"});
    return {"", text_, log_probability_};
  }
  std::vector<Sentence> make(int count) {
    std::vector<Sentence> sentences;
    for (int i = 0; i < count; ++i) sentences.push_back(make());
    return sentences;
  }

  /// Whether a sentence belongs to the language.
  static bool has(const std::string& text) {
    std::istringstream in(text);
    std::vector<std::string> words;
    for (std::string word; in >> word;) words.push_back(word);
    std::size_t at = 0;
    const auto is = [&](const std::vector<std::string>& list) {
      for (const auto& word : list)
        if (at < words.size() && words[at] == word) return ++at, true;
      return false;
    };
    const auto noun_phrase = [&] {  // 0: none, 1: singular, 2: plural
      const bool a = is({"a"}), two = !a && is({"two"});
      if (!a && !two && !is({"the"})) return 0;
      while (is({"old", "red", "small"})) continue;
      if (!two && is({"dog", "cat", "bird"})) return 1;
      return !a && is({"dogs", "cats", "birds"}) ? 2 : 0;
    };
    const int number = noun_phrase();
    if (number == 0 || (is({"near"}) && noun_phrase() == 0)) return false;
    return is(number == 1 ? std::vector<std::string>{"sleeps", "runs", "sings"}
                          : std::vector<std::string>{"sleep", "run", "sing"}) &&
           at == words.size();
  }

 private:
  std::uint64_t draw(std::uint64_t n) { return random_.below(drawn_++, n); }
  bool chance(std::uint64_t of, std::uint64_t n) {
    const bool yes = draw(n) < of;
    log_probability_ += std::log(static_cast<double>(yes ? of : n - of) / static_cast<double>(n));
    return yes;
  }
  void say(const std::string& word) { text_ += (text_.empty() ? "" : " ") + word; }
  void one_of(const std::vector<const char*>& words) {
    say(words[draw(words.size())]);
    log_probability_ -= std::log(static_cast<double>(words.size()));
  }
  bool noun_phrase() {
    const bool plural = chance(1, 2);
    one_of(plural ? std::vector{"the", "two"} : std::vector{"the", "a"});
    while (chance(1, 3)) one_of({"old", "red", "small"});
    one_of(plural ? std::vector{"dogs", "cats", "birds"} : std::vector{"dog", "cat", "bird"});
    return plural;
  }

  Generator generator_;
  Generator::Stream random_{0, 0};
  std::uint64_t drawn_ = 0;
  std::string text_;
  double log_probability_ = 0;
};

int main() {
  const Words tokenizer(Language::words());
  const auto corpus = Language(1).make(4000), fresh = Language(2).make(500);
  seed(7);
  LanguageModel model(tokenizer.size());
  train::fit(model, corpus, tokenizer,
             {.epochs = 20,
              .tokens_per_batch = 512,
              .label_smoothing = 0,
              .optimizer = optim::AdamOptions{.beta2 = 0.98, .eps = 1e-9},
              .schedule = optim::Schedule({.kind = optim::ScheduleKind::cosine, .learning_rate = 5e-3, .warmup = 30})});

  // What a sentence costs the model, and what it costs whoever knows how it was made; both per token, the end token counted.
  const train::Batches batches(train::encode_pairs(fresh, tokenizer), tokenizer.bos(), tokenizer.eos());
  double model_loss = 0, least_loss = 0, tokens = 0;
  for (const auto& sentence : fresh) least_loss -= sentence.log_probability;
  const auto epoch = batches.in_order();
  for (index_t b = 0; b < epoch.size(); ++b) {
    const NoGrad no_grad;
    const auto batch = batches.make(epoch[b]);
    model_loss += static_cast<double>(model.loss(batch).item()) * static_cast<double>(batch.labels.size());
    tokens += static_cast<double>(batch.labels.size());
  }
  const double perplexity = std::exp(model_loss / tokens), least = std::exp(least_loss / tokens);
  std::printf("perplexity of fresh sentences: %.3f; of the language itself: %.3f\n", perplexity, least);

  const decode::DecoderOnly<float> steps(model.decoder, model.head());
  auto state = steps.begin(1);
  const auto samples = decode::sample(steps, state, 1, {.max_length = 40, .samples = 200, .seed = 3}).front();
  int good = 0;
  for (const auto& hypothesis : samples) good += hypothesis.finished && Language::has(tokenizer.decode(hypothesis.tokens));
  std::printf("of 200 sentences that it made, %d are of the language; the first are\n", good);
  for (std::size_t i = 0; i < 5; ++i) std::printf("  %s\n", tokenizer.decode(samples[i].tokens).c_str());

  state = steps.begin(1);
  const auto likely = decode::greedy(steps, state, 1, {.max_length = 40}).front();
  PlainSteps plain{model};
  PlainSteps::State prefixes(1);
  const bool same = decode::greedy(plain, prefixes, 1, {.max_length = 40}).front().tokens == likely.tokens;
  std::printf("word by word the most likely: %s\n", tokenizer.decode(likely.tokens).c_str());
  if (!same) std::printf("it is another without the cache\n");
  return perplexity < 1.02 * least && good >= 190 && same ? 0 : 1;
}
