#include "attend/cuda/products/gemm.cuh"

#include <map>

#include "attend/cpu/gemm.hpp"
#include "attend/cpu/linear.hpp"
#include "attend/cuda/products/linear.cuh"
#include "attend/ops/activations.hpp"
#include "device.hpp"

using namespace attend;

namespace {

/// The device's products against the processor's in double, on numbers rounded to T.
template <class T>
void check_products(index_t batch, index_t m, index_t n, index_t k) {
  for (const bool ta : {false, true})
    for (const bool tb : {false, true})
      for (const bool add : {false, true}) {
        INFO(sizeof(T) << " bytes, " << batch << " of [" << m << ", " << k << "] x [" << k << ", " << n << "] " << ta << tb
                       << add);
        const index_t lda = (ta ? m : k) + 3, ldb = (tb ? k : n) + 1, ldc = n + 5;
        const Shape a_shape{batch, ta ? k : m, lda}, b_shape{batch, tb ? n : k, ldb}, c_shape{batch, m, ldc};
        const auto a = device::random<T>(a_shape, 1), b = device::random<T>(b_shape, 2), c = device::random<T>(c_shape, 3);
        const auto wide_a = device::converted<double>(a), wide_b = device::converted<double>(b);
        auto expected = device::converted<double>(c);
        const auto da = a.template to<Cuda>(), db = b.template to<Cuda>(), dc = c.template to<Cuda>();
        const auto multiply = [&](auto where, const auto& as, const auto& bs, const auto& cs) {
          using kernels::Matrices, kernels::Matrix;
          gemm_batched(where, batch, Matrices{Matrix{as.data(), m, k, lda, ta}, a_shape.size() / batch},
                       Matrices{Matrix{bs.data(), k, n, ldb, tb}, b_shape.size() / batch},
                       Matrices{Matrix{cs.data(), m, n, ldc}, c_shape.size() / batch}, {.alpha = 0.5, .add = add});
        };
        multiply(Cpu{}, wide_a, wide_b, expected);
        multiply(Cuda{}, da, db, dc);
        CHECK(device::difference(dc, expected) == "");
      }
}

}  // namespace

TEMPLATE_TEST_CASE("cuda: products of all layouts", "", float, double, bfloat16) {
  if (!device::present()) return;
  check_products<TestType>(1, 7, 5, 9);
  check_products<TestType>(3, 16, 24, 8);
  check_products<TestType>(2, 1, 1, 1);
  check_products<TestType>(1, 40, 33, 65);
}

TEST_CASE("cuda: a product of nothing is nothing, or what was there") {
  if (!device::present()) return;
  const Tensor<float, Cuda> a({4}, 1.0f), c({2, 3}, 7.0f);
  const kernels::Matrix<float> none{a.data(), 2, 0, 1}, four{c.data(), 2, 2, 3};
  gemm(Cuda{}, none, {a.data(), 0, 2}, four, {.add = true});
  CHECK(c.values() == std::vector<float>(6, 7.0f));
  gemm(Cuda{}, none, {a.data(), 0, 2}, four);
  CHECK(c.values() == std::vector<float>{0, 0, 7, 0, 0, 7});
  gemm<float>(Cuda{}, {a.data(), 0, 2}, {a.data(), 2, 2}, {c.data(), 0, 2, 3});
}

TEST_CASE("cuda: a plan is made once for a shape, and TF32 is another one") {
  if (!device::present()) return;
  const Tensor<float, Cuda> a({64, 64}, 1.5f), c({64, 64});
  const kernels::Matrix<float> square{a.data(), 64, 64};
  const auto multiply = [&] { gemm<float>(Cuda{}, square, square, {c.data(), 64, 64}); };
  multiply();
  const auto made = cuda::Products::instance().plans_made();
  multiply();
  CHECK(cuda::Products::instance().plans_made() == made);
  cuda::tf32() = true;
  multiply();
  cuda::tf32() = false;
  CHECK(cuda::Products::instance().plans_made() == made + 1);
  CHECK(c.values()[5] == Approx(64 * 2.25));
}

