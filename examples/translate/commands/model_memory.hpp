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

/// Bytes that a model's matrices take at least when they are packed for products. Left out are all that are as large as its
/// largest tensor, or called as tables and heads are: tables are only looked up in, and a file may hold one of them several
/// times. 0 if something is wrong with the folder, which `load` says.
inline double packed_bytes(const std::string& folder, attend::Precision precision) {
  using namespace attend;
  const double wanted = precision == Precision::int8 ? 1 : precision == Precision::bf16 ? 2 : 4;
  try {
    const io::FolderReader reader(is_pretrained_folder(folder) ? std::filesystem::path(folder) : train::model_folder(folder));
    const auto files = io::WeightFiles::open(reader);
    index_t largest = 0;
    for (const auto& tensor : files.tensors()) largest = std::max(largest, tensor.shape.size());
    double bytes = 0;
    for (const auto& tensor : files.tensors()) {
      const auto called = [&](const char* part) { return tensor.name.find(part) != std::string::npos; };
      if (tensor.shape.size() == largest || called("embed") || called("shared") || called("head")) continue;
      bytes += static_cast<double>(tensor.shape.size()) * (tensor.dtype == io::DType::i8 ? 1 : wanted);
    }
    return bytes;
  } catch (const std::exception&) {
    return 0;
  }
}

/// Throws MemoryError, which says `what` takes more, if `needed` bytes are more than this process can have.
inline void check_memory_for(const std::string& what, double needed, const char* advice) {
  const auto free = attend::detail::free_memory();
  if (!free || needed <= static_cast<double>(*free)) return;
  throw attend::MemoryError(what, formatted(" more than %.3g GB of memory", needed / 1e9),
                            formatted(", of which %.3g are free", static_cast<double>(*free) / 1e9), advice);
}

/// Throws MemoryError if the models of these folders certainly do not fit into the memory that this process can have, before any
/// of them is read: the system ends a program that takes more, without a word.
inline void check_memory(const std::vector<std::string>& folders, attend::Precision precision) {
  double needed = 0;
  for (const auto& folder : folders) needed += packed_bytes(folder, precision);
  check_memory_for(
      folders.size() == 1 ? "the model of " + folders.front() + " takes" : "the models together take", needed,
      precision == attend::Precision::int8 ? "" : "; with --precision int8 it takes a quarter of what it does in float32");
}

/// The same for a model that is trained whole on the processor, with so many numbers kept for each weight besides it, in float32.
inline void check_memory_to_train(const std::string& folder, int kept_for_a_weight) {
  check_memory_for("training the model of " + folder + " takes",
                   (1 + kept_for_a_weight) * packed_bytes(folder, attend::Precision::full),
                   "; with --adapter-rank only small matrices beside it are trained");
}

}  // namespace translate
