#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "attend/core/error.hpp"
#include "attend/core/shape.hpp"
#include "attend/io/dtype.hpp"
#include "attend/io/file.hpp"
#include "attend/io/json.hpp"
#include "attend/io/safetensors_header.hpp"

namespace attend::detail {

/// Throws ValueError unless floats can be stored as `stored`.
inline void check_stored_floats(const std::string& name, io::DType stored) {
  if (!io::is_floating(stored))
    throw ValueError("safetensors: tensor '", name, "' holds floats, and cannot be stored as ", io::dtype_name(stored),
                     ", expected F64, F32, F16 or BF16");
}

/// Puts floats into the sink as numbers of another floating-point type, some at a time.
template <class T>
void write_floats(io::FileSink& sink, std::span<const T> values, io::DType stored) {
  if (stored == io::dtype_of<T>()) return sink.write(std::as_bytes(values));
  constexpr std::size_t chunk = 1 << 16;
  std::vector<std::byte> buffer(std::min(chunk, values.size()) * io::dtype_bytes(stored));
  for (std::size_t done = 0; done < values.size(); done += chunk) {
    const auto part = values.subspan(done, std::min(chunk, values.size() - done));
    io::encode(stored, part, buffer.data());
    sink.write(std::span<const std::byte>(buffer).first(part.size() * io::dtype_bytes(stored)));
  }
}

/// What a tensor is sorted by in a file: its name, but `k_proj.weight` and `v_proj.weight` follow their `q_proj.weight`, so that
/// the three are one matrix there too, as in nn::MultiHeadAttention, which can then be mapped.
inline std::string place_name(std::string name) {
  std::size_t follows = 1;
  for (const char* part : {"k_proj.", "v_proj."}) {
    const std::size_t at = name.rfind(part);
    if (at != name.npos && (at == 0 || name[at - 1] == '.')) {
      name[at] = 'q';
      return name + std::string(follows, '\1');
    }
    ++follows;
  }
  return name;
}

}  // namespace attend::detail

namespace attend::io {

/// Collects tensors and writes them as a safetensors file. The numbers themselves are not copied: what is added as a span must
/// live until `write`, which streams it, so that saving a model does not take the memory of a second one. A temporary vector is
/// taken over.
///
///     io::SafetensorsWriter writer;
///     writer.add<float>("gamma", {4}, gamma);
///     writer.add<float>("weight", {512, 512}, weight, io::DType::bf16);  // rounded as it is written
///     writer.metadata("format", "pt");
///     writer.write("model.safetensors");
///
/// The same contents give the same bytes, whatever the order in which they were added.
class SafetensorsWriter {
 public:
  /// A string for `__metadata__`; a second one under the same key replaces the first. Throws ValueError if not UTF-8.
  void metadata(const std::string& key, const std::string& value) {
    metadata_[detail::json_quoted("safetensors", key)] = detail::json_quoted("safetensors", value);
  }

  /// A tensor of the program's numbers, stored as they are. Throws ShapeError if `values` does not have as many as the shape
  /// says, ValueError for a name that is taken, reserved, or not UTF-8.
  template <Storable T>
  void add(const std::string& name, const Shape& shape, std::span<const T> values) {
    check_size(name, shape, values.size(), 1, "values");
    add_entry(name, dtype_of<T>(), shape, [bytes = std::as_bytes(values)](FileSink& sink) { sink.write(bytes); });
  }
  /// A tensor of floats, stored as the given floating-point type: each number to nearest, ties to even.
  /// Throws the same, and ValueError if `stored` is not a floating-point type.
  template <std::floating_point T>
  requires Storable<T>
  void add(const std::string& name, const Shape& shape, std::span<const T> values, DType stored) {
    check_size(name, shape, values.size(), 1, "values");
    detail::check_stored_floats(name, stored);
    add_entry(name, stored, shape, [values, stored](FileSink& sink) { detail::write_floats(sink, values, stored); });
  }
  /// The same for numbers that nobody else keeps: the writer takes them over.
  template <Storable T>
  requires(!std::same_as<T, bool>) void add(const std::string& name, const Shape& shape, std::vector<T>&& values) {
    check_size(name, shape, values.size(), 1, "values");
    add_entry(name, dtype_of<T>(), shape,
              [owned = std::move(values)](FileSink& sink) { sink.write(std::as_bytes(std::span(owned))); });
  }
  template <std::floating_point T>
  requires Storable<T>
  void add(const std::string& name, const Shape& shape, std::vector<T>&& values, DType stored) {
    check_size(name, shape, values.size(), 1, "values");
    detail::check_stored_floats(name, stored);
    add_entry(name, stored, shape,
              [owned = std::move(values), stored](FileSink& sink) { detail::write_floats<T>(sink, owned, stored); });
  }

