#include <utility>
#include <vector>

#include "attend/cuda.hpp"
#include "attend/nn/additive_attention.hpp"
#include "attend/nn/batch.hpp"
#include "attend/nn/embedding.hpp"
#include "attend/nn/linear.hpp"
#include "attend/ops/arithmetic.hpp"
#include "attend/ops/attention.hpp"
#include "attend/ops/cross_entropy.hpp"
#include "attend/optim/sgd.hpp"
#include "device.hpp"

/// Steps whose kernels need to know where the weights of a sentence stand: what a captured graph cannot get from the host.
using namespace attend;

namespace {

constexpr index_t vocabulary = 11, width = 8, heads = 2, longest = 12;

/// Says each token from the one before and from what an attention finds in the source.
template <class T, class Attend>
struct Net {
  using value_type = T;
  using device_type = Cuda;
  nn::Embedding<T, Cuda> embedding{vocabulary, width};
  nn::Linear<T, Cuda> head{width, vocabulary};
  Attend attend;

  [[nodiscard]] Var<Wide<T>, Cuda> loss(const nn::Batch<Cuda>& batch) const {
    const auto memory = embedding(batch.source), x = embedding(batch.target);
    const auto seen = attend(x, memory, batch.target_segments, batch.source_segments);
    return linear_cross_entropy(x + seen, head.weight, *head.bias, batch.labels, {.ignore_index = -1});
  }
  template <class F>
  void fields(F&& field) {
    field("embedding", embedding);
    field("head", head);
    field("attend", attend);
  }
};

template <class T>
struct Additive {
  nn::AdditiveAttention<T, Cuda> attention{width, width, width};

  Var<T, Cuda> operator()(const Var<T, Cuda>& x, const Var<T, Cuda>& memory, const Segments& targets,
                          const Segments& sources) const {
    return attention(x, targets, memory, memory, sources);
  }
  template <class F>
  void fields(F&& field) {
    field("attention", attention);
  }
};

/// With a bias of [queries, keys], or of each head.
template <class T, bool per_head>
struct Biased {
  Var<T, Cuda> bias{
      device::random<T>(per_head ? Shape{heads, longest, longest + 1} : Shape{longest, longest + 1}).template to<Cuda>(), true};

  Var<T, Cuda> operator()(const Var<T, Cuda>& x, const Var<T, Cuda>& memory, const Segments& targets,
                          const Segments& sources) const {
    return attention(x, memory, memory, targets, sources, {.heads = heads, .dropout = 0.2, .bias = bias});
  }
  template <class F>
  void fields(F&& field) {
    field("bias", bias);
  }
};

using Lengths = std::vector<std::pair<index_t, index_t>>;  // of a sentence's source and target

/// Trains on batches of three sentences in one room, and gives all weights and losses.
template <class N>
std::vector<float> trained(bool graphs) {
  using T = typename N::value_type;
  // Each fills the room: 20 and 16 rows.
  const std::vector<Lengths> batches{{{9, 5}, {4, 9}, {7, 2}},
                                     {{1, 12}, {12, 0}, {7, 4}},
                                     {{0, 6}, {8, 6}, {12, 4}},
                                     {{10, 1}, {10, 3}, {0, 12}},
                                     {{12, 12}, {7, 0}, {1, 4}}};
  seed(17);
  N net;
  optim::Sgd<T, Cuda> sgd(nn::parameters(net), {.learning_rate = 0.5});
  const auto sources = make_tables(Cuda{}, 3), targets = make_tables(Cuda{}, 3);
  const nn::Batch<Cuda> batch{.source = Tensor<token_t, Cuda>({20}),
                              .source_segments = Segments::room(3, 20, longest, sources),
                              .target = Tensor<token_t, Cuda>({16}),
                              .target_segments = Segments::room(3, 16, longest, targets),
                              .labels = Tensor<token_t, Cuda>({16})};
  const Tensor<Wide<T>, Cuda> loss(Shape{1});
  Repeated<Cuda> step;
  cuda::enable_graphs(graphs);
  std::vector<float> all;
  for (std::size_t round = 0; round < 7; ++round) {
    std::vector<index_t> source_lengths, target_lengths;
    for (const auto& [source, target] : batches[round % batches.size()])
      source_lengths.push_back(source), target_lengths.push_back(target);
    write_tables(Cuda{}, Segments::ragged(source_lengths), sources);
    write_tables(Cuda{}, Segments::ragged(target_lengths), targets);
    const auto tokens = [&](index_t count, std::size_t first) {
      const Tensor<token_t> some({count});
      for (index_t i = 0; i < count; ++i)
        some.data()[i] = static_cast<token_t>((static_cast<std::size_t>(i * i) + first + 3 * round) % vocabulary);
      return some;
    };
    batch.source.assign(tokens(20, 1)), batch.target.assign(tokens(16, 2)), batch.labels.assign(tokens(16, 5));
    sgd.zero_grad();
    step.run([&] {
      const auto mean = net.loss(batch);
      copy(Cuda{}, index_t{1}, mean.data(), loss.data());
      mean.backward();
    });
    CHECK(step.captured() == (graphs && round > 0));
    sgd.step();
    all.push_back(static_cast<float>(loss.item()));
  }
  cuda::enable_graphs(true);
  for (const auto& p : nn::parameters(net))
    for (const T x : p.value().values()) all.push_back(static_cast<float>(x));
  return all;
}

template <class N>
void check_captured() {
  const auto launched = trained<N>(false), captured = trained<N>(true);
  CHECK(launched == captured);
  CHECK(launched[5] < launched[0]);  // the first batch again
}

}  // namespace

