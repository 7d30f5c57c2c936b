#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "attend/marian.hpp"
#include "attend/nn/batch.hpp"
#include "attend/pretrained.hpp"
#include "catch.hpp"

/// Models that the `transformers` library wrote, with what it computed: make_pretrained.py says what they hold.
namespace pretrained {

inline std::filesystem::path data() {
  if (const char* folder = std::getenv("ATTEND_PRETRAINED_DIR")) return folder;
  return std::filesystem::path(ATTEND_REFERENCE_DEFAULT_DIR) / ".." / ".." / "pretrained" / "data";
}

inline std::vector<std::string> models() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(data())) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

/// One of them, of Marian's family too, which has no tokenizer there.
template <class T = float>
attend::io::PretrainedModel<T> load_model(const std::filesystem::path& folder) {
  using namespace attend;
  const io::FolderReader reader(folder);
  const auto path = reader.file("config.json");
  const auto json = io::read_json(path);
  if (io::model_type(json) != "marian") return io::load_pretrained<T>(folder);
  const auto config = io::marian_config_from(json, path.string());
  return {.model = io::marian_model<T, Cpu>(config, io::WeightFiles::open(reader)),
          .config = config,
          .search = attend::detail::marian_search(reader, config)};
}

/// What was computed by one of them.
class Expected {
 public:
  explicit Expected(const std::string& name) : file_(attend::io::SafetensorsFile::open(data() / name / "expected.safetensors")) {}

  [[nodiscard]] const attend::io::SafetensorsFile& file() const { return file_; }
  [[nodiscard]] std::vector<double> numbers(const std::string& name) const { return file_.read<double>(name); }
  /// The token ids of each sentence.
  [[nodiscard]] std::vector<std::vector<attend::token_t>> sequences(const std::string& tokens, const std::string& lengths) const {
    std::vector<std::vector<attend::token_t>> list;
    const auto all = file_.read<attend::token_t>(tokens);
    auto at = all.begin();
    for (const auto n : file_.read<attend::index_t>(lengths)) {
      list.emplace_back(at, at + n);
      at += n;
    }
    return list;
  }
  /// The sentences that have targets, with these and the labels.
  [[nodiscard]] attend::nn::Batch<> batch() const {
    using namespace attend;
    auto lengths = file_.read<index_t>("source_lengths");
    const auto targets = Segments::ragged(file_.read<index_t>("target_lengths"));
    lengths.resize(static_cast<std::size_t>(targets.count()));
    const auto sources = Segments::ragged(lengths);
    return {io::read_tensor<token_t>(file_, "source").rows(0, sources.rows()), sources, io::read_tensor<token_t>(file_, "target"),
            targets, io::read_tensor<token_t>(file_, "labels")};
  }

 private:
  attend::io::SafetensorsFile file_;
};

/// The largest difference, over the largest number that was expected, or 1.
template <class T>
double difference(const std::vector<T>& got, const std::vector<double>& wanted) {
  REQUIRE(got.size() == wanted.size());
  double worst = 0, largest = 1;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    worst = std::max(worst, std::abs(static_cast<double>(got[i]) - wanted[i]));
    largest = std::max(largest, std::abs(wanted[i]));
  }
  return std::isnan(worst) ? 1 : worst / largest;
}

}  // namespace pretrained
