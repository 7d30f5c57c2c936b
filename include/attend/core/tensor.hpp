#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "attend/core/memory.hpp"
#include "attend/core/shape.hpp"
#include "attend/core/types.hpp"
#include "attend/core/weights_version.hpp"

namespace attend {

struct QuantizedRows;
namespace detail {
struct RowsInstead;
}

/// A dense array of `T` on device `D`: a shape and a view into shared storage, contiguous, last dimension fastest.
/// Copying a Tensor copies the handle, not the elements (`clone` copies those). A tensor made from a shape is not initialised.
///
/// A matrix of weights may hold rows of other numbers in place of elements: of 8-bit integers (`quantized`) or of bfloat16
/// (`in_bfloat16`). Products and embeddings know them, and give them no gradient; what asks for the elements, as an optimizer
/// does, gets a ValueError.
template <class T, Device D = Cpu>
class Tensor {
 public:
  using value_type = T;
  using device_type = D;

  /// No elements and no storage: shape [0].
  Tensor() : shape_{0} {}
  /// Elements that are not initialised. Throws MemoryError.
  explicit Tensor(const Shape& shape)
      : shape_(checked(shape)), storage_(std::make_shared<Storage<T, D>>(shape.size())), data_(storage_->data()) {}
  /// All of them `value`.
  Tensor(const Shape& shape, T value) : Tensor(shape) {
    using kernels::fill;
    fill(D{}, size(), value, data_);
  }
  /// The given values, row by row. Throws ShapeError if their count is not the shape's.
  Tensor(const Shape& shape, std::span<const T> values) requires std::same_as<D, Cpu> : Tensor(shape) {
    if (count_of(values) != size()) throw ShapeError("tensor: got ", values.size(), " values for shape ", shape.text());
    copy(D{}, size(), values.data(), data_);
  }
  Tensor(const Shape& shape, std::initializer_list<T> values) requires std::same_as<D, Cpu>
      : Tensor(shape, std::span<const T>(values.begin(), values.size())) {}
  /// The elements that lie in a mapped file. Throws ShapeError unless it has as many bytes as they need, ValueError if they do
  /// not begin at a multiple of alignof(T) or nobody keeps them.
  [[nodiscard]] static Tensor mapped(const Shape& shape, MappedMemory memory) requires std::same_as<D, Cpu> {
    if (memory.size != static_cast<std::size_t>(checked(shape).size()) * sizeof(T))
      throw ShapeError("tensor: got ", memory.size, " mapped bytes for shape ", shape.text(), " of ", sizeof(T), " bytes each");
    check_value(reinterpret_cast<std::uintptr_t>(memory.data) % alignof(T) == 0, "tensor",
                "mapped numbers must begin at a multiple of ", alignof(T), " bytes");
    check_value(memory.keeper != nullptr, "tensor", "nobody keeps the mapped memory");
    Tensor t;
    t.shape_ = shape;
    t.storage_ = std::make_shared<Storage<T, D>>(std::move(memory));
    t.data_ = t.storage_->data();
    return t;
  }
  /// A matrix of 8-bit rows in place of elements. Throws ShapeError if there is not a scale for each.
  static Tensor from_quantized(const QuantizedRows& rows) requires(std::same_as<T, float>&& std::same_as<D, Cpu>);
  /// A matrix of bfloat16 in place of elements: what a file has, say, that is not to be made floats of. Throws ShapeError unless
  /// it has two dimensions.
  static Tensor from_bfloat16(const Tensor<bfloat16>& rows) requires(std::same_as<T, float>&& std::same_as<D, Cpu>);

  /// The shape, the number of dimensions, the number of elements.
  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] index_t rank() const { return shape_.rank(); }
  [[nodiscard]] index_t size() const { return shape_.size(); }
  /// The size of dimension `i`; negative `i` counts from the end.
  [[nodiscard]] index_t dim(index_t i) const { return shape_[i]; }
  [[nodiscard]] bool empty() const { return size() == 0; }

