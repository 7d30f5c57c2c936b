#pragma once

#include "attend/kernels/matrix.hpp"

namespace attend::kernels {

/// A matrix b that was copied in the order in which one instruction set's products read it; see `pack_matrix` and `pack_int8`.
template <class T>
class PackedProduct {
 public:
  PackedProduct() = default;
  PackedProduct(const PackedProduct&) = delete;
  PackedProduct& operator=(const PackedProduct&) = delete;
  virtual ~PackedProduct() = default;

  /// y = x b + bias; neither x nor y is transposed, `bias` may be null.
  virtual void multiply(const Matrix<const T>& x, const T* bias, const Matrix<T>& y) const = 0;
};

/// Who packs a matrix b tells one of these what of it will not be read again, so that memory may go meanwhile.
class PackingObserver {
 public:
  /// Columns `first` to `last` of b have been read.
  virtual void columns_read(index_t first, index_t last) = 0;

 protected:
  ~PackingObserver() = default;
};

}  // namespace attend::kernels
