#include "attend/nn/transformer.hpp"

#include <optional>
#include <span>

#include "attend/cuda.hpp"
#include "attend/decode/beam.hpp"
#include "attend/decode/ensemble.hpp"
#include "attend/decode/greedy.hpp"
#include "attend/decode/sample.hpp"
#include "attend/decode/transformer.hpp"
#include "attend/optim/adam.hpp"
#include "device.hpp"

using namespace attend;

namespace {

constexpr index_t vocabulary = 20;

nn::TransformerOptions options(double dropout) {
  return {.vocabulary = vocabulary, .d_model = 16, .heads = 2, .d_ff = 24, .layers = 1, .dropout = dropout, .max_length = 48};
}

Tensor<token_t> tokens(index_t count, index_t step) {
  const Tensor<token_t> x({count});
  for (index_t i = 0; i < count; ++i) x.data()[i] = static_cast<token_t>(3 + i * step % (vocabulary - 3));
  return x;
}

/// 50 steps from one seed on both devices, the device's captured as a graph: losses and weights.
template <class T>
void check_training(double allowed) {
  seed(3);
  const nn::Transformer<float> here(options(0.1));
  Generator by_processor = default_generator();
  seed(3);
  const nn::Transformer<T, Cuda> there(options(0.1));
  Generator by_device = default_generator();
  const nn::Batch<> batch{.source = tokens(11, 7),
                          .source_segments = Segments::ragged({5, 2, 4}),
                          .target = tokens(10, 5),
                          .target_segments = Segments::ragged({3, 6, 1}),
                          .labels = tokens(10, 3)};
  const auto device_batch = batch.to<Cuda>();
  optim::Adam<float> adam(nn::parameters(here));
  optim::Adam<T, Cuda> device_adam(nn::parameters(there));
  const Tensor<Wide<T>, Cuda> loss({1});
  Repeated<Cuda> step;
  float first = 0;
  for (int i = 0; i < 50; ++i) {
    default_generator() = by_processor;
    adam.zero_grad();
    const auto expected = here.loss(batch, {.smoothing = 0.1});
    expected.backward();
    adam.update(3e-3, 1.0);
    by_processor = default_generator();

    default_generator() = by_device;
    device_adam.zero_grad();
    step.run([&] {
      const auto mean = there.loss(device_batch, {.smoothing = 0.1});
      copy(Cuda{}, index_t{1}, mean.data(), loss.data());
      mean.backward();
    });
    device_adam.update(3e-3, 1.0);
    by_device = default_generator();
    INFO("step " << i);
    CHECK(loss.item() == Approx(expected.item()).epsilon(allowed));
    if (i == 0) first = expected.item();
    if (i == 49) CHECK(expected.item() < 0.8f * first);
  }
  CHECK(step.captured());
  CHECK(by_device.drawn() == by_processor.drawn());
  const auto a = nn::state(here);
  const auto b = nn::state(there);
  for (std::size_t i = 0; i < a.size(); ++i) {
    INFO(a[i].name);
    // k's bias shifts all scores of a row alike: its gradient is rounding, of which Adam makes steps of full size.
    if (a[i].name.find("k_proj.bias") != std::string::npos) continue;
    if (std::is_same_v<T, float>) CHECK(device::difference(b[i].value, a[i].value, 0.02) == "");
  }
}

/// Searches on both devices with the same weights, several times, so that recorded steps and larger rooms come to pass.
template <class T>
void check_decoding() {
  seed(4);
  const nn::Transformer<float> here(options(0));
  const nn::Transformer<T, Cuda> there(options(0));
  const auto a = nn::state(here);
  const auto b = nn::state(there);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto rounded = device::converted<T>(a[i].value);
    a[i].value.assign(device::converted<float>(rounded));
    b[i].value.assign(rounded);
  }
  const auto source = tokens(12, 7);
  const auto segments = Segments::ragged({5, 3, 4});
  const decode::TransformerModel<float> model(here, {.attention = true});
  const decode::TransformerModel<T, Cuda> device_model(there, {.attention = true});
  const double allowed = std::is_same_v<T, float> ? 1e-4 : 5e-2;
  const auto same = [&](const decode::Hypothesis& got, const decode::Hypothesis& expected) {
    if (std::is_same_v<T, float>) CHECK(got.tokens == expected.tokens);
    CHECK(got.log_probability / static_cast<double>(got.tokens.size() + 1) ==
          Approx(expected.log_probability / static_cast<double>(expected.tokens.size() + 1)).epsilon(allowed));
  };
  const auto search = [&](auto&& how) {
    auto state = model.begin(source, segments);
    auto device_state = device_model.begin(source.to<Cuda>(), segments);
    const auto expected = how(model, state);
    const auto got = how(device_model, device_state);
    REQUIRE(got.size() == expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      if constexpr (requires { got[i].tokens; }) same(got[i], expected[i]);
      else same(got[i].at(0), expected[i].at(0));
    }
  };
  for (int round = 0; round < 2; ++round) {
    search([](auto& m, auto& state) { return decode::greedy(m, state, 3, {.max_length = 40, .min_length = 34}); });
    search([](auto& m, auto& state) { return decode::beam_search(m, state, 3, {.max_length = 8, .beam = 3}); });
  }
  if constexpr (std::is_same_v<T, float>) {
    search(
        [](auto& m, auto& state) { return decode::sample(m, state, 3, {.max_length = 8, .samples = 2, .top_k = 5, .seed = 2}); });
    const decode::Constraints constraints{.prefix = {{5}, {}, {7, 7}},
                                          .allowed = {{}, {3, 4, 5, 6, 9, 11, 12}, {7, 8, 9, 10}},
                                          .banned = {{4}, {7, 7, 8}},
                                          .no_repeat_ngram = 2,
                                          .force_end = true};
    search([&](auto& m, auto& state) {
      return decode::beam_search(m, state, 3, {.max_length = 7, .beam = 3, .constraints = constraints, .coverage = 0.4});
    });
    decode::Constraints changed{
        .prefix = {{5}, {}, {}},
        .repetition_penalty = 1.4,
        .unknown = 6,
        .unknown_penalty = 0.7,
        .allowed_next = [](index_t sentence, std::span<const token_t>) -> std::optional<std::vector<token_t>> {
          if (sentence == 1) return std::nullopt;
          return std::vector<token_t>{2, 4, 5, 6, 7, 9};
        },
        .edit =
            [](index_t, std::span<const token_t> tokens, std::span<float> values) {
              if (!tokens.empty()) values[static_cast<std::size_t>(tokens.back())] -= 1;
            }};
    search([&](auto& m, auto& state) {
      return decode::beam_search(
          m, state, 3,
          {.end_tokens = {8}, .max_length = 7, .beam = 3, .constraints = changed, .temperature = 1.5, .distributions = true});
    });
    search([&](auto& m, auto& state) {
      return decode::greedy(m, state, 3, {.end_tokens = {8}, .max_length = 7, .constraints = changed, .distributions = true});
    });
    search([&](auto& m, auto& state) {
      return decode::sample(m, state, 3, {.max_length = 7, .min_p = 0.2, .seed = 3, .constraints = changed});
    });
    search([&](auto& m, auto& state) {
      return decode::beam_search(m, state, 3, {.max_length = 9, .beam = 6, .required = {{{9, 11}}, {}, {{4}, {13, 5}}}});
    });
    search([&](auto& m, auto& state) {
      return decode::beam_search(m, state, 3, {.max_length = 7, .beam = 6, .beam_groups = 3, .diversity_penalty = 0.8});
    });
    // Two of one model, the second of which counts twice, are that model.
    const decode::Ensemble<decode::TransformerModel<float, Cuda>> both({device_model, device_model}, {.weights = {1, 2}});
    auto state = model.begin(source, segments);
    auto device_state = both.begin(source.to<Cuda>(), segments);
    const decode::BeamOptions how{.max_length = 7, .beam = 3, .coverage = 0.4};
    const auto expected = decode::beam_search(model, state, 3, how), got = decode::beam_search(both, device_state, 3, how);
    for (std::size_t i = 0; i < 3; ++i) {
      same(got[i].at(0), expected[i].at(0));
      CHECK(got[i][0].score == Approx(expected[i][0].score).epsilon(allowed));
    }
  }
}

}  // namespace

