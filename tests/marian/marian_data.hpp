#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "attend/core/segments.hpp"
#include "attend/core/tensor.hpp"
#include "attend/io/json.hpp"
#include "attend/io/safetensors.hpp"
#include "attend/io/tensors.hpp"
#include "catch.hpp"

/// Marian folders that the `transformers` library wrote, with what it computed: make_marian.py says what they hold.
namespace marian {

inline std::filesystem::path folder(const std::string& name) {
  return std::filesystem::path(ATTEND_REFERENCE_DEFAULT_DIR) / ".." / ".." / "marian" / "data" / name;
}

/// What was computed by one of them.
class Expected {
 public:
  explicit Expected(const std::string& name) : file_(attend::io::SafetensorsFile::open(folder(name) / "expected.safetensors")) {}

  [[nodiscard]] const attend::io::SafetensorsFile& file() const { return file_; }
  [[nodiscard]] attend::Tensor<attend::token_t> tokens(const std::string& name) const {
    return attend::io::read_tensor<attend::token_t>(file_, name);
  }
  [[nodiscard]] attend::Segments segments(const std::string& name) const {
    return attend::Segments::ragged(file_.read<attend::index_t>(name));
  }
  /// The token ids of each sentence.
  [[nodiscard]] std::vector<std::vector<attend::token_t>> sequences(const std::string& name) const {
    std::vector<std::vector<attend::token_t>> list;
    const auto all = tokens(name + ".tokens").values();
    auto at = all.begin();
    for (const auto n : file_.read<attend::index_t>(name + ".lengths")) {
      list.emplace_back(at, at + n);
      at += n;
    }
    return list;
  }

 private:
  attend::io::SafetensorsFile file_;
};

}  // namespace marian
