// The emulated cuBLASLt against products computed one by one.

#include <cublasLt.h>

#include <cmath>
#include <random>

#include "attend/core/bfloat16.hpp"
#include "cuda/emulator_objects.hpp"

namespace {

using namespace emulator_test;
using attend::bfloat16;

template <class T>
constexpr cudaDataType_t type_of = std::is_same_v<T, double>  ? CUDA_R_64F
                                   : std::is_same_v<T, float> ? CUDA_R_32F
                                                              : CUDA_R_16BF;

template <class T>
std::vector<T> numbers(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<T> x(count);
  for (T& one : x) one = T(static_cast<float>(static_cast<int>(random() % 33) - 16) / 8.0f);
  return x;
}

/// One product with all its descriptors. Matrices are column by column, with room between columns and matrices.
template <class In, class Out>
struct Product {
  Product(std::size_t m_, std::size_t n_, std::size_t k_, bool ta_, bool tb_, int batches_)
      : m(m_), n(n_), k(k_), ta(ta_), tb(tb_), batches(batches_) {
    constexpr bool wide = std::is_same_v<In, double>;
    cublasLtCreate(&handle);
    cublasLtMatmulDescInit(&desc, wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F, wide ? CUDA_R_64F : CUDA_R_32F);
    const cublasOperation_t transposed = CUBLAS_OP_T;
    if (ta) set(CUBLASLT_MATMUL_DESC_TRANSA, transposed);
    if (tb) set(CUBLASLT_MATMUL_DESC_TRANSB, transposed);
    lay_out(la, type_of<In>, ta ? k : m, ta ? m : k);
    lay_out(lb, type_of<In>, tb ? n : k, tb ? k : n);
    lay_out(ld, type_of<Out>, m, n);
    a = numbers<In>(room(la), 1);
    b = numbers<In>(room(lb), 2);
    d = numbers<Out>(room(ld), 3);
  }
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;
  ~Product() { cublasLtDestroy(handle); }

  void lay_out(cublasLtMatrixLayoutOpaque_t& layout, cudaDataType_t type, std::size_t rows, std::size_t cols) const {
    const auto ld_of = static_cast<std::int64_t>(rows + 3);
    const std::int64_t stride = ld_of * static_cast<std::int64_t>(cols) + 5;
    const std::int32_t count = batches;
    cublasLtMatrixLayoutInit(&layout, type, rows, cols, ld_of);
    cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
    cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride);
  }
  static std::size_t room(const cublasLtMatrixLayoutOpaque_t& layout) {
    return static_cast<std::size_t>(layout.stride) * static_cast<std::size_t>(layout.batches);
  }
  template <class V>
  void set(cublasLtMatmulDescAttributes_t attribute, const V& value) {
    REQUIRE(cublasLtMatmulDescSetAttribute(&desc, attribute, &value, sizeof value) == CUBLAS_STATUS_SUCCESS);
  }
  double in_a(std::size_t batch, std::size_t i, std::size_t p) const {
    return static_cast<double>(a[batch * la.stride + (ta ? p + i * la.ld : i + p * la.ld)]);
  }
  double in_b(std::size_t batch, std::size_t p, std::size_t j) const {
    return static_cast<double>(b[batch * lb.stride + (tb ? j + p * lb.ld : p + j * lb.ld)]);
  }
  double sum(std::size_t batch, std::size_t i, std::size_t j) const {
    double total = 0;
    for (std::size_t p = 0; p < k; ++p) total += in_a(batch, i, p) * in_b(batch, p, j);
    return total;
  }
  /// d = alpha op(a) op(b) + beta d, on the device, in whose memory it begins as 0xff if beta is 0.
  std::vector<double> run(double alpha, double beta) {
    const OnDevice<In> da(a), db(b);
    const OnDevice<Out> dd(d.size());
    if (beta != 0) ok(cudaMemcpy(dd.data(), d.data(), d.size() * sizeof(Out), cudaMemcpyHostToDevice));
    const float af = static_cast<float>(alpha), bf = static_cast<float>(beta);
    const bool wide = std::is_same_v<In, double>;
    const Stream stream;
    status = cublasLtMatmul(handle, &desc, wide ? static_cast<const void*>(&alpha) : &af, da.data(), &la, db.data(), &lb,
                            wide ? static_cast<const void*>(&beta) : &bf, dd.data(), &ld, dd.data(), &ld, nullptr, nullptr, 0,
                            stream.handle);
    ok(cudaStreamSynchronize(stream.handle));
    std::vector<double> result;
    for (const Out x : dd.values()) result.push_back(static_cast<double>(x));
    return result;
  }
  std::size_t at(std::size_t batch, std::size_t i, std::size_t j) const { return batch * ld.stride + i + j * ld.ld; }

