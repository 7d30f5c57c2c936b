#include "attend/cuda/cross_entropy.cuh"

#include "rows.hpp"

using namespace attend;

namespace {

struct Size {
  index_t rows, classes;
};
// Rows of packs and edges, and of every length of registers in one type or another.
const std::vector<Size> sizes{{0, 5}, {3, 1}, {4, 10}, {70, 33}, {4, 1000}, {3, 9001}, {2, 20000}, {2, 40003}, {1, 70002}};

/// Labels of which the second, where there is one, is ignored.
Tensor<token_t> some_labels(index_t rows, index_t classes, token_t ignored) {
  const Tensor<token_t> labels({rows});
  const Generator::Stream random{9, 0};
  for (index_t r = 0; r < rows; ++r)
    labels.data()[r] = static_cast<token_t>(random.below(static_cast<std::uint64_t>(r), static_cast<std::uint64_t>(classes)));
  if (rows > 0) labels.data()[0] = static_cast<token_t>(classes - 1);
  if (rows > 1) labels.data()[1] = ignored;
  return labels;
}

Tensor<token_t, Cuda> on_device(const Tensor<token_t>& x) { return x.to<Cuda>(); }

/// What waiting for the device throws.
std::string complaint() {
  try {
    cuda::synchronize();
  } catch (const IndexError& e) {
    return e.what();
  }
  return {};
}

}  // namespace

TEMPLATE_TEST_CASE("cuda: cross_entropy is the processor's", "[cuda]", float, double, bfloat16) {
  if (!device::present()) return;
  using T = TestType;
  using W = Wide<T>;
  for (const Size size : sizes)
    for (const index_t offset : {0, 1})
      for (const double smoothing : {0.0, 0.1}) {
        const index_t rows = size.rows, classes = size.classes;
        if (classes > 1000 && (offset == 0) == (smoothing == 0)) continue;  // to save time
        INFO(rows << " rows of " << classes << ", offset " << offset << ", smoothing " << smoothing);
        const CrossEntropyOptions options{.smoothing = smoothing, .ignore_index = -7};
        const auto logits = device::representable<T>({rows, classes}, 1);
        for (index_t i = 0; i < logits.size(); ++i) logits.data()[i] *= W(8);
        const auto labels = some_labels(rows, classes, -7);
        const W scale(0.25), dloss(3);
        const Tensor<W> losses({rows}), log_sums({rows}), dlogits(logits.shape()), in_place = logits.clone(), own_losses({rows});
        cross_entropy_forward(Cpu{}, rows, classes, options, logits.data(), labels.data(), losses.data(), log_sums.data());
        cross_entropy_backward(Cpu{}, rows, classes, options, logits.data(), labels.data(), log_sums.data(), &scale, &dloss,
                               dlogits.data());
        cross_entropy_in_place(Cpu{}, rows, classes, options, labels.data(), &scale, in_place.data(), own_losses.data());

        const auto x = device::upload<T>(logits, offset), got = device::before<T>(logits, 0, offset);
        const auto device_labels = on_device(labels);
        const Tensor<W, Cuda> got_losses({rows}), got_log_sums({rows}), device_scale({1}, scale), device_dloss({1}, dloss);
        cross_entropy_forward(Cuda{}, rows, classes, options, x.data(), device_labels.data(), got_losses.data(),
                              got_log_sums.data());
        REQUIRE(device::difference(got_losses, losses) == "");
        REQUIRE(device::difference(got_log_sums, log_sums) == "");
        cross_entropy_backward(Cuda{}, rows, classes, options, x.data(), device_labels.data(), got_log_sums.data(),
                               device_scale.data(), device_dloss.data(), got.data());
        REQUIRE(device::difference(got, dlogits) == "");
        got_losses.fill(std::numeric_limits<W>::quiet_NaN());
        cross_entropy_in_place(Cuda{}, rows, classes, options, device_labels.data(), device_scale.data(), x.data(),
                               got_losses.data());
        REQUIRE(device::difference(got_losses, own_losses) == "");
        REQUIRE(device::difference(x, in_place) == "");
      }
}

