#pragma once

#include <cublasLt.h>

#include <array>
#include <bit>
#include <cstdint>
#include <list>
#include <map>
#include <type_traits>
#include <utility>

#include "attend/cuda/device/memory.cuh"
#include "attend/kernels/matrix.hpp"

/// Matrix products by cuBLASLt.
namespace attend::cuda {

/// Throws CudaError `operation: cuBLASLt says ...` unless the status is success.
inline void check(cublasStatus_t status, const char* operation) {
  if (status != CUBLAS_STATUS_SUCCESS) throw CudaError(operation, ": cuBLASLt says ", cublasLtGetStatusString(status));
}

/// What a product does besides, to each row of its result.
enum class Epilogue : std::uint8_t {
  none,
  bias,       ///< c + bias
  relu_bias,  ///< max(c + bias, 0)
  gelu_bias,  ///< gelu_tanh(c + bias); `aux`, if not null, keeps c + bias
};

/// What a product is, but for the places of its matrices: c [m, n] = alpha * a * b + beta * c; see `gemm`.
struct Product {
  bool a_transposed, b_transposed;
  index_t m, n, k, lda, ldb, ldc;
  index_t batch = 1, a_step = 0, b_step = 0, c_step = 0;
  Epilogue epilogue = Epilogue::none;
  void* bias = nullptr;  // [n]
  void* aux = nullptr;
  index_t aux_stride = 0;  // elements from row to row, a multiple of 8

  template <class T>
  Product(const kernels::Matrix<const T>& a, const kernels::Matrix<const T>& b, const kernels::Matrix<T>& c)
      : a_transposed(a.transposed),
        b_transposed(b.transposed),
        m(c.rows),
        n(c.columns),
        k(a.columns),
        lda(a.stride),
        ldb(b.stride),
        ldc(c.stride) {}
};

/// cuBLASLt's choice of a kernel for a shape is made once and kept as a plan, as long as the shape is among those that were used
/// last: batches keep having new numbers of rows. The choice follows from shape, types and device alone, so it does not show
/// whether a plan was kept or is made again.
class Products {
 public:
  /// Plans that are kept: about those of a model's steps with a hundred sizes of batches, in a few MiB of the host's memory.
  static constexpr std::size_t most_plans = 4096;

  static Products& instance() {
    static Products* products = new Products;
    return *products;
  }

  /// False, with nothing done, if cuBLASLt has no kernel for this epilogue.
  template <class T>
  bool run(const Product& p, Wide<T> alpha, const T* a, const T* b, Wide<T> beta, T* c) {
    if ((p.bias && alignment(p.bias) < 16) || (p.aux && alignment(p.aux) < 16)) return false;  // see `barely_aligned`
    const auto held = Context::instance().lock();
    Plan& plan = plan_for<T>(p, a, b, c);
    if (!plan.found) return false;
    if (p.bias) set(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
    if (p.aux) set(plan.operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, p.aux);
    // Row by row is column by column of the transposes: c^T = op(b)^T op(a)^T.
    const cublasStatus_t status =
        cublasLtMatmul(handle_, plan.operation, &alpha, b, plan.b, a, plan.a, &beta, c, plan.c, c, plan.c, &plan.algorithm,
                       workspace_.data(), workspace_bytes, Context::instance().stream());
    if (p.epilogue != Epilogue::none && (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE))
      return plan.found = false;
    check(status, "gemm");
    return true;
  }
  /// Products that have a plan.
  [[nodiscard]] std::size_t plans() const { return plans_.size(); }
  /// Plans made so far, dropped ones included.
  [[nodiscard]] std::size_t plans_made() const { return plans_made_; }

 private:
  static constexpr std::size_t workspace_bytes = std::size_t{32} << 20;  // what cuBLAS recommends for Hopper
  using Key = std::array<index_t, 18>;

  struct Type {
    cudaDataType_t data, scale;
    cublasComputeType_t compute;
  };
  template <class T>
  static Type type() {
    if constexpr (std::is_same_v<T, double>) return {CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F};
    else if constexpr (std::is_same_v<T, float>)
      return {CUDA_R_32F, CUDA_R_32F, tf32() ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F};
    else return {CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F};
  }
  /// The largest power of two up to 16 that divides the address.
  static std::uint32_t alignment(const void* p) {
    return static_cast<std::uint32_t>(std::uintptr_t{1} << std::countr_zero(reinterpret_cast<std::uintptr_t>(p) | 16));
  }
  /// An address near p that is a multiple of 16 and of no higher power of two. cuBLASLt relies later on the alignment of bias and
  /// aux that it finds when it chooses a kernel, but a plan must serve all addresses.
  static void* barely_aligned(const void* p) {
    return reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(p) & ~std::uintptr_t{255}) | 16);
  }
  template <class T>
  static Key key(const Product& p, const T* a, const T* b, const T* c) {
    const Type t = type<T>();
    return {t.data,
            t.compute,
            p.a_transposed,
            p.b_transposed,
            p.m,
            p.n,
            p.k,
            p.lda,
            p.ldb,
            p.ldc,
            p.batch,
            p.a_step,
            p.b_step,
            p.c_step,
            p.aux_stride,
            index_t(p.epilogue),
            alignment(a) * 32 + alignment(b),
            alignment(c)};
  }

