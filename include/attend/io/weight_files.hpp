#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "attend/core/error.hpp"
#include "attend/core/printable.hpp"
#include "attend/io/dtype.hpp"
#include "attend/io/folder.hpp"
#include "attend/io/json.hpp"
#include "attend/io/safetensors.hpp"
#include "attend/io/torch_file.hpp"

/// The weights in a folder of the `transformers` library, in one file or several, of either format.

namespace attend::io {

/// The tensors of one or more files, as if they were one. Opening reads no numbers; they are read when asked for, straight to
/// where they are wanted.
class WeightFiles {
 public:
  /// Opens the weights of a folder: `model.safetensors`, else the files that `model.safetensors.index.json` lists, else
  /// `pytorch_model.bin`, else those of `pytorch_model.bin.index.json`. Throws IoError if there are none; FormatError with all
  /// files that an index lists and the folder lacks, all tensors that are not in the file that it says, and all that are in two
  /// files; and what opening each file throws.
  static WeightFiles open(const FolderReader& folder) {
    for (const char* name : {"model.safetensors", "pytorch_model.bin"}) {
      if (folder.contains(name)) return of(folder.file(name));
      const std::string index = std::string(name) + ".index.json";
      if (!folder.contains(index)) continue;
      WeightFiles files;
      files.path_ = folder.file(index);
      files.open_index(folder);
      files.collect();
      return files;
    }
    throw IoError("read: ", folder.path().string(),
                  " has no weights, expected model.safetensors or pytorch_model.bin, or one of them in several files and its "
                  "index, model.safetensors.index.json or pytorch_model.bin.index.json");
  }

  /// One file of tensors, of PyTorch if its name ends in `.bin`, else of safetensors. Throws what opening it throws.
  static WeightFiles of(const std::filesystem::path& file) {
    WeightFiles files;
    files.path_ = file;
    files.parts_.push_back(open_part(file));
    files.collect();
    return files;
  }

  /// The file, or the index of several.
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// All tensors, in the order of their names. `begin` and `end` are each file's own.
  [[nodiscard]] std::span<const TensorInfo> tensors() const { return tensors_; }
  [[nodiscard]] bool contains(std::string_view name) const { return find_tensor(tensors_, name) != nullptr; }
  /// Type and shape of a tensor. Throws FormatError if there is none of that name.
  [[nodiscard]] const TensorInfo& info(std::string_view name) const { return tensors_[index(name)]; }
  /// The numbers of a tensor as `T`: see `SafetensorsFile::read_as`.
  template <Storable T>
  void read_as(std::string_view name, std::span<T> out) const {
    std::visit([&](const auto& file) { file.read_as(name, out); }, parts_[part_of_[index(name)]]);
  }
  /// As many of a tensor's numbers as `out` has room for, from number `first` on, and where they lie: see SafetensorsFile.
  template <Storable T>
  void read_part(std::string_view name, index_t first, std::span<T> out) const {
    std::visit([&](const auto& file) { file.read_part(name, first, out); }, parts_[part_of_[index(name)]]);
  }
  /// Where a tensor's numbers lie in its file: see SafetensorsFile.
  [[nodiscard]] std::optional<TensorPlace> place(std::string_view name) const {
    return std::visit([&](const auto& file) { return file.place(name); }, parts_[part_of_[index(name)]]);
  }

 private:
  using Part = std::variant<SafetensorsFile, TorchFile>;

  WeightFiles() = default;

  static Part open_part(const std::filesystem::path& path) {
    if (path.extension() == ".bin") return TorchFile::open(path);
    return SafetensorsFile::open(path);
  }
  static std::span<const TensorInfo> tensors_of(const Part& part) {
    return std::visit([](const auto& file) { return file.tensors(); }, part);
  }

  void open_index(const FolderReader& folder) {
    const Json json = read_json(path_);
    const JsonObject map = JsonObject(json, path_.string()).object("weight_map");
    std::map<std::string, std::vector<std::string>> names_in;  // by file
    for (const auto& item : map.json().items()) names_in[map.get<std::string>(item.key())].push_back(item.key());
    if (names_in.empty()) throw FormatError(path_.string(), ": weight_map is empty, expected the names of tensors");
    std::vector<std::string> missing, absent;
    for (const auto& [file, names] : names_in) {
      const auto extension = std::filesystem::path(file).extension();
      if (!detail::is_plain_name(file) || (extension != ".bin" && extension != ".safetensors"))
        throw FormatError(path_.string(), ": weight_map names the file '", detail::printable(file),
                          "', expected a file in the same folder that ends in .safetensors or .bin");
      if (!folder.contains(file)) {
        missing.push_back(detail::printable(file));
        continue;
      }
      parts_.push_back(open_part(folder.file(file)));
      const auto has = [&](const std::string& name) {
        return std::visit([&](const auto& opened) { return opened.contains(name); }, parts_.back());
      };
      for (const std::string& name : names)
        if (!has(name)) absent.push_back(detail::printable(name) + " (" + file + ")");
    }
    detail::list_names(faults_, "files that are missing:", missing);
    detail::list_names(faults_, "tensors that are not where it says:", absent);
  }

  /// Puts the tensors of all files in order. Throws FormatError with all that is wrong.
  void collect() {
    std::vector<std::pair<const TensorInfo*, std::size_t>> all;
    for (std::size_t part = 0; part < parts_.size(); ++part)
      for (const TensorInfo& tensor : tensors_of(parts_[part])) all.emplace_back(&tensor, part);
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first->name < b.first->name; });
    std::vector<std::string> twice;
    for (const auto& [tensor, part] : all) {
      if (!tensors_.empty() && tensors_.back().name == tensor->name) {
        if (twice.empty() || twice.back() != detail::printable(tensor->name)) twice.push_back(detail::printable(tensor->name));
        continue;
      }
      tensors_.push_back(*tensor);
      part_of_.push_back(part);
    }
    detail::list_names(faults_, "tensors that are in two files:", twice);
    if (!faults_.empty()) throw FormatError("load: ", path_.string(), ": ", faults_);
  }

  [[nodiscard]] std::size_t index(std::string_view name) const {
    const TensorInfo* found = find_tensor(tensors_, name);
    if (found == nullptr)
      throw FormatError("load: ", path_.string(), " has no tensor '", detail::printable(name), "' (it has ", tensors_.size(),
                        ")");
    return static_cast<std::size_t>(found - tensors_.data());
  }

  std::filesystem::path path_;
  std::vector<Part> parts_;
  std::vector<TensorInfo> tensors_;
  std::vector<std::size_t> part_of_;  // which of parts_ has the tensor
  std::string faults_;
};

}  // namespace attend::io