TEST_CASE("cuda: cross_entropy takes logits of any size", "[cuda]") {
  if (!device::present()) return;
  const float low = -std::numeric_limits<float>::infinity();
  for (const index_t classes : {5, 2500}) {
    const Tensor<float> x({2, classes}, low);
    x(0, 0) = 5000, x(0, classes - 1) = 5000, x(1, 2) = -3e30f;
    const Tensor<token_t> labels({2}, {0, 2});
    const auto logits = device::upload<float>(x);
    const Tensor<float, Cuda> losses({2}), log_sums({2}), scale({1}, 1.0f);
    cross_entropy_forward(Cuda{}, 2, classes, {}, logits.data(), on_device(labels).data(), losses.data(), log_sums.data());
    REQUIRE(losses.values()[0] == Approx(std::log(2.0)).margin(1e-3));
    REQUIRE(losses.values()[1] == 0);
    cross_entropy_in_place(Cuda{}, 2, classes, {}, on_device(labels).data(), scale.data(), logits.data(), losses.data());
    REQUIRE(logits.values()[0] == Approx(-0.5).epsilon(1e-3));
    REQUIRE(logits.values()[1] == 0);
  }
}

TEMPLATE_TEST_CASE("cuda: loss_scale and sum_losses are the processor's", "[cuda]", float, double) {
  if (!device::present()) return;
  using W = TestType;
  for (const index_t rows : {0, 1, 2, 5, 1023, 3000})
    for (const bool mean : {true, false}) {
      const CrossEntropyOptions options{.ignore_index = 3, .mean = mean};
      const auto labels = some_labels(rows, 50, 3);
      W scale = 0, loss = 0;
      const auto losses = device::random<W>({rows}, 1);
      loss_scale(Cpu{}, rows, 50, options, labels.data(), &scale);
      sum_losses(Cpu{}, rows, losses.data(), &scale, &loss);
      const Tensor<W, Cuda> got_scale({1}), got_loss({1});
      loss_scale(Cuda{}, rows, 50, options, on_device(labels).data(), got_scale.data());
      sum_losses(Cuda{}, rows, device::upload<W>(losses).data(), got_scale.data(), got_loss.data());
      REQUIRE(got_scale.item() == Approx(scale));
      REQUIRE(got_loss.item() == Approx(loss).margin(1e-6));
    }
}

TEST_CASE("cuda: a label outside the classes is named, and its row counts for nothing", "[cuda]") {
  if (!device::present()) return;
  const index_t classes = 20;
  for (const token_t bad : {token_t{20}, token_t{-1}, std::numeric_limits<token_t>::max(), std::numeric_limits<token_t>::min()}) {
    const Tensor<token_t> labels({4}, {3, 19, bad, 0});
    const auto device_labels = on_device(labels);
    const Tensor<float, Cuda> scale({1}), losses({4}), log_sums({4});
    const auto logits = device::upload<float>(device::random<float>({4, classes}, 1)),
               dlogits = device::placed<float>({4, classes}, 0);
    REQUIRE(find_bad_label(Cuda{}, 4, classes, -100, device_labels.data()) == -1);
    loss_scale(Cuda{}, 4, classes, {}, device_labels.data(), scale.data());
    REQUIRE(complaint() == "cross_entropy: label " + std::to_string(bad) + " at position 2 is outside [0, 20)");
    REQUIRE(complaint().empty());
    REQUIRE(scale.item() == Approx(1.0 / 3));
    cross_entropy_forward(Cuda{}, 4, classes, {}, logits.data(), device_labels.data(), losses.data(), log_sums.data());
    REQUIRE(losses.values()[2] == 0);
    const Tensor<float, Cuda> one({1}, 1.0f);
    cross_entropy_backward(Cuda{}, 4, classes, {}, logits.data(), device_labels.data(), log_sums.data(), one.data(), one.data(),
                           dlogits.data());
    cross_entropy_in_place(Cuda{}, 4, classes, {}, device_labels.data(), one.data(), logits.data(), losses.data());
    REQUIRE(losses.values()[2] == 0);
    for (index_t c = 0; c < classes; ++c) {
      REQUIRE(dlogits.to_host()(2, c) == 0);
      REQUIRE(logits.to_host()(2, c) == 0);
    }
  }
}
