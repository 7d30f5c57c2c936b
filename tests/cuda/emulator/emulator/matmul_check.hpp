#pragma once
/// \file
/// What cublasLtMatmul supports, as its documentation says it, and what an algorithm was chosen for.

#include <algorithm>
#include <string>

#include "emulator/matmul.hpp"
#include "emulator/memory.hpp"

namespace emulator {

inline cublasStatus_t refuse(cublasStatus_t status, const std::string& why) {
  complain("cublasLtMatmul: " + why);
  return status;
}

inline bool known(std::int32_t type) { return type == CUDA_R_32F || type == CUDA_R_64F || type == CUDA_R_16BF; }

inline cublasStatus_t check_types(const Product& f) {
  const std::int32_t a = f.layout_a.type, c = f.layout_c.type;
  if (a != f.layout_b.type || c != f.layout_d.type || !known(a) || !known(c))
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "A and B, and C and D, must be of one type each");
  const bool wide = a == CUDA_R_64F;
  bool fits = false;
  switch (f.desc.compute) {
    case CUBLAS_COMPUTE_32F:
    case CUBLAS_COMPUTE_32F_PEDANTIC:
      fits = (a == CUDA_R_16BF && c != CUDA_R_64F) || (a == CUDA_R_32F && c == CUDA_R_32F);
      break;
    case CUBLAS_COMPUTE_32F_FAST_TF32:
    case CUBLAS_COMPUTE_32F_FAST_16BF:
      fits = a == CUDA_R_32F && c == CUDA_R_32F;
      break;
    case CUBLAS_COMPUTE_64F:
    case CUBLAS_COMPUTE_64F_PEDANTIC:
      fits = wide && c == CUDA_R_64F;
      break;
    default:
      break;
  }
  if (!fits || f.desc.scale != (wide ? CUDA_R_64F : CUDA_R_32F))
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "no such combination of compute type " + std::to_string(f.desc.compute) +
                                                   ", scale type " + std::to_string(f.desc.scale) + " and data types");
  return CUBLAS_STATUS_SUCCESS;
}

inline cublasStatus_t check_shapes(Product& f) {
  if (f.desc.pointer_mode != CUBLASLT_POINTER_MODE_HOST || f.desc.trans_c != CUBLAS_OP_N)
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "only α and β on the host and C as it stands are emulated");
  f.m = f.layout_d.rows;
  f.n = f.layout_d.cols;
  f.k = f.desc.trans_a != CUBLAS_OP_N ? f.layout_a.rows : f.layout_a.cols;
  const bool a = (f.desc.trans_a != CUBLAS_OP_N ? f.layout_a.cols : f.layout_a.rows) == f.m;
  const bool b_rows = (f.desc.trans_b != CUBLAS_OP_N ? f.layout_b.cols : f.layout_b.rows) == f.k;
  const bool b_cols = (f.desc.trans_b != CUBLAS_OP_N ? f.layout_b.rows : f.layout_b.cols) == f.n;
  if (!a || !b_rows || !b_cols || f.layout_c.rows != f.m || f.layout_c.cols != f.n)
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "the shapes of A, B, C and D do not fit together");
  if (f.m == 0 || f.n == 0 || f.k == 0) return refuse(CUBLAS_STATUS_INVALID_VALUE, "a size is 0");
  for (const auto* layout : {&f.layout_a, &f.layout_b, &f.layout_c, &f.layout_d}) {
    const std::uint64_t least = layout->order == CUBLASLT_ORDER_COL ? layout->rows : layout->cols;
    if (layout->ld < 0 || (static_cast<std::uint64_t>(layout->ld) < least && !(layout == &f.layout_c && layout->ld == 0)))
      return refuse(CUBLAS_STATUS_INVALID_VALUE, "a leading dimension is smaller than its matrix");
    if (layout->order != CUBLASLT_ORDER_COL && layout->order != CUBLASLT_ORDER_ROW)
      return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "only column and row order are emulated");
    if (layout->batches != f.layout_d.batches || layout->batches < 1)
      return refuse(CUBLAS_STATUS_INVALID_VALUE, "A, B, C and D must have as many matrices in their batch");
  }
  if (f.layout_c.order != f.layout_d.order) return refuse(CUBLAS_STATUS_INVALID_VALUE, "C and D must have one order");
  return CUBLAS_STATUS_SUCCESS;
}

