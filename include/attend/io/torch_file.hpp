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
#include "attend/core/printable.hpp"
#include "attend/core/shape.hpp"
#include "attend/io/dtype.hpp"
#include "attend/io/file.hpp"
#include "attend/io/mapped_file.hpp"
#include "attend/io/pickle.hpp"
#include "attend/io/read_numbers.hpp"
#include "attend/io/safetensors_header.hpp"
#include "attend/io/zip.hpp"

/// Files that torch.save wrote of a state dict: a zip archive with the pickle `data.pkl` and a file `data/KEY` for each storage.

namespace attend::io {

/// An open `pytorch_model.bin`. Opening reads the archive's directory and the pickle, of which nothing is executed: see
/// `parse_pickle`. A tensor's numbers are read when asked for, straight to where they are wanted, and may be asked for by several
/// threads at once. Tensors may share a storage, and need not be contiguous in it.
///
///     const auto file = io::TorchFile::open("pytorch_model.bin");
///     std::vector<float> gamma(512);
///     file.read_as("encoder.layer_norm.weight", std::span<float>(gamma));
class TorchFile {
 public:
  /// Throws IoError if the file cannot be read, FormatError `torch file: path: ...` if it is not what torch.save writes of a dict
  /// of tensors, or of the format that it wrote before release 1.6, which is no archive.
  static TorchFile open(const std::filesystem::path& path) { return TorchFile(InputFile(path)); }

  [[nodiscard]] const std::filesystem::path& path() const { return file_.path(); }
  /// All tensors, in the order of their names. `begin` and `end` are where the file has their first and last numbers.
  [[nodiscard]] std::span<const TensorInfo> tensors() const { return tensors_; }
  [[nodiscard]] bool contains(std::string_view name) const { return find_tensor(tensors_, name) != nullptr; }
  /// Type, shape and place of a tensor. Throws FormatError if there is none of that name.
  [[nodiscard]] const TensorInfo& info(std::string_view name) const { return tensors_[index(name)]; }

  /// The numbers of a tensor as `T`, in C order, as `SafetensorsFile::read_as` has them. Those of a tensor that is not contiguous
  /// are gathered from a mapping of the file. Throws ShapeError, FormatError and IoError as that does.
  template <Storable T>
  void read_as(std::string_view name, std::span<T> out) const {
    const std::size_t i = index(name);
    const TensorInfo& tensor = tensors_[i];
    if (count_of(out) != tensor.shape.size())
      throw ShapeError(where_, quoted(tensor), " has shape ", tensor.shape.text(), ", expected ", out.size(), " elements");
    read(i, 0, out);
  }
  /// As many of a tensor's numbers as `out` has room for, from number `first` on. Throws the same.
  template <Storable T>
  void read_part(std::string_view name, index_t first, std::span<T> out) const {
    const std::size_t i = index(name);
    detail::check_part(where_, tensors_[i], first, count_of(out));
    read(i, static_cast<std::size_t>(first), out);
  }
  /// Where the numbers of a tensor lie, if it is contiguous. Throws FormatError if there is none of that name.
  [[nodiscard]] std::optional<TensorPlace> place(std::string_view name) const {
    const std::size_t i = index(name);
    if (!strides_[i].empty()) return std::nullopt;
    return TensorPlace{&file_, tensors_[i].begin};
  }

 private:
  explicit TorchFile(InputFile file) : file_(std::move(file)), where_("torch file: " + file_.path().string() + ": ") {
    check_kind();
    const std::vector<ZipEntry> entries = zip_entries(file_, where_);
    const auto is_pickle = [](const ZipEntry& entry) { return entry.name.ends_with("/data.pkl"); };
    const auto pickle = std::find_if(entries.begin(), entries.end(), is_pickle);
    if (pickle == entries.end()) throw FormatError(where_, "is a zip archive without data.pkl, expected what torch.save writes");
    const std::string folder = pickle->name.substr(0, pickle->name.size() - std::string_view("data.pkl").size());
    std::map<std::string_view, const ZipEntry*> storages;  // by their keys
    for (const ZipEntry& entry : entries) {
      const std::string_view name = entry.name;
      if (name.starts_with(folder + "data/")) storages[name.substr(folder.size() + 5)] = &entry;
      if (name == folder + "byteorder" && contents(entry, 16) != "little")
        throw FormatError(where_, "has the byte order '", detail::printable(contents(entry, 16)), "', expected little");
    }
    const std::string bytes = contents(*pickle, pickle->size);
    std::vector<PickledTensor> tensors = parse_pickle(bytes, where_);
    std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    const auto twice =
        std::adjacent_find(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.name == b.name; });
    if (twice != tensors.end()) throw FormatError(where_, "has the tensor '", detail::printable(twice->name), "' twice");
    for (const PickledTensor& tensor : tensors) {
      const auto storage = storages.find(tensor.storage);
      add(tensor, storage == storages.end() ? nullptr : storage->second);
    }
  }