  template <class Value>
  static void set(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t what, const Value& value) {
    check(cublasLtMatmulDescSetAttribute(d, what, &value, sizeof(value)), "gemm");
  }
  template <class Value>
  static void set(cublasLtMatrixLayout_t d, cublasLtMatrixLayoutAttribute_t what, const Value& value) {
    check(cublasLtMatrixLayoutSetAttribute(d, what, &value, sizeof(value)), "gemm");
  }
  template <class Value>
  static void set(cublasLtMatmulPreference_t d, cublasLtMatmulPreferenceAttributes_t what, const Value& value) {
    check(cublasLtMatmulPreferenceSetAttribute(d, what, &value, sizeof(value)), "gemm");
  }

  struct Plan {
    cublasLtMatmulDesc_t operation = nullptr;
    cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
    cublasLtMatmulAlgo_t algorithm{};
    bool found = false;

    Plan() = default;
    Plan(const Products& products, const Product& p, const Type& t, const void* a_data, const void* b_data, const void* c_data)
        : Plan() {  // so that what was made is destroyed if the rest fails
      check(cublasLtMatmulDescCreate(&operation, t.compute, t.scale), "gemm");
      // A matrix stored row by row is its transpose stored column by column.
      set(operation, CUBLASLT_MATMUL_DESC_TRANSA, p.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
      set(operation, CUBLASLT_MATMUL_DESC_TRANSB, p.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
      a = layout(t.data, p.a_transposed ? p.m : p.k, p.a_transposed ? p.k : p.m, p.lda, p.batch, p.a_step);
      b = layout(t.data, p.b_transposed ? p.k : p.n, p.b_transposed ? p.n : p.k, p.ldb, p.batch, p.b_step);
      c = layout(t.data, p.n, p.m, p.ldc, p.batch, p.c_step);
      if (p.epilogue != Epilogue::none) {
        set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, code(p.epilogue, p.aux != nullptr));
        set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, barely_aligned(p.bias));
        if (p.aux) {
          set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, barely_aligned(p.aux));
          set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, static_cast<std::int64_t>(p.aux_stride));
        }
      }
      cublasLtMatmulPreference_t preference = nullptr;
      check(cublasLtMatmulPreferenceCreate(&preference), "gemm");
      set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
      // Long sums are cut into parts that several blocks add up. By default cuBLASLt may round the parts to c's type, bfloat16
      // too.
      set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
      set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(b_data));
      set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(a_data));
      set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(c_data));
      set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(c_data));
      cublasLtMatmulHeuristicResult_t result{};
      int count = 0;
      const cublasStatus_t status =
          cublasLtMatmulAlgoGetHeuristic(products.handle_, operation, b, a, c, c, preference, 1, &result, &count);
      (void)cublasLtMatmulPreferenceDestroy(preference);
      found = status == CUBLAS_STATUS_SUCCESS && count > 0 && result.state == CUBLAS_STATUS_SUCCESS;
      if (found) algorithm = result.algo;
      else if (p.epilogue == Epilogue::none && status != CUBLAS_STATUS_NOT_SUPPORTED) check(status, "gemm");
    }
    Plan(const Plan&) = delete;
    Plan& operator=(const Plan&) = delete;
    ~Plan() {
      if (a) (void)cublasLtMatrixLayoutDestroy(a);
      if (b) (void)cublasLtMatrixLayoutDestroy(b);
      if (c) (void)cublasLtMatrixLayoutDestroy(c);
      if (operation) (void)cublasLtMatmulDescDestroy(operation);
    }

    static cublasLtMatrixLayout_t layout(cudaDataType_t type, index_t rows, index_t columns, index_t stride, index_t batch,
                                         index_t step) {
      cublasLtMatrixLayout_t made = nullptr;
      check(
          cublasLtMatrixLayoutCreate(&made, type, static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(columns), stride),
          "gemm");
      if (batch > 1) {
        set(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(batch));
        set(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, static_cast<std::int64_t>(step));
      }
      return made;
    }
    static cublasLtEpilogue_t code(Epilogue epilogue, bool with_aux) {
      switch (epilogue) {
        case Epilogue::bias:
          return CUBLASLT_EPILOGUE_BIAS;
        case Epilogue::relu_bias:
          return CUBLASLT_EPILOGUE_RELU_BIAS;
        case Epilogue::gelu_bias:
          return with_aux ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_BIAS;
        case Epilogue::none:
          break;
      }
      return CUBLASLT_EPILOGUE_DEFAULT;
    }
  };

  struct Entry {
    Key key;
    Plan plan;
    template <class... A>
    explicit Entry(const Key& k, A&&... arguments) : key(k), plan(std::forward<A>(arguments)...) {}
  };

  /// The plan of this product, from now on the first; the last is dropped if there are too many.
  template <class T>
  Plan& plan_for(const Product& p, const T* a, const T* b, const T* c) {
    const Key k = key<T>(p, a, b, c);
    if (const auto found = places_.find(k); found != places_.end()) {
      plans_.splice(plans_.begin(), plans_, found->second);
      return plans_.front().plan;
    }
    plans_.emplace_front(k, *this, p, type<T>(), a, b, c);
    places_[k] = plans_.begin();
    ++plans_made_;
    if (plans_.size() > most_plans) {
      places_.erase(plans_.back().key);
      plans_.pop_back();
    }
    return plans_.front().plan;
  }

  Products() : workspace_(make_workspace()) {
    const auto held = Context::instance().lock();  // for its device
    check(cublasLtCreate(&handle_), "cuBLASLt");
  }
  /// The workspace comes from the process's pool, whichever pool is selected when the first product is made.
  static Buffer<unsigned char> make_workspace() {
    const PoolScope scope(DevicePool::instance());
    return Buffer<unsigned char>(static_cast<index_t>(workspace_bytes));
  }

  cublasLtHandle_t handle_ = nullptr;
  Buffer<unsigned char> workspace_;
  std::list<Entry> plans_;  // the one used last first
  std::map<Key, typename std::list<Entry>::iterator> places_;
  std::size_t plans_made_ = 0;
};