TEST_CASE("cuda: sums of bfloat16 are floats, however long they are") {
  if (!device::present()) return;
  // As a weight's gradient is computed: over many rows. Parts of the sum are no bfloat16 numbers, all of it is 1.
  const index_t rows = 4096, width = 32;
  const Tensor<bfloat16> x({rows, width}, bfloat16(1));
  const Tensor<bfloat16> dy({rows, width});
  for (index_t i = 0; i < dy.size(); ++i) dy.data()[i] = bfloat16(i < width ? 2.0f : 2 * i < dy.size() ? 1.0f : -1.0f);
  const auto device_x = x.to<Cuda>(), device_dy = dy.to<Cuda>();
  const Tensor<bfloat16, Cuda> dw({width, width}), db({width});
  const auto xs = as_rows(device_x), dys = as_rows(device_dy), dws = as_rows(dw);
  gemm(Cuda{}, dys.transpose(), xs, dws);
  CHECK(device::difference(dw, Tensor<bfloat16>({width, width}, bfloat16(1)), 0) == "");
  linear_backward_weight_bias(Cuda{}, dys, xs, dws, false, kernels::Gradient{db.data()});
  CHECK(device::difference(dw, Tensor<bfloat16>({width, width}, bfloat16(1)), 0) == "");
  CHECK(device::difference(db, Tensor<bfloat16>({width}, bfloat16(1)), 0) == "");
}

TEMPLATE_TEST_CASE("cuda: one plan serves a bias at any multiple of 16 bytes", "", float, bfloat16) {
  if (!device::present()) return;
  using T = TestType;
  const index_t rows = 24, in = 40, out = 56, step = 16 / static_cast<index_t>(sizeof(T));
  const auto x = device::random<T>({rows, in}, 1), weight = device::random<T>({out, in}, 2);
  const auto dx = x.template to<Cuda>(), dw = weight.template to<Cuda>();
  const Tensor<T, Cuda> y({rows, out});
  for (const index_t offset : {index_t{0}, step, 8 * step}) {
    INFO("bias " << offset << " elements into its block");
    const auto biases = device::random<T>({offset + out}, 3);
    const auto bias = biases.rows(offset, out);
    const auto on_device = biases.template to<Cuda>();
    const auto weights = as_rows(dw);
    cuda::Product p(kernels::Matrix<const T>(as_rows(dx)), kernels::Matrix<const T>(weights.transpose()), as_rows(y));
    p.epilogue = cuda::Epilogue::bias;
    p.bias = on_device.data() + offset;
    CHECK(cuda::Products::instance().run<T>(p, 1.0f, dx.data(), dw.data(), 0.0f, y.data()));
    auto expected = Tensor<double>({rows, out});
    for (index_t r = 0; r < rows; ++r)
      for (index_t j = 0; j < out; ++j) {
        double sum = static_cast<double>(bias.data()[j]);
        for (index_t i = 0; i < in; ++i)
          sum += static_cast<double>(x.data()[r * in + i]) * static_cast<double>(weight.data()[j * in + i]);
        expected(r, j) = sum;
      }
    CHECK(device::difference(y, expected) == "");
  }
}

// benchmarks/gpu_check.sh runs tests under compute-sanitizer whose names begin with "cuda: ". This one and the next but one would
// take long there.
TEST_CASE("as many plans of products are kept as there is room for, those that were used last") {
  if (!device::present()) return;
  auto& products = cuda::Products::instance();
  const auto most = static_cast<index_t>(cuda::Products::most_plans);
  const Tensor<float, Cuda> a({2 * (most + 100)}, 2.0f), b({1}, 1.5f), c({most + 100}), d({3});
  const auto multiply = [&](index_t rows) { gemm<float>(Cuda{}, {a.data(), rows, 1, 2}, {b.data(), 1, 1}, {c.data(), rows, 1}); };
  const auto used_all_along = [&] { gemm<float>(Cuda{}, {a.data(), 1, 1}, {c.data(), 1, 3}, {d.data(), 1, 3}); };
  multiply(3);
  used_all_along();
  const auto made = products.plans_made();
  for (index_t rows = 4; rows < most + 100; ++rows) multiply(rows), used_all_along();
  CHECK(products.plans() == cuda::Products::most_plans);
  CHECK(products.plans_made() == made + static_cast<std::size_t>(most) + 96);
  used_all_along(), multiply(most + 99);
  CHECK(products.plans_made() == made + static_cast<std::size_t>(most) + 96);
  c.fill(0.0f);
  multiply(3);  // which is gone, and comes back
  CHECK(products.plans_made() == made + static_cast<std::size_t>(most) + 97);
  CHECK(c.rows(0, 4).values() == std::vector<float>{3, 3, 3, 0});
}

