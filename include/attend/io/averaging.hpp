#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "attend/core/printable.hpp"
#include "attend/core/standard.hpp"
#include "attend/io/average.hpp"
#include "attend/io/config.hpp"
#include "attend/io/folder.hpp"
#include "attend/io/folder_lock.hpp"
#include "attend/io/json.hpp"
#include "attend/io/model_files.hpp"
#include "attend/io/safetensors.hpp"
#include "attend/io/safetensors_writer.hpp"

// How the mean of models is made: part of average.hpp, and of compiled.cpp where a program has that.

namespace attend::detail {

/// Adds `encoder.heads is 4, expected 2` for each value in which two JSON texts differ. Versions of programs that wrote them, and
/// keys with a leading underscore, which are notes, do not count.
inline void list_differences(std::vector<std::string>& faults, const std::string& name, const io::Json& expected,
                             const io::Json& other) {
  if (!expected.is_object() || !other.is_object()) {
    if (expected != other)
      faults.push_back(printable(name) + " is " + json_excerpt(other) + ", expected " + json_excerpt(expected));
    return;
  }
  const io::Json nothing;
  const auto inner = [&](const std::string& key) { return name.back() == ':' ? name + " " + key : name + "." + key; };
  const auto counts = [](const std::string& key) { return !key.starts_with('_') && key != "transformers_version"; };
  for (const auto& [key, value] : expected.items())
    if (counts(key)) list_differences(faults, inner(key), value, other.contains(key) ? other.at(key) : nothing);
  for (const auto& [key, value] : other.items())
    if (counts(key) && !expected.contains(key)) list_differences(faults, inner(key), nothing, value);
}

/// The same for a settings file of two model folders, one of which may have none.
inline void compare_settings(std::vector<std::string>& faults, const std::string& name, const io::FolderReader& expected,
                             const io::FolderReader& other) {
  if (expected.contains(name) != other.contains(name)) {
    faults.push_back(name + (other.contains(name) ? ": expected none" : " is missing"));
  } else if (other.contains(name)) {
    const auto path = expected.file(name), other_path = other.file(name);
    const std::string text = io::read_file(path), other_text = io::read_file(other_path);
    if (text == other_text) return;
    if (!name.ends_with(".json")) faults.push_back(name + " is another");
    else
      list_differences(faults, name + ":", io::parse_json(text, path.string()), io::parse_json(other_text, other_path.string()));
  }
}

/// Adds what keeps the tensors of two files from being averaged.
inline void compare_tensors(std::vector<std::string>& faults, const io::SafetensorsFile& expected,
                            const io::SafetensorsFile& other) {
  for (const auto& t : expected.tensors()) {
    if (!other.contains(t.name)) {
      faults.push_back(printable(t.name) + " is missing");
      continue;
    }
    const io::TensorInfo& found = other.info(t.name);
    if (found.shape != t.shape)
      faults.push_back(printable(t.name) + " has shape " + found.shape.text() + ", expected " + t.shape.text());
    for (const auto* info : {&t, &found})
      if (!io::is_floating(info->dtype))
        faults.push_back(printable(t.name) + " has the dtype " + std::string(io::dtype_name(info->dtype)) + ", expected floats");
  }
  for (const auto& t : other.tensors())
    if (!expected.contains(t.name)) faults.push_back(printable(t.name) + " is unexpected");
}

/// The mean of a tensor over files, summed in double.
inline void write_mean(io::FileSink& sink, const std::vector<io::SafetensorsFile>& files, const io::TensorInfo& tensor) {
  std::vector<double> sum = files.front().read<double>(tensor.name), more(sum.size());
  for (std::size_t i = 1; i < files.size(); ++i) {
    files[i].read_as(tensor.name, std::span<double>(more));
    for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += more[k];
  }
  for (double& x : sum) x /= static_cast<double>(files.size());
  write_floats<double>(sink, sum, tensor.dtype);
}

}  // namespace attend::detail

namespace attend::io {

ATTEND_INLINE void average(const std::vector<std::filesystem::path>& folders, const std::filesystem::path& out) {
  if (folders.empty()) throw ValueError("average: there is no model to average");
  std::vector<FolderReader> readers;
  std::vector<SafetensorsFile> files;
  std::string differences;
  for (const auto& folder : folders) {
    std::error_code ignored;
    if (std::filesystem::equivalent(folder, out, ignored))
      throw ValueError("average: ", out.string(), " is one of the models to average, expected another folder for the result");
    readers.emplace_back(folder);
    if (readers.back().contains("config.json")) {
      const auto config = readers.back().file("config.json");
      if (says_quantized(read_json(config), config.string()))
        throw ValueError("average: ", folder.string(),
                         " is of 8-bit integers, which are for translation; expected models in floats");
    }
    files.push_back(SafetensorsFile::open(readers.back().file(weights_file)));
    std::vector<std::string> faults;
    for (const auto& name : settings_files) detail::compare_settings(faults, std::string(name), readers.front(), readers.back());
    detail::compare_tensors(faults, files.front(), files.back());
    constexpr std::size_t shown = 8;
    for (std::size_t i = 0; i < std::min(faults.size(), shown); ++i)
      differences += (i == 0 ? "; in " + folder.string() + " " : std::string(", ")) + faults[i];
    if (faults.size() > shown) differences += " and " + std::to_string(faults.size() - shown) + " differences more";
  }
  if (!differences.empty())
    throw ValueError("average: the models are not alike, as ", folders.front().string(), " has them", differences);

  const FolderLock lock(out);
  SafetensorsWriter writer;
  for (const auto& [key, value] : files.front().metadata()) writer.metadata(key, value);
  for (const auto& tensor : files.front().tensors())
    writer.add_stream(tensor.name, tensor.dtype, tensor.shape,
                      [&files, &tensor](FileSink& sink) { detail::write_mean(sink, files, tensor); });
  const std::vector<std::string> names(settings_files.begin(), settings_files.end());
  const auto write = [&](const std::filesystem::path& staging) {
    for (const auto& name : names)
      if (readers.front().contains(name)) write_file_atomically(staging / name, read_file(readers.front().file(name)));
    writer.write(staging / weights_file);
  };
  write_folder_atomically(out, write, {.remove = names});
}

}  // namespace attend::io