/// y[r, j] += bias[j], for products to which cuBLASLt cannot add a bias.
template <class T>
__global__ void add_bias_kernel(kernels::Matrix<T> y, const T* bias) {
  const index_t threads = static_cast<index_t>(gridDim.x) * blockDim.x;
  for (index_t i = static_cast<index_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < y.rows * y.columns; i += threads) {
    T& to = y.data[i / y.columns * y.stride + i % y.columns];
    to = static_cast<T>(static_cast<Wide<T>>(to) + static_cast<Wide<T>>(bias[i % y.columns]));
  }
}

/// The product, which must be one that cuBLASLt has. Throws CudaError.
template <class T>
void multiply(const Product& p, Wide<T> alpha, const T* a, const T* b, Wide<T> beta, T* c) {
  if (!Products::instance().run<T>(p, alpha, a, b, beta, c))
    throw CudaError("gemm: cuBLASLt has no product [", p.m, ", ", p.k, "] x [", p.k, ", ", p.n, "] of this type and layout");
}

}  // namespace attend::cuda

namespace attend::kernels {

/// `count` products c = alpha * a * b, added to c if `add`; see the CPU's. Sums are taken in float for bfloat16.
template <class T>
void gemm_batched(Cuda, index_t count, ConstMatrices<T> a, ConstMatrices<T> b, Matrices<T> c,
                  const ProductOptions& options = {}) {
  const Matrix<T>& to = c.first;
  if (count == 0 || to.rows == 0 || to.columns == 0) return;
  if (a.first.columns == 0) {  // an empty sum
    for (index_t i = 0; !options.add && i < count; ++i)
      for (index_t row = 0; row < to.rows; ++row) fill(Cuda{}, to.columns, T(0), to.data + i * c.step + row * to.stride);
    return;
  }
  cuda::Product p(a.first, b.first, c.first);
  if (count > 1) p.batch = count, p.a_step = a.step, p.b_step = b.step, p.c_step = c.step;
  cuda::multiply<T>(p, static_cast<Wide<T>>(options.alpha), a.first.data, b.first.data, Wide<T>(options.add), to.data);
}

/// See the CPU's; the whole product.
template <class T>
void gram_batched(Cuda, index_t count, ConstMatrices<T> a, Matrices<T> c, const ProductOptions& options = {}) {
  gemm_batched(Cuda{}, count, a, a.transpose(), c, options);
}

/// A single one.
template <class T>
void gemm(Cuda, ConstMatrix<T> a, ConstMatrix<T> b, Matrix<T> c, const ProductOptions& options = {}) {
  gemm_batched<T>(Cuda{}, 1, {a}, {b}, {c}, options);
}

}  // namespace attend::kernels
