#include "attend/ops/cross_entropy.hpp"

#include "attend/cuda.hpp"
#include "rows.hpp"

using namespace attend;

namespace {

struct Size {
  index_t rows, classes;
};
// Rows of packs and edges, and of every length of registers in one type or another.
const std::vector<Size> sizes{{0, 5}, {3, 1}, {4, 10}, {70, 33}, {4, 1000}, {3, 9001}, {2, 20000}, {2, 40003}, {1, 70002}};

/// Labels of which the second, if there is one, is ignored.
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
        const kernels::LabelledRows of{rows, classes, labels.data(), options};
        cross_entropy_forward(Cpu{}, of, logits.data(), losses.data(), log_sums.data());
        cross_entropy_backward(Cpu{}, of, logits.data(), log_sums.data(), {&scale, &dloss}, dlogits.data());
        cross_entropy_in_place(Cpu{}, of, &scale, in_place.data(), own_losses.data());

        const auto x = device::upload<T>(logits, offset), got = device::before<T>(logits, 0, offset);
        const auto device_labels = on_device(labels);
        const Tensor<W, Cuda> got_losses({rows}), got_log_sums({rows}), device_scale({1}, scale), device_dloss({1}, dloss);
        const kernels::LabelledRows there{rows, classes, device_labels.data(), options};
        cross_entropy_forward(Cuda{}, there, x.data(), got_losses.data(), got_log_sums.data());
        REQUIRE(device::difference(got_losses, losses) == "");
        REQUIRE(device::difference(got_log_sums, log_sums) == "");
        cross_entropy_backward(Cuda{}, there, x.data(), got_log_sums.data(), {device_scale.data(), device_dloss.data()},
                               got.data());
        // A single class has no gradient but the rounding of its probability.
        const double largest = classes == 1 ? scale * dloss : 0;
        REQUIRE(device::difference(got, dlogits, device::tolerance<T>, largest) == "");
        got_losses.fill(std::numeric_limits<W>::quiet_NaN());
        cross_entropy_in_place(Cuda{}, there, device_scale.data(), x.data(), got_losses.data());
        REQUIRE(device::difference(got_losses, own_losses) == "");
        REQUIRE(device::difference(x, in_place, device::tolerance<T>, largest) == "");
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
    const auto device_labels = on_device(labels);
    const kernels::LabelledRows of{2, classes, device_labels.data()};
    cross_entropy_forward(Cuda{}, of, logits.data(), losses.data(), log_sums.data());
    REQUIRE(losses.values()[0] == Approx(std::log(2.0)).margin(1e-3));
    REQUIRE(losses.values()[1] == 0);
    cross_entropy_in_place(Cuda{}, of, scale.data(), logits.data(), losses.data());
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
      loss_scale(Cpu{}, {rows, 50, labels.data(), options}, &scale);
      sum_losses(Cpu{}, rows, losses.data(), &scale, &loss);
      const Tensor<W, Cuda> got_scale({1}), got_loss({1});
      const auto device_labels = on_device(labels);
      loss_scale(Cuda{}, {rows, 50, device_labels.data(), options}, got_scale.data());
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
    const kernels::LabelledRows of{4, classes, device_labels.data()};
    REQUIRE(find_bad_label(Cuda{}, of) == -1);
    loss_scale(Cuda{}, of, scale.data());
    REQUIRE(complaint() == "cross_entropy: label " + std::to_string(bad) + " at position 2 is outside [0, 20)");
    REQUIRE(complaint().empty());
    REQUIRE(scale.item() == Approx(1.0 / 3));
    cross_entropy_forward(Cuda{}, of, logits.data(), losses.data(), log_sums.data());
    REQUIRE(losses.values()[2] == 0);
    const Tensor<float, Cuda> one({1}, 1.0f);
    cross_entropy_backward(Cuda{}, of, logits.data(), log_sums.data(), {one.data(), one.data()}, dlogits.data());
    cross_entropy_in_place(Cuda{}, of, one.data(), logits.data(), losses.data());
    REQUIRE(losses.values()[2] == 0);
    for (index_t c = 0; c < classes; ++c) {
      REQUIRE(dlogits.to_host()(2, c) == 0);
      REQUIRE(logits.to_host()(2, c) == 0);
    }
  }
}

TEST_CASE("cuda: linear_cross_entropy takes whole tiles, none of them much smaller than the others", "[cuda]") {
  for (const index_t classes : {1, 500, 8000, 32000, 50257, 1 << 20})
    for (const index_t rows : {1, 127, 128, 1000, 8448, 8449, 25000, 100001}) {
      INFO(rows << " rows of " << classes);
      const index_t chunk = logits_chunk(Cuda{}, rows, 512, classes), chunks = (rows + chunk - 1) / chunk;
      CHECK(chunk % 128 == 0);
      CHECK(chunk * classes <= (index_t{1} << 28) + 128 * classes);
      CHECK(rows - (chunks - 1) * chunk > chunk - chunks * 128);
      if (chunks > 1) CHECK(2 * chunk * classes > index_t{1} << 28);
    }
}

