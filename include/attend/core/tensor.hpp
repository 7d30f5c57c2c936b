#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "attend/core/memory.hpp"
#include "attend/core/shape.hpp"
#include "attend/core/types.hpp"
#include "attend/core/weights_version.hpp"

namespace attend {

/// A dense array of `T` on device `D`: a shape and a view into shared storage, contiguous, last dimension fastest.
/// Copying a Tensor copies the handle, not the elements (`clone` copies those). A tensor made from a shape is not initialised.
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
  /// not begin at a multiple of alignof(T).
  [[nodiscard]] static Tensor mapped(const Shape& shape, MappedMemory memory) requires std::same_as<D, Cpu> {
    if (memory.size != static_cast<std::size_t>(checked(shape).size()) * sizeof(T))
      throw ShapeError("tensor: got ", memory.size, " mapped bytes for shape ", shape.text(), " of ", sizeof(T), " bytes each");
    check_value(reinterpret_cast<std::uintptr_t>(memory.data) % alignof(T) == 0, "tensor",
                "mapped numbers must begin at a multiple of ", alignof(T), " bytes");
    Tensor t;
    t.shape_ = shape;
    t.storage_ = std::make_shared<Storage<T, D>>(std::move(memory));
    t.data_ = t.storage_->data();
    return t;
  }

  /// The shape, the number of dimensions, the number of elements.
  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] index_t rank() const { return shape_.rank(); }
  [[nodiscard]] index_t size() const { return shape_.size(); }
  /// The size of dimension `i`; negative `i` counts from the end.
  [[nodiscard]] index_t dim(index_t i) const { return shape_[i]; }
  [[nodiscard]] bool empty() const { return size() == 0; }

  /// The elements. A tensor is a handle, so a constant handle does not make the elements constant.
  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] std::span<T> span() const { return {data_, static_cast<std::size_t>(size())}; }

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
    return data_[offset];
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
    if (shape_[0] > 0) t.data_ = data_ + first * (size() / shape_[0]);
    return t;
  }

  /// Sets every element.
  void fill(T value) const {
    using kernels::fill;
    fill(D{}, size(), value, data_);
    weights_changed();
  }
  /// Copies the elements of `other` here, from this device or from the processor. Throws ShapeError if the shapes differ.
  void assign(const Tensor& other) const {
    check_shape("assign", "source", other.shape(), shape_);
    if (other.data_ != data_) copy(D{}, size(), other.data_, data_);
    weights_changed();
  }
  void assign(const Tensor<T, Cpu>& other) const requires(!std::same_as<D, Cpu>) {
    check_shape("assign", "source", other.shape(), shape_);
    copy_to_device(D{}, size(), other.data(), data_);
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
      copy_to_device(E{}, size(), data_, t.data());
      return t;
    }
  }
  [[nodiscard]] Tensor clone() const {
    Tensor t(shape_);
    copy(D{}, size(), data_, t.data_);
    return t;
  }
  [[nodiscard]] Tensor<T, Cpu> to_host() const {
    if constexpr (std::same_as<D, Cpu>) {
      return *this;
    } else {
      Tensor<T, Cpu> t(shape_);
      copy_to_host(D{}, size(), data_, t.data());
      return t;
    }
  }

  /// True if no other tensor looks into this tensor's storage, so that it may be written in place.
  [[nodiscard]] bool unique() const { return storage_.use_count() == 1; }
  /// True if the elements are those of a file, see `mapped`.
  [[nodiscard]] bool is_mapped() const { return storage_ && storage_->is_mapped(); }

 private:
  static const Shape& checked(const Shape& shape) {
    if (shape.size() > std::numeric_limits<index_t>::max() / static_cast<index_t>(sizeof(T)))
      throw ShapeError("tensor: ", shape.text(), " has too many elements");
    return shape;
  }

  Shape shape_;
  std::shared_ptr<Storage<T, D>> storage_;
  T* data_ = nullptr;
};

}  // namespace attend
