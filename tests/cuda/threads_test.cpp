// Threads of the host that use the device at the same time: each gets the bits that it gets alone.
#include <atomic>
#include <exception>
#include <thread>

#include "attend/cuda.hpp"
#include "attend/decode/beam.hpp"
#include "attend/decode/greedy.hpp"
#include "attend/decode/transformer.hpp"
#include "attend/nn/transformer.hpp"
#include "attend/ops/embedding.hpp"
#include "attend/optim/adam.hpp"
#include "device.hpp"

using namespace attend;

namespace {

constexpr index_t vocabulary = 20;
constexpr int host_threads = 4;

nn::TransformerOptions options(double dropout) {
  return {.vocabulary = vocabulary, .d_model = 16, .heads = 2, .d_ff = 24, .layers = 1, .dropout = dropout, .max_length = 48};
}

Tensor<token_t> tokens(index_t count, index_t step) {
  const Tensor<token_t> x({count});
  for (index_t i = 0; i < count; ++i) x.data()[i] = static_cast<token_t>(3 + i * step % (vocabulary - 3));
  return x;
}

/// work(0) to work(host_threads - 1), each in a thread of its own, which begin together. Throws what one of them threw.
template <class F>
void together(F&& work) {
  std::vector<std::exception_ptr> failures(host_threads);
  std::atomic<int> waiting{host_threads};
  std::vector<std::thread> all;
  for (int i = 0; i < host_threads; ++i)
    all.emplace_back([&, i] {
      for (--waiting; waiting > 0;) std::this_thread::yield();
      try {
        work(i);
      } catch (...) {
        failures[static_cast<std::size_t>(i)] = std::current_exception();
      }
    });
  for (auto& one : all) one.join();
  for (const auto& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

/// All that a thread has computed.
struct Outcome {
  std::vector<float> losses, weights, products;
  std::vector<std::vector<token_t>> translations;
  std::vector<double> scores;
  bool captured = false;
  bool operator==(const Outcome&) const = default;
};

/// A small model's training, as a captured graph from the second step on; products between the steps; searches with a model that
/// the threads share.
Outcome compute(int number, const decode::TransformerModel<float, Cuda>& shared) {
  using T = float;
  Outcome outcome;
  seed(static_cast<std::uint64_t>(number) + 10);
  const nn::Transformer<T, Cuda> model(options(0.1));
  optim::Adam<T, Cuda> adam(nn::parameters(model));
  const nn::Batch<> batch{.source = tokens(11, 7 + number),
                          .source_segments = Segments::ragged({5, 2, 4}),
                          .target = tokens(10, 5),
                          .target_segments = Segments::ragged({3, 6, 1}),
                          .labels = tokens(10, 3 + number)};
  const auto device_batch = batch.to<Cuda>();
  const Tensor<Wide<T>, Cuda> loss({1});
  Repeated<Cuda> step;
  std::vector<Arriving<Wide<T>, Cuda>> losses;
  for (int round = 0; round < 4; ++round) {
    adam.zero_grad();
    step.run([&] {
      const auto mean = model.loss(device_batch, {.smoothing = 0.1});
      copy(Cuda{}, index_t{1}, mean.data(), loss.data());
      mean.backward();
    });
    losses.emplace_back(loss);
    adam.update(3e-3, 1.0);

    const index_t n = 16 + 8 * number;
    const auto a = device::random<T>({n, n}, static_cast<std::uint64_t>(round)).to<Cuda>();
    const Tensor<T, Cuda> c({n, n});
    gemm(Cuda{}, as_rows(a), as_rows(a).transpose(), as_rows(c));
    for (const T x : c.values()) outcome.products.push_back(static_cast<float>(x));
    if (round == 2) release_cached(Cuda{});

    const index_t rows = 2 + (number + round) % 3;
    const Segments segments = Segments::ragged(std::vector<index_t>(static_cast<std::size_t>(rows), 3));
    const auto source = tokens(3 * rows, 5 + number).to<Cuda>();
    auto state = shared.begin(source, segments), other = shared.begin(source, segments);
    for (const auto& one : decode::greedy(shared, state, rows, {.max_length = 5, .min_length = 4})) {
      outcome.translations.push_back(one.tokens);
      outcome.scores.push_back(one.log_probability);
    }
    for (const auto& beam : decode::beam_search(shared, other, rows, {.max_length = 4, .beam = 2})) {
      outcome.translations.push_back(beam.at(0).tokens);
      outcome.scores.push_back(beam.at(0).log_probability);
    }
  }
  outcome.captured = step.captured();
  for (auto& one : losses) outcome.losses.push_back(static_cast<float>(one.values().at(0)));
  for (const auto& p : nn::parameters(model))
    for (const T x : p.value().values()) outcome.weights.push_back(static_cast<float>(x));
  return outcome;
}

}  // namespace

TEST_CASE("cuda: threads train, multiply and search at the same time as they do alone") {
  if (!device::present()) return;
  seed(4);
  const nn::Transformer<float, Cuda> model(options(0));
  const decode::TransformerModel<float, Cuda> shared(model);
  std::vector<Outcome> alone(host_threads), at_once(host_threads);
  for (int i = 0; i < host_threads; ++i) alone[static_cast<std::size_t>(i)] = compute(i, shared);
  CHECK(alone[0].captured);
  CHECK(alone[0].losses != alone[1].losses);
  together([&](int i) { at_once[static_cast<std::size_t>(i)] = compute(i, shared); });
  for (int i = 0; i < host_threads; ++i) {
    INFO("thread " << i);
    const Outcome &got = at_once[static_cast<std::size_t>(i)], &expected = alone[static_cast<std::size_t>(i)];
    CHECK(got.losses == expected.losses);
    CHECK(got.products == expected.products);
    CHECK(got.translations == expected.translations);
    CHECK(got.scores == expected.scores);
    CHECK(got == expected);
  }
}

TEST_CASE("cuda: threads that come and go use the device in turn, and a bad token is thrown once") {
  if (!device::present()) return;
  const Var<float, Cuda> table(Tensor<float, Cuda>({3, 2}, 1.0f));
  std::atomic<int> thrown{0}, wrong{0};
  together([&](int number) {
    for (int round = 0; round < 20; ++round) {
      const token_t token = number == 1 && round == 7 ? 17 : 2;
      const auto y = embedding(table, Tensor<token_t>({3}, {0, token, 1}).to<Cuda>());
      std::vector<float> values;
      while (values.empty()) {
        try {
          values = y.value().values();
        } catch (const IndexError&) {
          ++thrown;  // whoever launched it
        }
      }
      const float middle = token == 2 ? 1.0f : 0.0f;
      wrong += values != std::vector<float>{1, 1, middle, middle, 1, 1};
    }
  });
  CHECK(thrown == 1);
  CHECK(wrong == 0);
}
