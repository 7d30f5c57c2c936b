// translate bench: how fast this machine trains and translates.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "attend/core/precision.hpp"
#include "attend/decode/beam.hpp"
#include "attend/decode/greedy.hpp"
#include "attend/decode/transformer.hpp"
#include "attend/optim/adam.hpp"
#include "attend/train/progress.hpp"
#include "commands.hpp"
#include "console.hpp"
#include "flags/model_flags.hpp"
#include "flags/place.hpp"

namespace translate {

namespace {

using namespace attend;

struct BenchCommand {
  ModelFlags model;
  Place place;
  index_t vocabulary = 10000, tokens = 2048, length = 20, rounds = 5;

  BenchCommand() { model.preset = "tiny"; }
};

/// Sentences of `length` random tokens, some more and some fewer, `tokens` in all.
struct RandomSentences {
  Tensor<token_t> ids;
  Segments segments;
};

RandomSentences random_sentences(index_t tokens, index_t length, index_t vocabulary) {
  std::vector<index_t> lengths;
  const auto random = default_generator().next();
  for (index_t left = tokens, i = 0; left > 0; ++i) {
    const auto spread = static_cast<std::uint64_t>(std::max<index_t>(1, length));
    const index_t n =
        std::min<index_t>(left, length / 2 + 1 + static_cast<index_t>(random.below(static_cast<std::uint64_t>(i), spread)));
    lengths.push_back(n);
    left -= n;
  }
  Tensor<token_t> ids({tokens});
  const auto words = default_generator().next();
  for (index_t i = 0; i < tokens; ++i)
    ids.data()[i] =
        static_cast<token_t>(3 + words.below(static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(vocabulary - 3)));
  return {ids, Segments::ragged(lengths)};
}

/// Median seconds of some rounds after one to warm up.
template <class Types, class F>
double median_seconds(index_t rounds, F&& work) {
  const auto f = [&] {
    work();
    Types::wait();
  };
  f();
  std::vector<double> seconds;
  for (index_t i = 0; i < rounds; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    f();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  std::nth_element(seconds.begin(), seconds.begin() + rounds / 2, seconds.end());
  return nth(seconds, rounds / 2);
}

template <class Types>
void bench_training(const BenchCommand& flags, nn::Transformer<typename Types::T, typename Types::D>& model) {
  using T = typename Types::T;
  using D = typename Types::D;
  nn::set_training(model, true);
  const bool bf16 = flags.place.products() == Precision::bf16;  // 8-bit integers are for decoding alone
  const MatmulPrecision precision(bf16 ? Precision::bf16 : Precision::full);
  const auto source = random_sentences(flags.tokens, flags.length, flags.vocabulary);
  Tensor<token_t> targets(source.ids.shape()), labels(source.ids.shape());
  targets.assign(source.ids), labels.assign(source.ids);
  const nn::Batch<D> batch{source.ids.to<D>(), source.segments, targets.to<D>(), source.segments, labels.to<D>()};
  optim::Adam<T, D> adam{optim::FlatParameters<T, D>(nn::parameters(model)), optim::AdamOptions{.learning_rate = 1e-5}};
  const double seconds = median_seconds<Types>(flags.rounds, [&] {
    adam.zero_grad();
    model.loss(batch, {.smoothing = 0.1}).backward();
    adam.update(1e-5);
  });
  std::printf("training step    %6lld target tokens  %8.1f ms  %9.0f tokens/s\n", static_cast<long long>(flags.tokens),
              seconds * 1e3, static_cast<double>(flags.tokens) / seconds);
}

template <class Types>
void bench_decoding(const BenchCommand& flags, const nn::Transformer<typename Types::T, typename Types::D>& model, index_t beam,
                    index_t sentences) {
  const decode::TransformerModel<typename Types::T, typename Types::D> steps(model, flags.place.products());
  const auto source = random_sentences(sentences * flags.length, flags.length, flags.vocabulary);
  const index_t count = source.segments.count();
  // Weights that have learnt nothing do not know when to stop, so all translations get one length.
  const auto ids = source.ids.to<typename Types::D>();
  const double seconds = median_seconds<Types>(flags.rounds, [&] {
    auto state = steps.begin(ids, source.segments);
    if (beam == 1) (void)decode::greedy(steps, state, count, {.max_length = flags.length, .min_length = flags.length});
    else (void)decode::beam_search(steps, state, count, {.max_length = flags.length, .min_length = flags.length, .beam = beam});
  });
  std::printf("decoding beam %-2lld %6lld sentences      %8.1f ms  %9.0f tokens/s\n", static_cast<long long>(beam),
              static_cast<long long>(count), seconds * 1e3, static_cast<double>(count * flags.length) / seconds);
}

template <class Types>
void bench(const BenchCommand& flags) {
  seed(1);
  nn::Transformer<typename Types::T, typename Types::D> model(flags.model.options(flags.vocabulary, {}));
  std::printf("%s parameters, vocabulary %lld, sentences of about %lld tokens, %d threads, median of %lld rounds\n",
              train::count_text(static_cast<double>(nn::parameter_count(model))).c_str(),
              static_cast<long long>(flags.vocabulary), static_cast<long long>(flags.length), threads(),
              static_cast<long long>(flags.rounds));
  bench_training<Types>(flags, model);
  for (const index_t sentences : {1, 32})
    for (const index_t beam : {1, 4}) bench_decoding<Types>(flags, model, beam, sentences);
  std::printf("peak memory      %.0f MB\n", peak_memory() / (1 << 20));
#if defined(TRANSLATE_WITH_CUDA)
  if constexpr (std::same_as<typename Types::D, Cuda>)
    std::printf("of the device    %.0f MB\n", static_cast<double>(cuda::memory_use().peak) / (1 << 20));
#endif
}

}  // namespace

void add_bench(CLI::App& app) {
  auto* command = app.add_subcommand("bench", "Measure training and decoding on this machine, with random sentences and weights");
  auto flags = std::make_shared<BenchCommand>();
  command->add_option("--vocabulary", flags->vocabulary, "Tokens")->check(CLI::Range(8, 1 << 20))->capture_default_str();
  command->add_option("--tokens", flags->tokens, "Target tokens of a training step")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--length", flags->length, "Tokens of a sentence, about")->check(CLI::Range(1, 128))->capture_default_str();
  command->add_option("--rounds", flags->rounds, "Rounds, of which the median counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  flags->model.add_to(*command);
  command->get_option("--preset")->capture_default_str();
  flags->place.add_to(*command, true);
  command->callback([flags] { flags->place.with_types([&](auto types) { bench<decltype(types)>(*flags); }); });
}

}  // namespace translate