TEMPLATE_TEST_CASE("cuda: linear_cross_entropy is the processor's composition, in one chunk and in several", "[cuda]", float,
                   double, bfloat16) {
  if (!device::present()) return;
  using T = TestType;
  const index_t rows = 50, in = 24, classes = 72;
  const auto labels = some_labels(rows, classes, -100);
  const auto x = device::random<T>({rows, in}, 1), w = device::random<T>({classes, in}, 2), b = device::random<T>({classes}, 3),
             old = device::random<T>({classes}, 4);
  const Var<double> vx(device::converted<double>(x), true), vw(device::converted<double>(w), true),
      vb(device::converted<double>(b), true);
  const auto expected = cross_entropy(linear(vx, vw, vb), labels, {.smoothing = 0.1});
  expected.backward(Tensor<double>({1}, 0.5));
  for (const index_t chunk : {0, 16, 50, 64})
    for (const int held : {0, 1}) {  // whether the bias's gradient holds something before
      INFO("chunks of " << chunk << ", held " << held);
      const Var<T, Cuda> dx(x.template to<Cuda>(), true), dw(w.template to<Cuda>(), true), db(b.template to<Cuda>(), true);
      if (held == 1) db.accumulate(old.template to<Cuda>());
      const auto loss = detail::linear_cross_entropy(dx, dw, &db, on_device(labels), {.smoothing = 0.1}, chunk);
      CHECK(loss.item() == Approx(expected.item()).epsilon(device::tolerance<T>));
      loss.backward(Tensor<Wide<T>, Cuda>({1}, Wide<T>(0.5)));
      const Tensor<double> bias = vb.grad().clone();
      for (index_t i = 0; held == 1 && i < classes; ++i) bias.data()[i] += static_cast<double>(old.data()[i]);
      CHECK(device::difference(dx.grad(), vx.grad()) == "");
      CHECK(device::difference(dw.grad(), vw.grad()) == "");
      CHECK(device::difference(db.grad(), bias) == "");
    }
}

TEMPLATE_TEST_CASE("cuda: R-Drop is the processor's, by rows and in chunks", "[cuda]", float, double, bfloat16) {
  if (!device::present()) return;
  using T = TestType;
  const index_t rows = 50, in = 24, classes = 72;
  const auto half = some_labels(rows / 2, classes, -100);
  Tensor<token_t> labels({rows});
  for (index_t i = 0; i < rows; ++i) labels.data()[i] = half.data()[i % (rows / 2)];
  const auto x = device::random<T>({rows, in}, 1), w = device::random<T>({classes, in}, 2), b = device::random<T>({classes}, 3);
  const Var<double> vx(device::converted<double>(x), true), vw(device::converted<double>(w), true),
      vb(device::converted<double>(b), true);
  const CrossEntropyOptions how{.smoothing = 0.1, .r_drop = 3};
  const double tolerance = 2 * device::tolerance<T>;  // divergences feel how logits are rounded
  const auto expected = cross_entropy(linear(vx, vw, vb), labels, how);
  expected.backward(Tensor<double>({1}, 0.5));
  for (const index_t chunk : {0, 16, 25}) {
    INFO("chunks of " << chunk);
    const Var<T, Cuda> dx(x.template to<Cuda>(), true), dw(w.template to<Cuda>(), true), db(b.template to<Cuda>(), true);
    const auto loss = detail::linear_cross_entropy(dx, dw, &db, on_device(labels), how, chunk);
    CHECK(loss.item() == Approx(expected.item()).epsilon(tolerance));
    loss.backward(Tensor<Wide<T>, Cuda>({1}, Wide<T>(0.5)));
    CHECK(device::difference(dx.grad(), vx.grad(), tolerance) == "");
    CHECK(device::difference(dw.grad(), vw.grad(), tolerance) == "");
    CHECK(device::difference(db.grad(), vb.grad(), tolerance) == "");
  }
  const Var<T, Cuda> dx(x.template to<Cuda>(), true), dw(w.template to<Cuda>(), true), db(b.template to<Cuda>(), true);
  const auto loss = cross_entropy(linear(dx, dw, db), on_device(labels), how);
  CHECK(loss.item() == Approx(expected.item()).epsilon(tolerance));
  loss.backward(Tensor<Wide<T>, Cuda>({1}, Wide<T>(0.5)));
  CHECK(device::difference(dx.grad(), vx.grad(), tolerance) == "");
}
