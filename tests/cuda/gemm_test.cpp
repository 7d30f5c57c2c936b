#include "attend/cuda/gemm.cuh"

#include "attend/cpu/gemm.hpp"
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
