#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attend/core/error.hpp"
#include "attend/core/shape.hpp"
#include "attend/io/dtype.hpp"
#include "attend/io/file.hpp"
#include "attend/io/mapped_file.hpp"
#include "attend/io/read_numbers.hpp"
#include "attend/io/safetensors_header.hpp"

/// Reading safetensors files: eight bytes that give the header's length, the header, the tensors' bytes.

namespace attend::io {

/// An open safetensors file. Opening reads and checks the header alone; a tensor's bytes are read when asked for, straight to
/// where they are wanted, and may be asked for by several threads at once. Offsets in the file need no alignment.
///
///     const auto file = io::SafetensorsFile::open("model.safetensors");
///     std::vector<float> gamma = file.read<float>("encoder.layer_norm.weight");
class SafetensorsFile {
 public:
  /// Throws IoError if the file cannot be read, FormatError `safetensors: path: ...` if anything in it is not as the format has
  /// it: each header field is checked against the size of the file before it is relied on.
  static SafetensorsFile open(const std::filesystem::path& path) { return SafetensorsFile(InputFile(path)); }

  [[nodiscard]] const std::filesystem::path& path() const { return file_.path(); }
  /// All tensors, in the order of their names.
  [[nodiscard]] std::span<const TensorInfo> tensors() const { return header_.tensors; }
  /// The strings of `__metadata__`.
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  [[nodiscard]] bool contains(std::string_view name) const { return find(name) != nullptr; }
  /// Type, shape and place of a tensor. Throws FormatError if there is none of that name.
  [[nodiscard]] const TensorInfo& info(std::string_view name) const {
    const TensorInfo* found = find(name);
    if (found == nullptr)
      throw FormatError(where_, "has no tensor '", detail::printable(name), "' (it has ", header_.tensors.size(), ")");
    return *found;
  }

  /// The numbers of a tensor as `T`, in C order. Floats take every type, rounding to nearest (and to infinity what is too
  /// large); integers take integers and truth values; `bool` takes truth values.
  /// Throws ShapeError if `out` has another number of elements, FormatError if the type cannot be read as `T` or a number does
  /// not fit, IoError.
  template <Storable T>
  void read_as(std::string_view name, std::span<T> out) const {
    const TensorInfo& tensor = info(name);
    if (count_of(out) != tensor.shape.size())
      throw ShapeError(where_, quoted(tensor), " has shape ", tensor.shape.text(), ", expected ", out.size(), " elements");
    detail::read_numbers(file_, data_begin_ + tensor.begin, tensor.dtype, out, [&] { return where_ + quoted(tensor); });
  }

  /// As many of a tensor's numbers as `out` has room for, from number `first` on. Throws the same.
  template <Storable T>
  void read_part(std::string_view name, index_t first, std::span<T> out) const {
    const TensorInfo& tensor = info(name);
    detail::check_part(where_, tensor, first, count_of(out));
    detail::read_numbers(file_, data_begin_ + tensor.begin + static_cast<std::size_t>(first) * dtype_bytes(tensor.dtype),
                         tensor.dtype, out, [&] { return where_ + quoted(tensor); });
  }
  /// Where the numbers of a tensor lie. Throws FormatError if there is none of that name.
  [[nodiscard]] std::optional<TensorPlace> place(std::string_view name) const {
    return TensorPlace{&file_, data_begin_ + info(name).begin};
  }

  /// The same into a vector, whose size the tensor decides.
  template <Storable T>
  requires(!std::same_as<T, bool>) [[nodiscard]] std::vector<T> read(std::string_view name) const {
    std::vector<T> values(info(name).shape.size());
    read_as(name, std::span<T>(values));
    return values;
  }

  /// The numbers of a tensor where they lie in a mapping of the file, which the caller keeps. Throws FormatError unless they are
  /// of that very type, and lie at a multiple of its size, as writers of the format place them.
  template <Storable T>
  [[nodiscard]] std::span<const T> mapped(const MappedFile& mapping, std::string_view name) const {
    const TensorInfo& tensor = info(name);
    const auto bytes = mapping.bytes().subspan(data_begin_ + tensor.begin, tensor.end - tensor.begin);
    if (tensor.dtype != dtype_of<T>() || reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(T) != 0)
      throw FormatError(where_, quoted(tensor), " has the dtype ", dtype_name(tensor.dtype), " at byte ",
                        data_begin_ + tensor.begin, ", expected ", dtype_name(dtype_of<T>()), " at a multiple of ", alignof(T));
    return {reinterpret_cast<const T*>(bytes.data()), static_cast<std::size_t>(tensor.shape.size())};
  }
  /// The whole file as memory.
  [[nodiscard]] MappedFile map() const { return MappedFile(file_); }

  /// The bytes of a tensor as they lie in the file. Throws ShapeError if `out` has another size, IoError.
  void read_bytes(std::string_view name, std::span<std::byte> out) const {
    const TensorInfo& tensor = info(name);
    if (out.size() != tensor.end - tensor.begin)
      throw ShapeError(where_, quoted(tensor), " has ", tensor.end - tensor.begin, " bytes, expected ", out.size());
    file_.read_at(data_begin_ + tensor.begin, out);
  }

 private:
  explicit SafetensorsFile(InputFile file) : file_(std::move(file)), where_("safetensors: " + file_.path().string() + ": ") {
    std::array<std::byte, 8> prefix{};
    const std::size_t size = file_.size();
    if (size < prefix.size()) throw FormatError(where_, "has ", size, " bytes, expected 8 or more");
    file_.read_at(0, prefix);
    check_no_pointer({reinterpret_cast<const char*>(prefix.data()), prefix.size()}, where_);
    std::uint64_t length = 0;
    std::memcpy(&length, prefix.data(), sizeof(length));
    if (length > max_safetensors_header_bytes)
      throw FormatError(where_, "gives its header's length as ", length, " bytes, expected at most ",
                        max_safetensors_header_bytes);
    if (length > size - prefix.size())
      throw FormatError(where_, "gives its header's length as ", length, " bytes, but has only ", size - prefix.size(),
                        " after that number");
    std::string text(length, '\0');
    file_.read_at(prefix.size(), std::as_writable_bytes(std::span<char>(text)));
    data_begin_ = prefix.size() + length;
    header_ = parse_safetensors_header(text, size - data_begin_, where_);
  }

  [[nodiscard]] const TensorInfo* find(std::string_view name) const { return find_tensor(header_.tensors, name); }

  static std::string quoted(const TensorInfo& tensor) { return "tensor '" + detail::printable(tensor.name) + "'"; }

  InputFile file_;
  std::string where_;  // begins every message
  std::size_t data_begin_ = 0;
  SafetensorsHeader header_;
};

}  // namespace attend::io