  std::size_t m, n, k;
  bool ta, tb;
  std::int32_t batches;
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDescOpaque_t desc{};
  cublasLtMatrixLayoutOpaque_t la{}, lb{}, ld{};
  std::vector<In> a, b;
  std::vector<Out> d;
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
};

template <class In, class Out>
void check_product(bool ta, bool tb, int batches, double alpha, double beta) {
  Product<In, Out> product(13, 7, 9, ta, tb, batches);
  const std::vector<double> result = product.run(alpha, beta);
  REQUIRE(product.status == CUBLAS_STATUS_SUCCESS);
  for (std::size_t batch = 0; batch < static_cast<std::size_t>(batches); ++batch)
    for (std::size_t i = 0; i < 13; ++i)
      for (std::size_t j = 0; j < 7; ++j) {
        const double before = beta == 0 ? 0 : beta * static_cast<double>(product.d[product.at(batch, i, j)]);
        const double expected = alpha * product.sum(batch, i, j) + before;
        // All these sums are exact but for the last rounding.
        CHECK(result[product.at(batch, i, j)] == static_cast<double>(Out(expected)));
      }
}

}  // namespace

TEST_CASE("emulator: products of all kinds", "[cuda]") {
  const bool ta = GENERATE(false, true), tb = GENERATE(false, true);
  const int batches = GENERATE(1, 3);
  const double beta = GENERATE(0.0, 1.0, 0.5);
  check_product<float, float>(ta, tb, batches, 1, beta);
  check_product<double, double>(ta, tb, batches, 2, beta);
  check_product<bfloat16, bfloat16>(ta, tb, batches, 1, beta);
  check_product<bfloat16, float>(ta, tb, batches, 0.5, beta);
}

TEST_CASE("emulator: TF32 rounds its inputs", "[cuda]") {
  Product<float, float> product(4, 4, 4, false, false, 1);
  const auto with_a = [&](float value) {
    for (float& x : product.a) x = value;
    return product.run(1, 0)[0];
  };
  const float near_one = 1 + 1.0f / 4096;  // needs 12 bits of fraction
  CHECK(with_a(near_one) != with_a(1));
  product.set(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, std::int32_t{CUBLAS_COMPUTE_32F_FAST_TF32});
  REQUIRE(product.status == CUBLAS_STATUS_SUCCESS);
  CHECK(with_a(near_one) == with_a(1));
  CHECK(with_a(1 + 1.0f / 1024) != with_a(1));
}

TEST_CASE("emulator: a product adds a bias and applies an activation", "[cuda]") {
  Product<float, float> product(13, 7, 9, true, false, 1);
  const std::vector<float> bias = numbers<float>(13, 4);
  const OnDevice<float> on_device(bias), aux(7 * 16);
  const unsigned epilogue = GENERATE(unsigned{CUBLASLT_EPILOGUE_BIAS}, unsigned{CUBLASLT_EPILOGUE_RELU},
                                     unsigned{CUBLASLT_EPILOGUE_RELU_BIAS}, unsigned{CUBLASLT_EPILOGUE_GELU_AUX_BIAS});
  const bool has_bias = (epilogue & CUBLASLT_EPILOGUE_BIAS) != 0, relu = (epilogue & CUBLASLT_EPILOGUE_RELU) != 0;
  const bool gelu = (epilogue & CUBLASLT_EPILOGUE_GELU) != 0;
  product.set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
  product.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, on_device.data());
  product.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, static_cast<void*>(aux.data()));
  product.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, std::int64_t{16});
  const std::vector<double> result = product.run(1, 0);
  REQUIRE(product.status == CUBLAS_STATUS_SUCCESS);
  for (std::size_t i = 0; i < 13; ++i)
    for (std::size_t j = 0; j < 7; ++j) {
      const double x = product.sum(0, i, j) + (has_bias ? static_cast<double>(bias[i]) : 0.0);
      const double tanh_form = 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
      CHECK(result[product.at(0, i, j)] == Approx(gelu   ? tanh_form
                                                  : relu ? std::max(x, 0.0)
                                                         : x)
                                               .margin(gelu ? 1e-3 * (1 + std::abs(x)) : 1e-5));
      if (gelu) CHECK(static_cast<double>(aux.values()[j * 16 + i]) == x);
    }
}

