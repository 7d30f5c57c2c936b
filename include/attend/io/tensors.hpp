#pragma once

#include <concepts>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "attend/core/error.hpp"
#include "attend/core/shape.hpp"
#include "attend/core/tensor.hpp"
#include "attend/core/types.hpp"
#include "attend/io/dtype.hpp"
#include "attend/io/file.hpp"
#include "attend/io/safetensors.hpp"
#include "attend/io/safetensors_writer.hpp"

/// Tensors in safetensors files.

namespace attend::io {

/// What tensors are read from by their names: a `SafetensorsFile`, a `TorchFile`, or the `WeightFiles` of a folder.
template <class File>
concept TensorSource = requires(const File& file, std::string_view name, index_t first, std::span<float> out) {
  { file.path() } -> std::convertible_to<std::filesystem::path>;
  { file.tensors() } -> std::convertible_to<std::span<const TensorInfo>>;
  { file.contains(name) } -> std::same_as<bool>;
  { file.info(name) } -> std::convertible_to<const TensorInfo&>;
  file.read_as(name, out);
  file.read_part(name, first, out);
  { file.place(name) } -> std::same_as<std::optional<TensorPlace>>;
};

/// The tensor of that name as `T`, in the file's shape; see `SafetensorsFile::read_as` for what is converted to what.
/// Throws FormatError, IoError.
template <Storable T, TensorSource File>
[[nodiscard]] Tensor<T> read_tensor(const File& file, std::string_view name) {
  const Tensor<T> tensor(file.info(name).shape);
  file.read_as(name, tensor.span());
  return tensor;
}

/// Reads the tensor of that name into the elements of `out`, on any device. Throws the same, and ShapeError if the shapes differ.
template <Storable T, Device D, TensorSource File>
void read_tensor_into(const File& file, std::string_view name, const Tensor<T, D>& out) {
  const Shape& shape = file.info(name).shape;
  if (!(shape == out.shape()))
    throw ShapeError("load: ", file.path().string(), ": tensor '", name, "' has shape ", shape.text(), ", expected ",
                     out.shape().text());
  if constexpr (std::same_as<D, Cpu>) {
    const WeightsChange change;
    file.read_as(name, out.span());
  } else {
    out.assign(read_tensor<T>(file, name));
  }
}

/// Adds a tensor to be stored as `stored`, with the elements that it has when the file is written. What lies on a device is
/// fetched only then, one tensor at a time. Throws ValueError as `SafetensorsWriter::add` does.
template <Scalar T, Device D>
void add_tensor(SafetensorsWriter& writer, const std::string& name, const Tensor<T, D>& tensor, DType stored = dtype_of<T>()) {
  detail::check_stored_floats(name, stored);
  writer.add_stream(name, stored, tensor.shape(), [tensor, stored](FileSink& sink) {
    const Tensor<T> host = tensor.to_host();
    detail::write_floats<T>(sink, host.span(), stored);
  });
}

}  // namespace attend::io