  /// A tensor by its bytes, little-endian, C order. Throws as above.
  void add_bytes(const std::string& name, DType dtype, const Shape& shape, std::span<const std::byte> bytes) {
    check_size(name, shape, bytes.size(), dtype_bytes(dtype), "bytes");
    add_entry(name, dtype, shape, [bytes](FileSink& sink) { sink.write(bytes); });
  }

  /// A tensor whose bytes `produce` puts into the sink when the file is written (from a device, say, piece by piece).
  /// Throws as above; `write` throws ValueError if it produces more or fewer bytes than shape and type need.
  void add_stream(const std::string& name, DType dtype, const Shape& shape, std::function<void(FileSink&)> produce) {
    add_entry(name, dtype, shape, std::move(produce));
  }

  /// Writes the file by `write_file_atomically`. Throws IoError, ValueError (a header over the format's 100 MB, a stream of the
  /// wrong length); the file that was there before is then as it was.
  void write(const std::filesystem::path& path) const {
    std::vector<const Entry*> order;
    for (const auto& [name, entry] : entries_) order.push_back(&entry);
    // As the format's own library does: wide types first, so that each tensor is aligned to its type; then by name, but for q, k
    // and v.
    std::stable_sort(order.begin(), order.end(), [](const Entry* a, const Entry* b) {
      return a->dtype != b->dtype ? a->dtype > b->dtype : a->place < b->place;
    });
    const std::string header = header_text(order);
    if (header.size() > max_safetensors_header_bytes)
      throw ValueError("safetensors: ", path.string(), " would have a header of ", header.size(), " bytes, at most ",
                       max_safetensors_header_bytes, " are possible");
    const std::uint64_t length = header.size();
    write_file_atomically(path, [&](FileSink& sink) {
      sink.write(std::as_bytes(std::span(&length, 1)));
      sink.write(header);
      for (const Entry* entry : order) {
        const std::size_t before = sink.written();
        entry->produce(sink);
        if (sink.written() - before != entry->bytes)
          throw ValueError("safetensors: tensor ", entry->quoted_name, " gave ", sink.written() - before, " bytes, expected ",
                           entry->bytes);
      }
    });
  }

 private:
  struct Entry {
    std::string quoted_name, place;
    DType dtype;
    Shape shape;
    std::size_t bytes;
    std::function<void(FileSink&)> produce;
  };

  static void check_size(const std::string& name, const Shape& shape, std::size_t got, std::size_t each, const char* unit) {
    if (got % each != 0 || got / each != static_cast<std::uint64_t>(shape.size()))
      throw ShapeError("safetensors: tensor '", name, "' got ", got, " ", unit, ", expected shape ", shape.text(),
                       (each == 1 ? "" : " of " + std::to_string(each) + " bytes each"));
  }

  void add_entry(const std::string& name, DType dtype, const Shape& shape, std::function<void(FileSink&)> produce) {
    if (name == "__metadata__") throw ValueError("safetensors: no tensor can have the name __metadata__");
    if (entries_.count(name) != 0) throw ValueError("safetensors: the tensor '", name, "' was added twice");
    if (shape.size() > std::numeric_limits<std::ptrdiff_t>::max() / static_cast<index_t>(dtype_bytes(dtype)))
      throw ShapeError("safetensors: tensor '", name, "' of shape ", shape.text(), " has more bytes than a file can");
    const std::size_t bytes = static_cast<std::size_t>(shape.size()) * dtype_bytes(dtype);
    entries_.emplace(
        name, Entry{detail::json_quoted("safetensors", name), detail::place_name(name), dtype, shape, bytes, std::move(produce)});
  }

  [[nodiscard]] std::string header_text(std::span<const Entry* const> order) const {
    std::string text = "{", separator;
    if (!metadata_.empty()) {
      text += "\"__metadata__\":{";
      for (const auto& [key, value] : metadata_) text += std::exchange(separator, ",") + key + ":" + value;
      text += "}";
    }
    std::size_t offset = 0;
    for (const Entry* entry : order) {
      text += std::exchange(separator, ",") + entry->quoted_name + ":{\"dtype\":\"" + std::string(dtype_name(entry->dtype)) +
              "\",\"shape\":[";
      std::string comma;
      for (const index_t n : entry->shape) text += std::exchange(comma, ",") + std::to_string(n);
      text += "],\"data_offsets\":[" + std::to_string(offset) + "," + std::to_string(offset + entry->bytes) + "]}";
      offset += entry->bytes;
    }
    text += "}";
    text.resize((text.size() + 7) / 8 * 8, ' ');  // the data begins at a multiple of 8
    return text;
  }

  std::map<std::string, Entry> entries_;
  std::map<std::string, std::string> metadata_;  // JSON strings, quotes included
};

}  // namespace attend::io