TEST_CASE("emulator: cuBLASLt refuses what the real one does", "[cuda]") {
  const emulator::Quiet quiet;
  Product<float, float> product(8, 8, 8, false, false, 1);
  product.set(CUBLASLT_MATMUL_DESC_EPILOGUE, unsigned{CUBLASLT_EPILOGUE_GELU_AUX});
  product.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, std::int64_t{12});
  const OnDevice<float> aux(8 * 16);
  product.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux.data());
  product.run(1, 0);
  CHECK(product.status == CUBLAS_STATUS_INVALID_VALUE);  // its columns lie a multiple of 8 numbers apart
  product.set(CUBLASLT_MATMUL_DESC_EPILOGUE, unsigned{CUBLASLT_EPILOGUE_DEFAULT});
  product.lb.rows = 9;
  product.run(1, 0);
  CHECK(product.status == CUBLAS_STATUS_INVALID_VALUE);
  product.lb.rows = 8;
  product.lb.type = CUDA_R_16BF;
  product.run(1, 0);
  CHECK(product.status == CUBLAS_STATUS_NOT_SUPPORTED);
  const std::int32_t short_value = 3;
  CHECK(cublasLtMatmulDescSetAttribute(&product.desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &short_value, sizeof short_value) ==
        CUBLAS_STATUS_INVALID_VALUE);
}

TEST_CASE("emulator: an algorithm works for what it was chosen for", "[cuda]") {
  const emulator::Quiet quiet;
  Product<float, float> product(8, 8, 8, false, false, 1);
  product.la.ld = product.lb.ld = product.ld.ld = 8;
  cublasLtMatmulPreferenceOpaque_t preference;
  cublasLtMatmulPreferenceInit(&preference);
  const std::uint64_t room = 4096;
  cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &room, sizeof room);
  const auto choose = [&](std::uint32_t alignment) {
    cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &alignment, sizeof alignment);
    cublasLtMatmulHeuristicResult_t result{};
    int found = 0;
    REQUIRE(cublasLtMatmulAlgoGetHeuristic(product.handle, &product.desc, &product.la, &product.lb, &product.ld, &product.ld,
                                           &preference, 1, &result, &found) == CUBLAS_STATUS_SUCCESS);
    REQUIRE(found == 1);
    return result.algo;
  };
  const OnDevice<float> a(65), b(64), d(64);
  const OnDevice<unsigned char> workspace(room);
  const float one = 1, zero = 0;
  const auto multiply = [&](const cublasLtMatmulAlgo_t& algo, const float* from, std::size_t workspace_bytes) {
    return cublasLtMatmul(product.handle, &product.desc, &one, from, &product.la, b.data(), &product.lb, &zero, d.data(),
                          &product.ld, d.data(), &product.ld, &algo, workspace.data(), workspace_bytes, nullptr);
  };
  CHECK(multiply(choose(256), a.data(), room) == CUBLAS_STATUS_SUCCESS);
  CHECK(multiply(choose(256), a.data() + 1, room) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(multiply(choose(4), a.data() + 1, room) == CUBLAS_STATUS_SUCCESS);
  CHECK(multiply(choose(256), a.data(), 0) == CUBLAS_STATUS_INVALID_VALUE);
  product.set(CUBLASLT_MATMUL_DESC_EPILOGUE, unsigned{CUBLASLT_EPILOGUE_BIAS});
  product.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, a.data());
  const cublasLtMatmulAlgo_t with_bias = choose(256);
  product.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, a.data() + 8);
  CHECK(multiply(with_bias, a.data(), room) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(multiply(choose(256), a.data(), room) == CUBLAS_STATUS_SUCCESS);
  product.set(CUBLASLT_MATMUL_DESC_EPILOGUE, unsigned{CUBLASLT_EPILOGUE_DEFAULT});
  const cublasLtMatmulAlgo_t before = choose(256);
  product.set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  CHECK(multiply(before, a.data(), room) == CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
}