  void check_kind() const {
    constexpr std::string_view legacy("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 14);
    std::array<char, legacy.size()> begin{};
    const auto size = std::min(begin.size(), file_.size());
    file_.read_at(0, std::as_writable_bytes(std::span(begin).first(size)));
    const std::string_view is(begin.data(), size);
    if (is == legacy)
      throw FormatError(where_,
                        "is of the format that torch.save wrote before release 1.6, expected a zip archive: load and save "
                        "it by a later one");
    check_no_pointer(is, where_);
    if (!is.starts_with("PK")) throw FormatError(where_, "is no zip archive, expected what torch.save writes");
  }

  /// The first `most` bytes of a file in the archive.
  [[nodiscard]] std::string contents(const ZipEntry& entry, std::size_t most) const {
    std::string bytes(std::min(entry.size, most), '\0');
    file_.read_at(entry.begin, std::as_writable_bytes(std::span<char>(bytes)));
    return bytes;
  }

  void add(const PickledTensor& tensor, const ZipEntry* storage) {
    const std::size_t each = dtype_bytes(tensor.dtype);
    TensorInfo info{.name = std::string(tensor.name), .dtype = tensor.dtype, .shape = tensor.shape};
    if (storage == nullptr)
      throw FormatError(where_, quoted(info), " is in data/", detail::printable(tensor.storage),
                        ", which the archive does not have");
    if (storage->size / each != tensor.storage_size || storage->size % each != 0)
      throw FormatError(where_, quoted(info), " is in data/", detail::printable(tensor.storage), ", of ", storage->size,
                        " bytes, expected ", tensor.storage_size, " numbers of ", each, " bytes each (", dtype_name(tensor.dtype),
                        ")");
    std::uint64_t contiguous = 1, last = 0;
    bool is_contiguous = true;
    for (std::size_t i = tensor.strides.size(); i-- > 0;) {
      const auto size = static_cast<std::uint64_t>(tensor.shape.begin()[i]);
      if (size != 1 && tensor.strides[i] != contiguous) is_contiguous = false;
      if (tensor.shape.size() > 0) last += (size - 1) * tensor.strides[i];
      contiguous *= size;
    }
    if (tensor.shape.size() == 0) is_contiguous = true;
    info.begin = storage->begin + tensor.offset * each;
    info.end = info.begin + (tensor.shape.size() == 0 ? 0 : (last + 1) * each);
    tensors_.push_back(std::move(info));
    strides_.push_back(is_contiguous ? std::vector<std::uint64_t>{} : tensor.strides);
  }

  template <Storable T>
  void read(std::size_t i, std::size_t skipped, std::span<T> out) const {
    const TensorInfo& tensor = tensors_[i];
    const auto named = [&] { return where_ + quoted(tensor); };
    if (strides_[i].empty())
      return detail::read_numbers(file_, tensor.begin + skipped * dtype_bytes(tensor.dtype), tensor.dtype, out, named);
    detail::check_readable<T>(tensor.dtype, named);
    gather(tensor, strides_[i], skipped, out, named);
  }

  template <Storable T, class Name>
  void gather(const TensorInfo& tensor, const std::vector<std::uint64_t>& strides, std::size_t skipped, std::span<T> out,
              const Name& named) const {
    if (out.empty()) return;
    const MappedFile mapping(file_);
    const std::byte* first = mapping.bytes().subspan(tensor.begin, tensor.end - tensor.begin).data();
    const std::size_t each = dtype_bytes(tensor.dtype), rank = strides.size();
    std::array<std::byte, 1 << 12> buffer;
    std::array<std::uint64_t, Shape::max_rank> at{};
    std::uint64_t place = 0;  // in the storage, from the first element
    for (std::size_t d = rank; d-- > 0;) {
      const auto size = static_cast<std::uint64_t>(tensor.shape.begin()[d]);
      at[d] = skipped % size, skipped /= size;
      place += at[d] * strides[d];
    }
    for (std::size_t done = 0; done < out.size();) {
      const std::span<T> part = out.subspan(done, std::min(buffer.size() / each, out.size() - done));
      for (std::size_t i = 0; i < part.size(); ++i) {
        std::memcpy(buffer.data() + i * each, first + place * each, each);
        for (std::size_t d = rank; d-- > 0;) {  // the next element: the innermost index rises, and carries
          place += strides[d];
          if (++at[d] < static_cast<std::uint64_t>(tensor.shape.begin()[d])) break;
          place -= at[d] * strides[d];
          at[d] = 0;
        }
      }
      detail::decode_or_throw(tensor.dtype, buffer.data(), part, done, named);
      done += part.size();
    }
  }

  [[nodiscard]] std::size_t index(std::string_view name) const {
    const TensorInfo* found = find_tensor(tensors_, name);
    if (found == nullptr)
      throw FormatError(where_, "has no tensor '", detail::printable(name), "' (it has ", tensors_.size(), ")");
    return static_cast<std::size_t>(found - tensors_.data());
  }

  static std::string quoted(const TensorInfo& tensor) { return "tensor '" + detail::printable(tensor.name) + "'"; }

  InputFile file_;
  std::string where_;  // begins every message
  std::vector<TensorInfo> tensors_;
  std::vector<std::vector<std::uint64_t>> strides_;  // of each tensor; none for one that is contiguous
};

}  // namespace attend::io