inline cublasStatus_t check_epilogue(const Product& f) {
  const unsigned mode = f.desc.epilogue;
  switch (mode) {
    case CUBLASLT_EPILOGUE_DEFAULT:
      return CUBLAS_STATUS_SUCCESS;
    case CUBLASLT_EPILOGUE_RELU:
    case CUBLASLT_EPILOGUE_BIAS:
    case CUBLASLT_EPILOGUE_RELU_BIAS:
    case CUBLASLT_EPILOGUE_GELU:
    case CUBLASLT_EPILOGUE_GELU_AUX:
    case CUBLASLT_EPILOGUE_GELU_BIAS:
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
      break;
    default:
      return refuse(CUBLAS_STATUS_INVALID_VALUE, "no such epilogue");
  }
  const bool bias = (mode & 4U) != 0, aux = (mode & 128U) != 0;
  if (f.layout_d.order == CUBLASLT_ORDER_ROW && mode != CUBLASLT_EPILOGUE_BIAS && mode != CUBLASLT_EPILOGUE_RELU)
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "this epilogue needs D in column order");
  if (bias && f.desc.bias == nullptr) return refuse(CUBLAS_STATUS_INVALID_VALUE, "the epilogue needs a bias pointer");
  if (bias && f.desc.bias_type >= 0 && f.desc.bias_type != f.layout_d.type)
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "the bias must be of D's type");
  if (!aux) return CUBLAS_STATUS_SUCCESS;
  if (f.desc.aux == nullptr) return refuse(CUBLAS_STATUS_INVALID_VALUE, "the epilogue needs an auxiliary pointer");
  if (f.desc.aux_ld % 8 != 0 || f.desc.aux_ld < static_cast<std::int64_t>(f.m) || f.desc.aux_stride % 8 != 0)
    return refuse(CUBLAS_STATUS_INVALID_VALUE,
                  "the auxiliary leading dimension and batch stride must be multiples of 8, and no less "
                  "than D's rows");
  if (f.layout_d.batches > 1 && f.desc.aux_stride == 0)
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "a batch needs an auxiliary batch stride");
  if (f.desc.aux_type >= 0 && f.desc.aux_type != f.layout_d.type)
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "the auxiliary matrix must be of D's type");
  return CUBLAS_STATUS_SUCCESS;
}

inline cublasStatus_t check_product(Product& f) {
  if (const cublasStatus_t status = check_types(f)) return status;
  if (const cublasStatus_t status = check_shapes(f)) return status;
  return check_epilogue(f);
}

/// The most bytes, up to 16, that every column of every matrix of a batch begins at a multiple of, if the first begins at one of
/// `start`.
inline std::uint64_t alignment_of(std::uint64_t start, const cublasLtMatrixLayoutOpaque_t& layout) {
  std::uint64_t all = start | static_cast<std::uint64_t>(layout.ld) * bytes_of(layout.type) | 16U;
  if (layout.batches > 1) all |= static_cast<std::uint64_t>(layout.stride) * bytes_of(layout.type);
  return all & -all;
}

/// All of a matrix, or of a batch of them, in one block of device memory, at a multiple of its elements' size.
inline bool lies_on_device(const void* at, const cublasLtMatrixLayoutOpaque_t& layout) {
  const std::size_t size = bytes_of(layout.type);
  const std::size_t elements = place_in(layout, layout.rows - 1, layout.cols - 1) + 1 +
                               static_cast<std::size_t>(layout.batches - 1) * static_cast<std::size_t>(layout.stride);
  return reinterpret_cast<std::uintptr_t>(at) % size == 0 && Memory::instance().is_device(at, elements * size);
}

