#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <span>
#include <string>

#include "attend/core/error.hpp"
#include "attend/core/printable.hpp"
#include "attend/io/dtype.hpp"
#include "attend/io/file.hpp"
#include "attend/io/safetensors_header.hpp"

/// Numbers from a file into a program's, by way of a small buffer where their types differ.

namespace attend::io {

/// Where in a file the numbers of a tensor lie end to end, in C order.
struct TensorPlace {
  const InputFile* file;
  std::size_t begin;  ///< the byte
};

}  // namespace attend::io

namespace attend::detail {

/// Throws ShapeError, which begins with `where`, unless the tensor has `count` numbers from `first` on.
inline void check_part(const std::string& where, const io::TensorInfo& tensor, index_t first, index_t count) {
  const index_t size = tensor.shape.size();
  if (first < 0 || first > size || count > size - first)
    throw ShapeError(where, "tensor '", printable(tensor.name), "' has ", size, " numbers, expected ", count, " from ", first,
                     " on");
}

/// Throws FormatError, which begins with `name()`, unless numbers of that type can be read as `T`.
template <io::Storable T, class Name>
void check_readable(io::DType dtype, const Name& name) {
  if (!io::can_decode<T>(dtype))
    throw FormatError(name(), " has the dtype ", io::dtype_name(dtype), ", expected ",
                      (std::same_as<T, bool> ? "BOOL" : "integers"));
}

/// io::decode that throws FormatError for a number that does not fit; `first` is how many of the tensor's come before.
template <io::Storable T, class Name>
void decode_or_throw(io::DType dtype, const std::byte* in, std::span<T> out, std::size_t first, const Name& name) {
  const auto converted = static_cast<std::size_t>(io::decode<T>(dtype, in, out));
  if (converted < out.size())
    throw FormatError(name(), " has at ", first + converted, " a number that does not fit into ",
                      io::dtype_name(io::dtype_of<T>()));
}

/// The `out.size()` numbers that lie in the file from byte `begin` on. Throws FormatError, which begins with `name()`, if their
/// type cannot be read as `T` or one does not fit; IoError.
template <io::Storable T, class Name>
void read_numbers(const io::InputFile& file, std::size_t begin, io::DType dtype, std::span<T> out, const Name& name) {
  check_readable<T>(dtype, name);
  if constexpr (!std::same_as<T, bool>)
    if (dtype == io::dtype_of<T>()) return file.read_at(begin, std::as_writable_bytes(out));
  const std::size_t each = io::dtype_bytes(dtype);
  std::array<std::byte, 1 << 15> buffer;
  for (std::size_t done = 0; done < out.size();) {
    const std::span<T> part = out.subspan(done, std::min(buffer.size() / each, out.size() - done));
    file.read_at(begin + done * each, std::span(buffer).first(part.size() * each));
    decode_or_throw(dtype, buffer.data(), part, done, name);
    done += part.size();
  }
}

}  // namespace attend::detail
