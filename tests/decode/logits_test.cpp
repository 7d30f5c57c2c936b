// Searches that take logits against the same from log-probabilities.
#include "attend/decode/beam.hpp"
#include "attend/decode/decoder_only.hpp"
#include "attend/decode/ensemble.hpp"
#include "attend/decode/greedy.hpp"
#include "attend/decode/transformer.hpp"
#include "catch.hpp"

using namespace attend;

namespace {

/// A model that counts what it is asked for, and gives logits only if it is to.
template <class M>
struct Watched {
  using value_type = typename M::value_type;
  using device_type = typename M::device_type;
  using State = typename M::State;
  const M& model;
  bool willing;
  int steps = 0, logit_steps = 0;

  index_t vocabulary() const { return model.vocabulary(); }
  auto step(State& state, std::span<const token_t> tokens) { return ++steps, model.step(state, tokens); }
  void reorder(State& state, std::span<const index_t> rows) { model.reorder(state, rows); }
  bool gives_logits(const State& state) { return willing && model.gives_logits(state); }
  auto logits(State& state, std::span<const token_t> tokens) { return ++logit_steps, model.logits(state, tokens); }
};

void require_same(const decode::Results<decode::Hypothesis>& a, const decode::Results<decode::Hypothesis>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    REQUIRE(a[i].tokens == b[i].tokens);
    REQUIRE(a[i].score == b[i].score);
    REQUIRE(a[i].token_log_probabilities == b[i].token_log_probabilities);
    REQUIRE(a[i].finished == b[i].finished);
  }
}
void require_same(const decode::Results<decode::Results<decode::Hypothesis>>& a,
                  const decode::Results<decode::Results<decode::Hypothesis>>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t s = 0; s < a.size(); ++s) require_same(a[s], b[s]);
}

/// search(model, state) with logits and without is the same; `expected`: whether logits are asked for where they may be.
template <class M, class Begin, class Search>
void compare(const M& model, Begin&& begin, Search&& search, bool expected = true) {
  Watched<M> plain{model, false}, quick{model, true};
  auto state = begin(model);
  const auto slow = search(plain, state);
  auto again = begin(model);
  require_same(search(quick, again), slow);
  REQUIRE(plain.logit_steps == 0);
  REQUIRE((expected ? quick.logit_steps : quick.steps) == plain.steps);
  REQUIRE((expected ? quick.steps : quick.logit_steps) == 0);
}

}  // namespace

TEMPLATE_TEST_CASE("searches find with logits what they find with log-probabilities", "[logits]", float, double) {
  using T = TestType;
  seed(3);
  const nn::Transformer<T> model({.vocabulary = 300, .d_model = 8, .heads = 2, .d_ff = 12, .layers = 2, .max_length = 32});
  const decode::TransformerModel<T> steps(model);
  const decode::Ensemble<decode::TransformerModel<T>> one({steps}), two({steps, steps});
  const Tensor<token_t> source({9}, {3, 4, 5, 2, 6, 7, 8, 9, 2});
  const auto segments = Segments::ragged({4, 5});
  const auto begin = [&](const auto& m) { return m.begin(source, segments); };
  const auto with = [](auto options, const std::vector<token_t>& suppressed, index_t min_length) {
    options.max_length = std::vector<index_t>{9, 12};
    options.suppressed = suppressed;
    options.min_length = min_length;
    return options;
  };
  for (const std::vector<token_t>& suppressed : {std::vector<token_t>{}, std::vector<token_t>{0, 1, 3, 299}})
    for (const index_t min_length : {0, 6}) {
      const auto greedy = [&](auto& m, auto& state) {
        return decode::greedy(m, state, 2, with(decode::GreedyOptions{}, suppressed, min_length));
      };
      const auto beam = [&](auto& m, auto& state) {
        return decode::beam_search(m, state, 2, with(decode::BeamOptions{.beam = 5, .n_best = 5}, suppressed, min_length));
      };
      compare(steps, begin, greedy);
      compare(steps, begin, beam);
      compare(one, begin, beam);
      compare(two, begin, beam, false);
    }
}

TEST_CASE("searches with options that change more than excluded tokens take log-probabilities", "[logits]") {
  seed(4);
  const nn::Transformer<float> model({.vocabulary = 40, .d_model = 8, .heads = 2, .d_ff = 12, .layers = 1, .max_length = 32});
  const decode::TransformerModel<float> steps(model);
  const Tensor<token_t> source({4}, {3, 4, 5, 2});
  const auto segments = Segments::ragged({4});
  const auto begin = [&](const auto& m) { return m.begin(source, segments); };
  const auto compared = [&](auto change) {
    compare(
        steps, begin,
        [&](auto& m, auto& state) {
          decode::BeamOptions options{.beam = 3, .n_best = 3};
          options.max_length = {8};
          change(options);
          return decode::beam_search(m, state, 1, options);
        },
        false);
  };
  compared([](auto& o) { o.temperature = 0.5; });
  compared([](auto& o) { o.distributions = true; });
  compared([](auto& o) { o.constraints.repetition_penalty = 1.5; });
  compared([](auto& o) { o.constraints.no_repeat_ngram = 1; });
  compared([](auto& o) { o.constraints.unknown = 7, o.constraints.unknown_penalty = 2; });
  compared([](auto& o) { o.constraints.renormalize = true; });
  compared([](auto& o) { o.constraints.prefix = {{5, 6}}; });
  compared([](auto& o) { o.constraints.banned = {{5, 6}}; });
  compared([](auto& o) { o.constraints.edit = [](index_t, std::span<const token_t>, std::span<float> x) { x[9] = -1; }; });
  compared([](auto& o) { o.required = {{{12}}}; });
  // A state with a head of some tokens has their probabilities alone.
  const std::vector<token_t> head{2, 5, 6, 7, 8};
  compare(
      steps, [&](const auto& m) { return m.begin(source, segments, head); },
      [](auto& m, auto& state) { return decode::greedy(m, state, 1, {.max_length = {8}}); }, false);
}

TEST_CASE("a state of another number of models is refused, and the logits of several models", "[logits]") {
  seed(6);
  const nn::Transformer<float> model({.vocabulary = 20, .d_model = 8, .heads = 2, .d_ff = 12, .layers = 1, .max_length = 8});
  const decode::TransformerModel<float> steps(model);
  const decode::Ensemble<decode::TransformerModel<float>> one({steps}), two({steps, steps});
  decode::Ensemble<decode::TransformerModel<float>>::State empty;
  REQUIRE_THROWS_AS(decode::greedy(one, empty, 1, {.max_length = {4}}), ValueError);
  auto state = two.begin(Tensor<token_t>({2}, {3, 2}), Segments::ragged({2}));
  REQUIRE_THROWS_WITH(two.logits(state, std::vector<token_t>{1}), "Ensemble: logits of 2 models, expected one");
}

TEST_CASE("a language model is searched with logits, too", "[logits]") {
  seed(5);
  nn::StackOptions options{.vocabulary = 80, .d_model = 8, .heads = 2, .d_ff = 12, .layers = 2, .max_length = 16};
  options.cross_attentions = 0;
  const nn::Decoder<float> decoder(options);
  const decode::DecoderOnly<float> steps(decoder, decoder.embed_tokens->weight);
  compare(
      steps, [](const auto& m) { return m.begin(1); },
      [](auto& m, auto& state) { return decode::beam_search(m, state, 1, {.max_length = {9}, .beam = 4, .n_best = 4}); });
}