TEST_CASE("cuda: a Transformer trained 50 steps from one seed is the processor's, in float and nearly in bfloat16") {
  if (!device::present()) return;
  check_training<float>(1e-3);
  check_training<bfloat16>(3e-2);
}

TEST_CASE("cuda: greedy and beam search and sampling find what they find on the processor") {
  if (!device::present()) return;
  check_decoding<float>();
  check_decoding<bfloat16>();
}

TEST_CASE("cuda: recorded steps see new weights, and weights that have moved") {
  if (!device::present()) return;
  seed(4);
  const nn::Transformer<float, Cuda> model(options(0));
  const decode::TransformerModel<float, Cuda> steps(model);
  const auto source = tokens(4, 7).to<Cuda>();
  const auto run = [&](const auto& m) {
    auto state = m.begin(source, Segments::ragged({4}));
    return decode::greedy(m, state, 1, {.max_length = 6, .min_length = 6}).front().log_probability;
  };
  const double before = run(steps);
  CHECK(run(steps) == before);
  const auto& weight = model.output_weight().value();
  auto other = weight.to_host().clone();
  for (float& w : other.span()) w *= 1.5f;
  weight.assign(other);
  const double after = run(steps);
  CHECK(after != before);
  CHECK(after == run(decode::TransformerModel<float, Cuda>(model)));
  const optim::FlatParameters<float, Cuda> moved(nn::parameters(model));
  moved.values().fill(0.0f);
  CHECK(run(steps) == Approx(6 * -std::log(static_cast<double>(vocabulary))).epsilon(0.2));
}

TEST_CASE("cuda: a bad token is reported where the host next waits, and nothing is lost") {
  if (!device::present()) return;
  using Catch::Matchers::ContainsSubstring;
  const Var<float, Cuda> table(Tensor<float, Cuda>({3, 2}, 1.0f), true);
  const auto y = embedding(table, Tensor<token_t>({3}, {0, 17, 2}).to<Cuda>());
  CHECK_THROWS_WITH(y.value().values(), "embedding: token 17 at position 1 is outside the vocabulary of 3");
  CHECK(y.value().values() == std::vector<float>{1, 1, 0, 0, 1, 1});
  const auto loss = cross_entropy(table, Tensor<token_t>({3}, {0, 5, 1}).to<Cuda>());
  CHECK_THROWS_WITH(loss.item(), ContainsSubstring("label 5 at position 1 is outside [0, 2)"));
  CHECK(std::isfinite(loss.item()));
}