inline cublasStatus_t check_pointers(const Product& f) {
  if (!lies_on_device(f.a, f.layout_a) || !lies_on_device(f.b, f.layout_b) || !lies_on_device(f.d, f.layout_d))
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "A, B or D does not lie within device memory");
  if (f.c == nullptr || (f.beta != 0 && !lies_on_device(f.c, f.layout_c)))
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "C does not lie within device memory (pass D where β is 0)");
  const Memory& memory = Memory::instance();
  const unsigned mode = f.desc.epilogue;
  const std::size_t size = bytes_of(f.layout_d.type);
  if ((mode & 4U) != 0 && !memory.is_device(f.desc.bias, f.m * size))
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "the bias does not lie within device memory");
  const std::size_t aux_elements = f.n * static_cast<std::size_t>(f.desc.aux_ld) +
                                   static_cast<std::size_t>(f.layout_d.batches - 1) * static_cast<std::size_t>(f.desc.aux_stride);
  if ((mode & 128U) != 0 &&
      (!memory.is_device(f.desc.aux, aux_elements * size) || reinterpret_cast<std::uintptr_t>(f.desc.aux) % 16 != 0))
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "the auxiliary buffer does not lie within device memory, at a multiple of 16");
  return CUBLAS_STATUS_SUCCESS;
}

/// The largest power of two, up to 256, that divides an address.
inline std::uint64_t alignment_of(const void* at) {
  const std::uint64_t all = reinterpret_cast<std::uintptr_t>(at) | 256U;
  return all & -all;
}
/// That of the bias and, in the upper half, of the auxiliary buffer.
inline std::uint64_t alignment_of(const cublasLtMatmulDescOpaque_t& desc) {
  return alignment_of(desc.bias) | alignment_of(desc.aux) << 32;
}

/// Whether an algorithm adds up its sums in parts, rounded to the type of a D that is narrower than they: that of a long product,
/// unless the preference forbids it.
inline bool chosen_in_parts(const Product& f, std::uint32_t schemes) {
  return f.layout_d.type == CUDA_R_16BF && f.k >= 1024 &&
         (schemes & (CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE)) != 0;
}

/// An algorithm's data: what it was chosen for, its workspace, whether it adds in parts, the alignment of bias and auxiliary
/// buffer that it may count on and, from 4 on, that of A, B, C and D.
inline std::uint64_t kind_of(const Product& f) {
  std::uint64_t kind = 1;
  for (const std::uint64_t part :
       {std::uint64_t(f.desc.compute), std::uint64_t(f.layout_a.type), std::uint64_t(f.layout_d.type),
        std::uint64_t(f.desc.trans_a), std::uint64_t(f.desc.trans_b), std::uint64_t(f.layout_a.order),
        std::uint64_t(f.layout_b.order), std::uint64_t(f.layout_d.order), std::uint64_t(f.desc.epilogue)})
    kind = kind * 1031 + part;
  return kind;
}

inline cublasStatus_t check_algo(const Product& f, const cublasLtMatmulAlgo_t& algo) {
  if (algo.data[0] != kind_of(f))
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "the algorithm was chosen for another kind of product");
  const auto has = [&](int matrix, const void* at, const cublasLtMatrixLayoutOpaque_t& layout) {
    return alignment_of(reinterpret_cast<std::uintptr_t>(at), layout) >= algo.data[4 + matrix];
  };
  if (!has(0, f.a, f.layout_a) || !has(1, f.b, f.layout_b) || (f.beta != 0 && !has(2, f.c, f.layout_c)) ||
      !has(3, f.d, f.layout_d))
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "a matrix is aligned less than the preference said when the algorithm was chosen");
  const std::uint64_t now = alignment_of(f.desc), then = algo.data[3];
  const unsigned mode = f.desc.epilogue;
  if (((mode & 4U) != 0 && (now & 0xffffffffU) < (then & 0xffffffffU)) || ((mode & 128U) != 0 && now >> 32 < then >> 32))
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "bias or auxiliary buffer are aligned less than when the algorithm was chosen");
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace emulator
