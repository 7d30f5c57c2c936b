#pragma once
/// \file
/// Stands in for cuBLASLt, in tests. A product runs when its stream does. What the documentation forbids is refused with the
/// status that it names, and with the reason on stderr. Beyond that, whoever passes an algorithm is held to what it was chosen
/// for: pointers aligned as the preference said (bias and auxiliary buffer, as they were then), its workspace (which is
/// overwritten). Long sums in bfloat16 are rounded in their middle, unless the preference forbids it. Only α and β on the host,
/// real numbers, column and row order. Inputs of CUBLAS_COMPUTE_32F_FAST_TF32 and …_16BF are rounded as matrix units round them;
/// sums are float, in another order than on hardware. The ReLU's mask has bit i of column j at bit j * ld + i; on hardware its
/// layout is cuBLASLt's own affair.

#include "cuda_runtime.h"
#include "emulator/cublas_types.hpp"
#include "emulator/matmul_check.hpp"

#define CUBLAS_VERSION 130000

namespace emulator {

template <class T>
cublasStatus_t set_field(T& field, const void* from, std::size_t bytes) {
  if (from == nullptr || bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&field, from, sizeof(T));
  return CUBLAS_STATUS_SUCCESS;
}

inline Product product_of(cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                          cublasLtMatrixLayout_t d) {
  Product product{};
  product.desc = *desc;
  product.layout_a = *a;
  product.layout_b = *b;
  product.layout_c = *c;
  product.layout_d = *d;
  return product;
}

}  // namespace emulator

inline cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (emulator::device_count() == 0) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = reinterpret_cast<cublasLtHandle_t>(new char);
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<char*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}
inline size_t cublasLtGetVersion() { return CUBLAS_VERSION; }
inline size_t cublasLtGetCudartVersion() { return CUDART_VERSION; }
inline const char* cublasGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_MAPPING_ERROR:
      return "CUBLAS_STATUS_MAPPING_ERROR";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_LICENSE_ERROR:
      return "CUBLAS_STATUS_LICENSE_ERROR";
  }
  return "unknown status";
}
/// Names, where the real one has sentences.
inline const char* cublasGetStatusString(cublasStatus_t status) { return cublasGetStatusName(status); }
inline const char* cublasLtGetStatusName(cublasStatus_t status) { return cublasGetStatusName(status); }
inline const char* cublasLtGetStatusString(cublasStatus_t status) { return cublasGetStatusName(status); }