TEMPLATE_TEST_CASE("cuda: steps with additive attention are captured", "", float, bfloat16) {
  if (!device::present()) return;
  check_captured<Net<TestType, Additive<TestType>>>();
}

TEMPLATE_TEST_CASE("cuda: steps that train a bias of attention are captured", "", float, bfloat16) {
  if (!device::present()) return;
  check_captured<Net<TestType, Biased<TestType, false>>>();
  check_captured<Net<TestType, Biased<TestType, true>>>();
}

TEST_CASE("cuda: attention that gives its weights is captured where the host knows the sentences") {
  if (!device::present()) return;
  const Segments queries = Segments::ragged({3, 5}), keys = Segments::ragged({4, 2});
  const Var<float, Cuda> k(device::random<float>({6, width}, 2).to<Cuda>()), q(Tensor<float, Cuda>({8, width}));
  const Tensor<float, Cuda> seen({5, 2});
  const auto look = [&] {
    AttentionWeights<float, Cuda> weights;
    (void)attention(q, k, k, queries, keys, {.heads = heads, .weights = &weights});
    return weights.matrix(1, 1);
  };
  Repeated<Cuda> work;
  for (std::uint64_t round = 0; round < 4; ++round) {
    q.value().assign(device::random<float>({8, width}, 10 + round));
    const NoGrad no_grad;
    work.run([&] { copy(Cuda{}, index_t{10}, look().data(), seen.data()); });
    CHECK(work.captured() == (round > 0));
    CHECK(seen.values() == look().values());
  }
}

TEST_CASE("cuda: weights of sentences in a room are refused to the host, which does not know where they stand") {
  if (!device::present()) return;
  const auto tables = make_tables(Cuda{}, 2);
  write_tables(Cuda{}, Segments::ragged({3, 1}), tables);
  const auto room = Segments::room(2, 4, 3, tables);
  const Var<float, Cuda> x(device::random<float>({4, width}).to<Cuda>());
  AttentionWeights<float, Cuda> weights;
  (void)attention(x, x, x, room, room, {.weights = &weights});
  CHECK_THROWS_WITH(weights.matrix(0, 0),
                    "attention weights: the sentences are in a room, of their lengths the host knows only the most");
  CHECK_THROWS_AS(weights.dense(), ValueError);
}

TEST_CASE("cuda: the device finds out where the weights of each of many sentences stand") {
  if (!device::present()) return;
  for (const index_t sentences : {1, 255, 256, 257, 1000, 20000}) {
    std::vector<index_t> query_lengths, key_lengths;
    for (index_t s = 0; s < sentences; ++s) query_lengths.push_back(s * 7 % 13), key_lengths.push_back(s * 5 % 11);
    AttentionLayout a;
    a.queries = Segments::ragged(query_lengths), a.keys = Segments::ragged(key_lengths), a.heads = 3;
    a.lay_out_weights();
    const auto made = cuda::weight_offsets(a);
    std::vector<index_t> offsets(static_cast<std::size_t>(sentences));
    copy_to_host(Cuda{}, sentences, made.data(), offsets.data());
    CHECK(offsets == std::vector<index_t>(a.weight_offset.begin(), a.weight_offset.end() - 1));
  }
}
