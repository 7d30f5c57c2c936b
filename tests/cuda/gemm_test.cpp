#include "attend/cuda/gemm.cuh"

#include "attend/cpu/gemm.hpp"
#include "attend/cuda/linear.cuh"
#include "device.hpp"

using namespace attend;

namespace {

/// The device's products against the processor's in double, on numbers rounded to T.
template <class T>
void check_products(index_t batch, index_t m, index_t n, index_t k) {
  for (const bool ta : {false, true})
    for (const bool tb : {false, true})
      for (const double beta : {0.0, 1.0}) {
        INFO(sizeof(T) << " bytes, " << batch << " of [" << m << ", " << k << "] x [" << k << ", " << n << "] " << ta << tb
                       << ", beta " << beta);
        const index_t lda = (ta ? m : k) + 3, ldb = (tb ? k : n) + 1, ldc = n + 5;
        const Shape a_shape{batch, ta ? k : m, lda}, b_shape{batch, tb ? n : k, ldb}, c_shape{batch, m, ldc};
        const auto a = device::random<T>(a_shape, 1), b = device::random<T>(b_shape, 2), c = device::random<T>(c_shape, 3);
        const auto wide_a = device::converted<double>(a), wide_b = device::converted<double>(b);
        auto expected = device::converted<double>(c);
        gemm_batched(Cpu{}, batch, ta, tb, m, n, k, 0.5, wide_a.data(), lda, a_shape.size() / batch, wide_b.data(), ldb,
                     b_shape.size() / batch, beta, expected.data(), ldc, c_shape.size() / batch);
        const auto da = a.template to<Cuda>(), db = b.template to<Cuda>(), dc = c.template to<Cuda>();
        gemm_batched(Cuda{}, batch, ta, tb, m, n, k, Wide<T>(0.5), da.data(), lda, a_shape.size() / batch, db.data(), ldb,
                     b_shape.size() / batch, static_cast<Wide<T>>(beta), dc.data(), ldc, c_shape.size() / batch);
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
  gemm(Cuda{}, false, false, 2, 2, 0, 1.0f, a.data(), 1, a.data(), 2, 1.0f, c.data(), 3);
  CHECK(c.values() == std::vector<float>(6, 7.0f));
  gemm(Cuda{}, false, false, 2, 2, 0, 1.0f, a.data(), 1, a.data(), 2, 0.0f, c.data(), 3);
  CHECK(c.values() == std::vector<float>{0, 0, 7, 0, 0, 7});
  gemm(Cuda{}, false, false, 0, 2, 2, 1.0f, a.data(), 2, a.data(), 2, 0.0f, c.data(), 3);
}

TEST_CASE("cuda: a plan is made once for a shape, and TF32 is another one") {
  if (!device::present()) return;
  const Tensor<float, Cuda> a({64, 64}, 1.5f), c({64, 64});
  const auto multiply = [&] { gemm(Cuda{}, false, false, 64, 64, 64, 1.0f, a.data(), 64, a.data(), 64, 0.0f, c.data(), 64); };
  multiply();
  const auto plans = cuda::Products::instance().plans();
  multiply();
  CHECK(cuda::Products::instance().plans() == plans);
  cuda::tf32() = true;
  multiply();
  cuda::tf32() = false;
  CHECK(cuda::Products::instance().plans() == plans + 1);
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
  gemm(Cuda{}, true, false, width, width, rows, 1.0f, device_dy.data(), width, device_x.data(), width, 0.0f, dw.data(), width);
  CHECK(device::difference(dw, Tensor<bfloat16>({width, width}, bfloat16(1)), 0) == "");
  linear_backward_weight_bias(Cuda{}, rows, width, width, device_dy.data(), device_x.data(), 0.0f, dw.data(), 0.0f, db.data());
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
    cuda::Product p = cuda::whole_product(false, true, rows, out, in);
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