inline cublasStatus_t cublasLtMatrixLayoutInit(cublasLtMatrixLayout_t layout, cudaDataType type, uint64_t rows, uint64_t cols,
                                               int64_t ld) {
  *layout = {type, CUBLASLT_ORDER_COL, rows, cols, ld, 1, 0};
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, uint64_t rows, uint64_t cols,
                                                 int64_t ld) {
  *layout = new cublasLtMatrixLayoutOpaque_t;
  return cublasLtMatrixLayoutInit(*layout, type, rows, cols, ld);
}
inline cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute,
                                                       const void* from, size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE:
      return emulator::set_field(layout->type, from, bytes);
    case CUBLASLT_MATRIX_LAYOUT_ORDER:
      return emulator::set_field(layout->order, from, bytes);
    case CUBLASLT_MATRIX_LAYOUT_ROWS:
      return emulator::set_field(layout->rows, from, bytes);
    case CUBLASLT_MATRIX_LAYOUT_COLS:
      return emulator::set_field(layout->cols, from, bytes);
    case CUBLASLT_MATRIX_LAYOUT_LD:
      return emulator::set_field(layout->ld, from, bytes);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return emulator::set_field(layout->batches, from, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return emulator::set_field(layout->stride, from, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

inline cublasStatus_t cublasLtMatmulDescInit(cublasLtMatmulDesc_t desc, cublasComputeType_t compute, cudaDataType_t scale) {
  *desc = {};
  desc->compute = compute;
  desc->scale = scale;
  desc->epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  desc->bias_type = desc->aux_type = -1;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute, cudaDataType_t scale) {
  *desc = new cublasLtMatmulDescOpaque_t;
  return cublasLtMatmulDescInit(*desc, compute, scale);
}
inline cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  delete desc;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,
                                                     const void* from, size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE:
      return emulator::set_field(desc->compute, from, bytes);
    case CUBLASLT_MATMUL_DESC_SCALE_TYPE:
      return emulator::set_field(desc->scale, from, bytes);
    case CUBLASLT_MATMUL_DESC_POINTER_MODE:
      return emulator::set_field(desc->pointer_mode, from, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return emulator::set_field(desc->trans_a, from, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return emulator::set_field(desc->trans_b, from, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSC:
      return emulator::set_field(desc->trans_c, from, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return emulator::set_field(desc->epilogue, from, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return emulator::set_field(desc->bias, from, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE:
      return emulator::set_field(desc->bias_stride, from, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return emulator::set_field(desc->aux, from, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return emulator::set_field(desc->aux_ld, from, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE:
      return emulator::set_field(desc->aux_stride, from, bytes);
    case CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET:
      return emulator::set_field(desc->multiprocessors, from, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE:
      return emulator::set_field(desc->aux_type, from, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return emulator::set_field(desc->bias_type, from, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

inline cublasStatus_t cublasLtMatmulPreferenceInit(cublasLtMatmulPreference_t preference) {
  *preference = {CUBLASLT_SEARCH_BEST_FIT, 0, CUBLASLT_REDUCTION_SCHEME_MASK, {256, 256, 256, 256}, 0, ~std::uint64_t{0}};
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new cublasLtMatmulPreferenceOpaque_t;
  return cublasLtMatmulPreferenceInit(*preference);
}
inline cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                           cublasLtMatmulPreferenceAttributes_t attribute, const void* from,
                                                           size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_SEARCH_MODE:
      return emulator::set_field(preference->search_mode, from, bytes);
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return emulator::set_field(preference->workspace, from, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return emulator::set_field(preference->reduction_schemes, from, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return emulator::set_field(preference->alignment[0], from, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return emulator::set_field(preference->alignment[1], from, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return emulator::set_field(preference->alignment[2], from, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return emulator::set_field(preference->alignment[3], from, bytes);
    case CUBLASLT_MATMUL_PREF_MAX_WAVES_COUNT:
      return emulator::set_field(preference->waves, from, bytes);
    case CUBLASLT_MATMUL_PREF_IMPL_MASK:
      return emulator::set_field(preference->implementations, from, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

/// One algorithm. It takes a KiB of workspace if the preference allows as much, so that a workspace that is used twice at a
/// time shows.
inline cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                                     cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                                     cublasLtMatmulPreference_t preference, int requested,
                                                     cublasLtMatmulHeuristicResult_t results[], int* returned) {
  *returned = 0;
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (requested < 1 || !desc || !a || !b || !c || !d || !preference) return CUBLAS_STATUS_INVALID_VALUE;
  emulator::Product product = emulator::product_of(desc, a, b, c, d);
  if (const cublasStatus_t status = emulator::check_product(product)) return status;
  results[0] = {};
  results[0].workspaceSize = preference->workspace >= 1024 ? 1024 : 0;
  results[0].wavesCount = 1;
  results[0].algo.data[0] = emulator::kind_of(product);
  results[0].algo.data[1] = results[0].workspaceSize;
  results[0].algo.data[2] = emulator::chosen_in_parts(product, preference->reduction_schemes);
  results[0].algo.data[3] = emulator::alignment_of(*desc);
  const cublasLtMatrixLayout_t layouts[] = {a, b, c, d};
  for (int matrix = 0; matrix < 4; ++matrix)
    results[0].algo.data[4 + matrix] = emulator::alignment_of(preference->alignment[matrix], *layouts[matrix]);
  *returned = 1;
  return CUBLAS_STATUS_SUCCESS;
}

inline cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,
                                     cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                                     const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                                     cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo, void* workspace,
                                     size_t workspace_bytes, cudaStream_t stream) {
  const emulator::Lock lock(emulator::mutex());
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (emulator::check_current(stream) != cudaSuccess) return CUBLAS_STATUS_EXECUTION_FAILED;
  if (!desc || !a_layout || !b_layout || !c_layout || !d_layout || !alpha || !beta) return CUBLAS_STATUS_INVALID_VALUE;
  emulator::Product product = emulator::product_of(desc, a_layout, b_layout, c_layout, d_layout);
  if (const cublasStatus_t status = emulator::check_product(product)) return status;
  const bool wide = product.desc.scale == CUDA_R_64F;
  product.alpha = wide ? *static_cast<const double*>(alpha) : static_cast<double>(*static_cast<const float*>(alpha));
  product.beta = wide ? *static_cast<const double*>(beta) : static_cast<double>(*static_cast<const float*>(beta));
  product.a = static_cast<const unsigned char*>(a);
  product.b = static_cast<const unsigned char*>(b);
  product.c = static_cast<const unsigned char*>(c);
  product.d = static_cast<unsigned char*>(d);
  if (const cublasStatus_t status = emulator::check_pointers(product)) return status;
  if (reinterpret_cast<std::uintptr_t>(workspace) % 256 != 0)
    return emulator::refuse(CUBLAS_STATUS_INVALID_VALUE, "the workspace must lie at a multiple of 256");
  if (workspace_bytes != 0 && !emulator::Memory::instance().is_device(workspace, workspace_bytes))
    return emulator::refuse(CUBLAS_STATUS_INVALID_VALUE, "the workspace does not lie within device memory");
  if (algo != nullptr) {
    if (const cublasStatus_t status = emulator::check_algo(product, *algo)) return status;
    if (workspace_bytes < algo->data[1])
      return emulator::refuse(CUBLAS_STATUS_INVALID_VALUE, "the workspace is smaller than the algorithm needs");
    product.workspace = static_cast<unsigned char*>(workspace);
    product.workspace_bytes = algo->data[1];
    product.in_parts = algo->data[2] != 0;
  }
  const cudaError_t error = emulator::enqueue(stream, [product] { emulator::multiply_all(product); });
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
