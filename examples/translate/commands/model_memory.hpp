#pragma once

#include <algorithm>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "attend/core/error.hpp"
#include "attend/core/free_memory.hpp"
#include "attend/core/precision.hpp"
#include "attend/core/shape.hpp"
#include "attend/io/weight_files.hpp"
#include "attend/load.hpp"
#include "attend/train/run_folder.hpp"
#include "output.hpp"

namespace translate {

/// How many numbers the matrices of a model have that products are packed from: all but its largest, which may be a table that is
/// only looked up in. 0 if something is wrong with the folder, which `load` says.
inline double packed_numbers(const std::string& folder) {
  using namespace attend;
  try {
    const io::FolderReader reader(is_pretrained_folder(folder) ? std::filesystem::path(folder) : train::model_folder(folder));
    const auto files = io::WeightFiles::open(reader);
    double all = 0, largest = 0;
    for (const auto& tensor : files.tensors()) {
      const auto size = static_cast<double>(tensor.shape.size());
      all += size;
      largest = std::max(largest, size);
    }
    return all - largest;
  } catch (const std::exception&) {
    return 0;
  }
}

/// Throws MemoryError if the models of these folders certainly do not fit into the memory that this process can have, before any
/// of them is read: the system ends a program that takes more, without a word.
inline void check_memory(const std::vector<std::string>& folders, attend::Precision precision) {
  using attend::Precision;
  const auto free = attend::detail::free_memory();
  if (!free) return;
  double numbers = 0;
  for (const auto& folder : folders) numbers += packed_numbers(folder);
  const double needed = numbers * (precision == Precision::int8 ? 1 : precision == Precision::bf16 ? 2 : 4);
  if (needed <= static_cast<double>(*free)) return;
  throw attend::MemoryError(
      folders.size() == 1 ? "the model of " + folders.front() + " takes" : "the models together take",
      number_text(" more than %.3g GB of memory", needed / 1e9),
      number_text(", of which %.3g are free", static_cast<double>(*free) / 1e9),
      precision == Precision::int8 ? "" : "; with --precision int8 it takes a quarter of what it does in float32");
}

}  // namespace translate