  /// The elements. A tensor is a handle, so a constant handle does not make the elements constant. Throws ValueError if there are
  /// other rows in their place, as all do that read or write elements.
  [[nodiscard]] T* data() const {
    if (instead_) [[unlikely]]
      refuse_instead();
    return data_;
  }
  [[nodiscard]] std::span<T> span() const { return {data(), static_cast<std::size_t>(size())}; }
  /// The 8-bit rows that stand in place of the elements, and those in bfloat16; null if there are none.
  [[nodiscard]] const QuantizedRows* quantized() const;
  [[nodiscard]] const Tensor<bfloat16>* in_bfloat16() const;
  /// What stands in place of the elements, in words, such as "8-bit integers"; null if there are elements.
  [[nodiscard]] const char* instead() const;
  /// Where the elements lie, or the rows in their place: tells tensors that look at different memory apart.
  [[nodiscard]] const void* place() const;

  /// The element at the given indices, counted from 0. Throws IndexError.
  template <class... I>
  requires(std::same_as<D, Cpu> && (std::convertible_to<I, index_t> && ...)) T& operator()(I... indices) const {
    const std::array<index_t, sizeof...(I)> at{static_cast<index_t>(indices)...};
    if (count_of(at) != rank()) throw IndexError("tensor: ", at.size(), " indices into shape ", shape_.text());
    index_t offset = 0;
    for (std::size_t d = 0; d < at.size(); ++d) {
      const index_t n = shape_[d];
      if (at[d] < 0 || at[d] >= n) throw IndexError("tensor: index ", at[d], " into shape ", shape_.text());
      offset = offset * n + at[d];
    }
    return data()[offset];
  }

  /// The only element of a tensor of size 1, brought to the host. Throws ShapeError.
  [[nodiscard]] T item() const {
    if (size() != 1) throw ShapeError("item: shape ", shape_.text(), " does not hold exactly one element");
    return to_host().data()[0];
  }
  [[nodiscard]] std::vector<T> values() const {
    const auto host = to_host();
    return std::vector<T>(host.data(), host.data() + size());
  }

  /// The same elements under another shape of the same size; shares storage. Throws ShapeError.
  [[nodiscard]] Tensor reshape(const Shape& shape) const {
    if (shape.size() != size()) throw ShapeError("reshape: ", shape_.text(), " to ", shape.text(), " changes the size");
    if (instead_ && !(shape == shape_)) refuse_instead();  // each row may have a scale of its own
    Tensor t = *this;
    t.shape_ = shape;
    return t;
  }
  /// Rows `first` to `first + count` of the outermost dimension; shares storage. Throws IndexError.
  [[nodiscard]] Tensor rows(index_t first, index_t count) const {
    if (rank() == 0 || first < 0 || count < 0 || first > shape_[0] - count)
      throw IndexError("rows: ", count, " rows from ", first, " of shape ", shape_.text());
    Tensor t = *this;
    t.shape_ = shape_.with(0, count);
    if (instead_) t.instead_ = rows_instead(first, count);
    else if (shape_[0] > 0) t.data_ = data_ + first * (size() / shape_[0]);
    return t;
  }

  /// Sets every element.
  void fill(T value) const {
    using kernels::fill;
    fill(D{}, size(), value, data());
    weights_changed();
  }
  /// Copies the elements of `other` here, from this device or from the processor. Throws ShapeError if the shapes differ.
  void assign(const Tensor& other) const {
    check_shape("assign", "source", other.shape(), shape_);
    if (other.data() != data()) copy(D{}, size(), other.data(), data());
    weights_changed();
  }
  void assign(const Tensor<T, Cpu>& other) const requires(!std::same_as<D, Cpu>) {
    check_shape("assign", "source", other.shape(), shape_);
    copy_to_device(D{}, size(), other.data(), data());
    weights_changed();
  }
  /// The same elements on another device; on this one, this tensor itself.
  template <Device E>
  [[nodiscard]] Tensor<T, E> to() const {
    if constexpr (std::same_as<D, E>) {
      return *this;
    } else if constexpr (std::same_as<E, Cpu>) {
      return to_host();
    } else {
      Tensor<T, E> t(shape_);
      copy_to_device(E{}, size(), data(), t.data());
      return t;
    }
  }
  [[nodiscard]] Tensor clone() const {
    Tensor t(shape_);
    copy(D{}, size(), data(), t.data_);
    return t;
  }
  [[nodiscard]] Tensor<T, Cpu> to_host() const {
    if constexpr (std::same_as<D, Cpu>) {
      return *this;
    } else {
      Tensor<T, Cpu> t(shape_);
      copy_to_host(D{}, size(), data(), t.data());
      return t;
    }
  }

