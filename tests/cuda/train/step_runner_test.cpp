#include "attend/train/step_runner.hpp"

#include <vector>

#include "attend/cuda.hpp"
#include "attend/nn/additive_attention.hpp"
#include "attend/nn/embedding.hpp"
#include "attend/nn/linear.hpp"
#include "attend/ops/arithmetic.hpp"
#include "attend/ops/attention.hpp"
#include "attend/ops/cross_entropy.hpp"
#include "attend/optim/sgd.hpp"
#include "cuda/device.hpp"

using namespace attend;

namespace {

constexpr index_t vocabulary = 13, width = 8;

/// Says each token from the one before, from what additive attention finds in the source, and from what attention with a bias
/// that is trained finds in what was said.
struct Reader {
  using value_type = float;
  using device_type = Cuda;
  nn::Embedding<float, Cuda> embedding{vocabulary, width};
  nn::AdditiveAttention<float, Cuda> source{width, width, width};
  nn::Linear<float, Cuda> head{width, vocabulary};
  double dropout = 0.1;
  Var<float, Cuda> bias{device::random<float>({20, 20}).to<Cuda>(), true};

  [[nodiscard]] Var<float, Cuda> loss(const nn::Batch<Cuda>& batch, const CrossEntropyOptions& options) const {
    const auto memory = embedding(batch.source), x = embedding(batch.target);
    const Segments& said = batch.target_segments;
    const auto y = x + source(x, said, memory, memory, batch.source_segments);
    const auto z = y + attention(y, y, y, said, said, {.heads = 2, .causal = true, .dropout = dropout, .bias = bias});
    return linear_cross_entropy(z, head.weight, *head.bias, batch.labels, options);
  }
  template <class F>
  void fields(F&& field) {
    field("embedding", embedding);
    field("source", source);
    field("head", head);
    field("bias", bias);
  }
};

/// Pairs of 1 to 19 tokens on each side.
train::EncodedPairs pairs(index_t count) {
  train::EncodedPairs all;
  for (index_t i = 0; i < count; ++i) {
    std::vector<token_t> source, target;
    for (index_t k = 0; k <= i * 7 % 19; ++k) source.push_back(static_cast<token_t>(3 + (i + k) % 10));
    for (index_t k = 0; k <= i * 5 % 18; ++k) target.push_back(static_cast<token_t>(3 + (i + 2 * k) % 10));
    all.add(source, target);
  }
  return all;
}

/// What three epochs give: the losses and the weights. `sizes`: how many graphs came of it.
std::vector<float> trained(bool graphs, int& sizes, double r_drop = 0, double dropout = 0.1) {
  const train::Batches batches(pairs(24), 1, 2, {.tokens_per_batch = 60, .bucket_width = 0});
  seed(6);
  Reader model;
  model.dropout = dropout;
  optim::Sgd<float, Cuda> sgd(nn::parameters(model), {.learning_rate = 0.3});
  train::StepRunner<Reader> runner;
  cuda::enable_graphs(graphs);
  const int before = cuda::detail::live_graphs();
  std::vector<float> all;
  for (index_t epoch = 0; epoch < 3; ++epoch) {
    const auto order = batches.in_order();
    for (index_t b = 0; b < order.size(); ++b) {
      sgd.zero_grad();
      all.push_back(runner.run(model, batches, order[b], {.ignore_index = -1, .r_drop = r_drop}, 1).item());
      sgd.step();
    }
  }
  cuda::enable_graphs(true);
  sizes = cuda::detail::live_graphs() - before;
  CHECK(all.back() < all.front());
  for (const auto& p : nn::parameters(model))
    for (const float x : p.value().values()) all.push_back(x);
  return all;
}

}  // namespace

TEST_CASE("cuda: steps of a model with additive attention and a trained bias are captured, and give the bits of launched ones") {
  if (!device::present()) return;
  int sizes = 0;
  const auto launched = trained(false, sizes);
  CHECK(sizes == 0);
  CHECK(trained(true, sizes) == launched);
  CHECK(sizes > 1);
}

TEST_CASE("cuda: with R-Drop the rows of the second pass stand where the batch is padded, too") {
  if (!device::present()) return;
  int sizes = 0;
  const auto launched = trained(false, sizes, 3);
  CHECK(trained(true, sizes, 3) == launched);
  CHECK(sizes > 1);
  CHECK(trained(true, sizes) != launched);
  // Two equal passes are as good as one, if each row is compared with its own.
  const auto one = trained(true, sizes, 0, 0), two = trained(true, sizes, 3, 0);
  REQUIRE(one.size() == two.size());
  CHECK(two.front() == Approx(one.front()).epsilon(1e-5));
}
