#include "attend/ops/distillation_loss.hpp"

#include "attend/cuda.hpp"
#include "rows.hpp"

using namespace attend;

namespace {

struct Size {
  index_t rows, classes;
};
const std::vector<Size> sizes{{0, 5}, {3, 1}, {4, 10}, {70, 33}, {4, 1000}, {3, 9001}, {2, 40003}};

/// Labels of which the second, if there is one, is ignored.
Tensor<token_t> some_labels(index_t rows, index_t classes, token_t ignored) {
  const Tensor<token_t> labels({rows});
  for (index_t r = 0; r < rows; ++r) labels.data()[r] = r == 1 ? ignored : static_cast<token_t>((classes - 1 + 7 * r) % classes);
  return labels;
}

}  // namespace

TEMPLATE_TEST_CASE("cuda: distillation_loss is the processor's", "[cuda]", float, double, bfloat16) {
  if (!device::present()) return;
  using T = TestType;
  using W = Wide<T>;
  for (const Size size : sizes)
    for (const index_t offset : {0, 1})
      for (const double weight : {0.4, 1.0})
        for (const double temperature : {1.0, 2.0}) {
          const index_t rows = size.rows, classes = size.classes;
          if (classes > 1000 && (offset == 0) == (temperature == 1)) continue;  // to save time
          INFO(rows << " rows of " << classes << ", offset " << offset << ", weight " << weight << ", temperature "
                    << temperature);
          const CrossEntropyOptions options{.smoothing = weight < 1 ? 0.1 : 0, .ignore_index = -7};
          const auto student = device::representable<T>({rows, classes}, 1),
                     teacher = device::representable<T>({rows, classes}, 2);
          for (index_t i = 0; i < student.size(); ++i) student.data()[i] *= W(4), teacher.data()[i] *= W(4);
          const auto labels = some_labels(rows, classes, -7);
          const W scale(0.25);
          const Tensor<W> losses({rows}), gradient(student.shape());
          distillation_loss_rows<W>(Cpu{}, {{rows, classes, labels.data(), options}, weight, temperature}, &scale, teacher.data(),
                                    student.data(), losses.data(), gradient.data());

          const auto x = device::upload<T>(student, offset), t = device::upload<T>(teacher, offset),
                     got = device::before<T>(student, 0, offset);
          const auto device_labels = labels.template to<Cuda>();
          const Tensor<W, Cuda> got_losses({rows}), device_scale({1}, scale);
          const kernels::TaughtRows there{{rows, classes, device_labels.data(), options}, weight, temperature};
          // A single class has no gradient but the rounding of its probability.
          const double largest = classes == 1 ? 1 : 0;
          T* const nowhere = nullptr;
          distillation_loss_rows<T>(Cuda{}, there, device_scale.data(), t.data(), x.data(), got_losses.data(), nowhere);
          REQUIRE(device::difference(got_losses, losses) == "");
          got_losses.fill(std::numeric_limits<W>::quiet_NaN());
          distillation_loss_rows<T>(Cuda{}, there, device_scale.data(), t.data(), x.data(), got_losses.data(), got.data());
          REQUIRE(device::difference(got_losses, losses) == "");
          REQUIRE(device::difference(got, gradient, device::tolerance<T>, largest) == "");
          REQUIRE(device::difference(x, student) == "");
          distillation_loss_rows<T>(Cuda{}, there, device_scale.data(), t.data(), x.data(), got_losses.data(), x.data());
          REQUIRE(device::difference(got_losses, losses) == "");
          REQUIRE(device::difference(x, gradient, device::tolerance<T>, largest) == "");
        }
}

TEST_CASE("cuda: distillation_loss takes logits of any size, and words that the teacher excludes", "[cuda]") {
  if (!device::present()) return;
  const float never = -std::numeric_limits<float>::infinity();
  for (const index_t classes : {5, 2500}) {
    const Tensor<float> s({2, classes}, never), t({2, classes}, never);
    s(0, 0) = 5000, s(0, classes - 1) = 5000, t(0, 0) = 3, s(1, 2) = 1, t(1, 2) = 9000;
    const Tensor<token_t> labels({2}, {1, 2});
    const auto x = device::upload<float>(s), teacher = device::upload<float>(t);
    const auto device_labels = labels.to<Cuda>();
    const Tensor<float, Cuda> losses({2}), scale({1}, 1.0f);
    distillation_loss_rows<float>(Cuda{}, {{2, classes, device_labels.data(), {}}, 1, 1}, scale.data(), teacher.data(), x.data(),
                                  losses.data(), x.data());
    REQUIRE(losses.values()[0] == Approx(std::log(2.0)).margin(1e-3));
    REQUIRE(losses.values()[1] == 0);
    const auto gradient = x.to_host();
    REQUIRE(gradient(0, 0) == Approx(-0.5).margin(1e-3));
    REQUIRE(gradient(0, classes - 1) == Approx(0.5).margin(1e-3));
    REQUIRE(gradient(0, 1) == 0);
  }
}

TEMPLATE_TEST_CASE("cuda: linear_distillation_loss is the processor's composition, in one chunk and in several", "[cuda]", float,
                   double, bfloat16) {
  if (!device::present()) return;
  using T = TestType;
  const index_t rows = 50, in = 24, classes = 72, wide = 40;
  const auto labels = some_labels(rows, classes, -100);
  const auto x = device::random<T>({rows, in}, 1), w = device::random<T>({classes, in}, 2), b = device::random<T>({classes}, 3),
             h = device::random<T>({rows, wide}, 4), v = device::random<T>({classes, wide}, 5);
  const auto exact = [](const auto& t) { return Var<double>(device::converted<double>(t), true); };
  const auto vx = exact(x), vw = exact(w), vb = exact(b);
  const DistillationOptions how{.weight = 0.6, .temperature = 2, .labels = {.smoothing = 0.1}};
  const double tolerance = 2 * device::tolerance<T>;  // divergences feel how logits are rounded
  const auto expected = distillation_loss(linear(vx, vw, vb), linear(exact(h), exact(v)).value(), labels, how);
  expected.backward(Tensor<double>({1}, 0.5));
  for (const index_t chunk : {0, 16, 50}) {
    INFO("chunks of " << chunk);
    const Var<T, Cuda> dx(x.template to<Cuda>(), true), dw(w.template to<Cuda>(), true), db(b.template to<Cuda>(), true);
    const LinearLogits<T, Cuda> student{dx, dw, db},
        teacher{Var<T, Cuda>(h.template to<Cuda>(), true), Var<T, Cuda>(v.template to<Cuda>(), true)};
    const auto loss = detail::linear_distillation_loss(student, teacher, labels.template to<Cuda>(), how, chunk);
    CHECK(loss.item() == Approx(expected.item()).epsilon(tolerance));
    loss.backward(Tensor<Wide<T>, Cuda>({1}, Wide<T>(0.5)));
    CHECK(device::difference(dx.grad(), vx.grad(), tolerance) == "");
    CHECK(device::difference(dw.grad(), vw.grad(), tolerance) == "");
    CHECK(device::difference(db.grad(), vb.grad(), tolerance) == "");
    CHECK(teacher.x.grad().empty());
  }
}