TEST_CASE("cuda: products take along activations that they compute exactly enough, or none") {
  if (!device::present()) return;
  const auto taken = [&]<class T>(T, bool gelu) {
    const Tensor<T, Cuda> x({8, 16}, T(1)), weight({32, 16}, T(0.5f)), bias({32}, T(-2)), y({8, 32});
    const Tensor<T, Cuda> kept({8, activation_input_stride(Cuda{}, 32)});
    const bool done = linear_activation_forward(Cuda{}, as_rows(x), as_rows(weight), bias.data(), gelu, as_rows(y), kept.data());
    if (done) CHECK(static_cast<float>(y.values()[5]) == Approx(6).epsilon(1e-2));
    return done;
  };
  auto& chosen = cuda::detail::activation_fusion();
  const int before = chosen;
  cuda::fuse_activations(true);
  CHECK(cuda::fuses_activations());
  CHECK(!taken(1.0f, true));  // tanh would have as many bits as bfloat16 needs
  CHECK(!taken(1.0, false));
#if defined(ATTEND_CUDA_EMULATOR)
  CHECK(taken(1.0f, false));
  CHECK(taken(bfloat16(1), true));
  CHECK(taken(bfloat16(1), false));
#endif
  cuda::fuse_activations(false);
  CHECK(!cuda::fuses_activations());
  CHECK(!taken(1.0f, false));
  CHECK(!taken(bfloat16(1), true));
  chosen = before;
}

TEMPLATE_TEST_CASE("gradients over many rows, biases' too, have the same bits each time", "", float, bfloat16) {
  if (!device::present()) return;
  using T = TestType;
#if defined(ATTEND_CUDA_EMULATOR)
  const index_t rows = 1100, in = 24, out = 40;
  const int rounds = 2;
#else
  const index_t rows = 25'000, in = 512, out = 2048;
  const int rounds = 20;
#endif
  using Bits = std::vector<unsigned char>;
  std::map<std::string, Bits> first;
  const auto repeats = [&](const std::string& what, const Tensor<T, Cuda>& x) {
    const auto host = x.to_host();
    const auto* from = reinterpret_cast<const unsigned char*>(host.data());
    Bits bits(from, from + static_cast<std::size_t>(host.size()) * sizeof(T));
    return first.try_emplace(what, bits).first->second == bits;
  };
  const auto x = device::random<T>({rows, in}, 1).template to<Cuda>(), dy = device::random<T>({rows, out}, 2).template to<Cuda>();
  const auto w1 = device::random<T>({out, in}, 3).template to<Cuda>(), w2 = device::random<T>({in, out}, 4).template to<Cuda>();
  const auto dx = device::random<T>({rows, in}, 5).template to<Cuda>();
  const Tensor<T, Cuda> b1({out}, T(0.1f)), h({rows, out}), dw({out, in}), db({out}), dh({rows, out}), db1({out});
  for (int round = 0; round < rounds; ++round) {
    INFO("round " << round);
    linear_backward_weight_bias(Cuda{}, as_rows(dy), as_rows(x), as_rows(dw), false, kernels::Gradient{db.data()});
    REQUIRE(repeats("dw", dw));
    REQUIRE(repeats("db", db));
    for (const bool gelu : {false, true}) {
      const std::string name = gelu ? "gelu" : "relu";
      const Tensor<T, Cuda> kept({rows, activation_input_stride(Cuda{}, out)});
      if (!linear_activation_forward(Cuda{}, as_rows(x), as_rows(w1), b1.data(), gelu, as_rows(h), kept.data())) continue;
      const auto backward = [&](const auto& slope, const Tensor<T, Cuda>& at) {
        linear_backward_input_activation(Cuda{}, as_rows(dx), as_rows(w2), slope, as_rows(at), as_rows(dh), db1.data());
      };
      if (gelu) backward(attend::detail::Slope<GeluTanh>{}, kept);
      else backward(attend::detail::SlopeFromValue<Relu>{}, h);
      REQUIRE(repeats(name + " db", db1));
      if (round % 10 > 1) continue;
      REQUIRE(repeats(name, h));
      REQUIRE(repeats(name + " dh", dh));
      const Tensor<T, Cuda> sums({out});
      sum_rows(Cuda{}, as_rows(dh), kernels::Gradient{sums.data()});
      REQUIRE(device::difference(db1, sums.to_host()) == "");
    }
  }
  const Tensor<T, Cuda> sums({out});
  sum_rows(Cuda{}, as_rows(dy), kernels::Gradient{sums.data()});
  CHECK(device::difference(db, sums.to_host()) == "");
}
