#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

/// The report of a training run as one HTML page that needs nothing else: no network, no script.
namespace report {

/// A number that is not known is NaN and left out.
inline constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

/// Training at one moment.
struct CurvePoint {
  std::int64_t step = 0;    ///< updates done
  double seconds = 0;       ///< since training began
  std::int64_t tokens = 0;  ///< target tokens seen
  double train_loss = 0;    ///< per target token, mean since the point before
  double learning_rate = 0;
};

/// One validation.
struct ValidationPoint {
  std::int64_t step = 0;
  double seconds = 0;
  double loss = unknown;
  double bleu = unknown;  ///< 0 to 100
};

/// How much each target piece looked at each source piece.
struct AttentionMap {
  std::vector<std::string> source = {}, target = {};  ///< pieces; sentencepiece's ▁ stands for a space
  std::vector<std::vector<float>> weights = {};       ///< [target, source], 0 to 1
  std::string title = {};                             ///< "Layer 1, mean of 4 heads"
};

/// What the model made of one sentence as training went on.
struct Progress {
  struct Output {
    std::int64_t step = 0;
    std::string text = {};
  };
  std::string source = {}, reference = {};
  std::vector<Output> outputs = {};
};

/// One sentence at the end of training.
struct Translation {
  std::string source = {}, reference = {}, output = {};
};

struct Setting {
  std::string name = {}, value = {};
};

struct ReportData {
  std::string title = "Training report";
  std::string subtitle = {};           ///< one sentence about what was trained on what
  std::vector<Setting> settings = {};  ///< of model and training, in the order to show them
  std::int64_t parameters = 0;         ///< numbers that the model has learnt
  std::int64_t train_pairs = 0, validation_pairs = 0, test_pairs = 0;
  double seconds = unknown;  ///< of training
  double tokens_per_second = unknown;
  double bleu = unknown;  ///< on the test pairs, 0 to 100
  std::vector<CurvePoint> curve = {};
  std::vector<ValidationPoint> validations = {};
  std::vector<AttentionMap> attention = {};  ///< of one sentence, laid side by side
  std::vector<Progress> progress = {};
  std::vector<Translation> translations = {};
};

/// The page as HTML. Text that is not UTF-8 shows U+FFFD. Throws ValueError if an attention map's weights are not of its
/// pieces' sizes.
std::string html(const ReportData& data);

/// Writes the page; the file that was there before is lost only once the new one is whole. Throws IoError as well.
void write_report(const std::filesystem::path& path, const ReportData& data);

}  // namespace report