  /// True if no other tensor looks into this tensor's storage, so that it may be written in place.
  [[nodiscard]] bool unique() const { return (instead_ ? instead_.use_count() : storage_.use_count()) == 1; }
  /// True if the elements are those of a file, see `mapped`.
  [[nodiscard]] bool is_mapped() const { return storage_ && storage_->is_mapped(); }

 private:
  static const Shape& checked(const Shape& shape) {
    if (shape.size() > std::numeric_limits<std::ptrdiff_t>::max() / static_cast<index_t>(sizeof(T)))
      throw ShapeError("tensor: ", shape.text(), " has too many elements");
    return shape;
  }
  [[noreturn]] void refuse_instead() const {
    throw ValueError(
        "tensor: the matrix ", shape_.text(), " is of ", instead(),
        ", which are for translation, or for adapters to learn beside, on the CPU; all else needs the model in floats");
  }
  [[nodiscard]] std::shared_ptr<const detail::RowsInstead> rows_instead(index_t first, index_t count) const;

  Shape shape_;
  std::shared_ptr<Storage<T, D>> storage_;
  T* data_ = nullptr;
  std::shared_ptr<const detail::RowsInstead> instead_;  // of the two above
};

/// The rows of a matrix in 8-bit integers with a scale each: x[i, j] = scales[i] * rows[i, j], |rows[i, j]| <= 127.
struct QuantizedRows {
  Tensor<std::int8_t> rows;  // [rows, width]
  Tensor<float> scales;      // [rows]
};

namespace detail {
/// What a matrix of weights has in place of elements.
struct RowsInstead {
  std::variant<QuantizedRows, Tensor<bfloat16>> rows;
};
}  // namespace detail

/// Matrices of such rows. They throw ShapeError. Outside the class, as those below: from here on it is known what these are.
template <class T, Device D>
Tensor<T, D> Tensor<T, D>::from_quantized(const QuantizedRows& rows) requires(std::same_as<T, float>&& std::same_as<D, Cpu>) {
  Tensor t;
  t.shape_ = rows.rows.shape();
  if (t.rank() != 2) throw ShapeError("tensor: 8-bit rows have shape ", t.shape_.text(), ", expected [rows, width]");
  check_shape("tensor", "scales", rows.scales.shape(), {t.shape_[0]});
  t.instead_ = std::make_shared<const detail::RowsInstead>(detail::RowsInstead{rows});
  return t;
}
template <class T, Device D>
Tensor<T, D> Tensor<T, D>::from_bfloat16(const Tensor<bfloat16>& rows) requires(std::same_as<T, float>&& std::same_as<D, Cpu>) {
  Tensor t;
  t.shape_ = rows.shape();
  if (t.rank() != 2) throw ShapeError("tensor: rows in bfloat16 have shape ", t.shape_.text(), ", expected [rows, width]");
  t.instead_ = std::make_shared<const detail::RowsInstead>(detail::RowsInstead{rows});
  return t;
}

template <class T, Device D>
const QuantizedRows* Tensor<T, D>::quantized() const {
  return instead_ ? std::get_if<QuantizedRows>(&instead_->rows) : nullptr;
}
template <class T, Device D>
const Tensor<bfloat16>* Tensor<T, D>::in_bfloat16() const {
  return instead_ ? std::get_if<Tensor<bfloat16>>(&instead_->rows) : nullptr;
}
template <class T, Device D>
const char* Tensor<T, D>::instead() const {
  return quantized() ? "8-bit integers" : in_bfloat16() ? "numbers in bfloat16" : nullptr;
}

/// The address of the elements, or of the rows in their place.
template <class T, Device D>
const void* Tensor<T, D>::place() const {
  if (const auto* q = quantized()) return q->rows.data();
  if (const auto* rows = in_bfloat16()) return rows->data();
  return data_;
}

/// Some of the rows in place of elements, with their scales; shares storage.
template <class T, Device D>
std::shared_ptr<const detail::RowsInstead> Tensor<T, D>::rows_instead(index_t first, index_t count) const {
  if (const auto* rows = in_bfloat16())
    return std::make_shared<const detail::RowsInstead>(detail::RowsInstead{rows->rows(first, count)});
  return std::make_shared<const detail::RowsInstead>(
      detail::RowsInstead{QuantizedRows{quantized()->rows.rows(first, count), quantized()->scales.rows(first, count)}});
}

}  // namespace attend
