#pragma once

#include <cmath>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <system_error>

#include "attend/core/number_text.hpp"
#include "attend/core/shape.hpp"
#include "attend/io/append_file.hpp"
#include "attend/train/report.hpp"

namespace attend::train {

/// Target tokens a second from one point of a curve to the next, over the time that passed; NaN if none did.
inline double tokens_per_second(const CurvePoint& before, const CurvePoint& now) {
  const double seconds = now.seconds - before.seconds;
  return seconds > 0 ? static_cast<double>(now.tokens - before.tokens) / seconds : std::nan("");
}

/// The curve of a training as a CSV file (RFC 4180, but lines end as usual here): a row for each point and each validation, in
/// the order of the steps; what a row has no value for is empty.
class CurveCsv {
 public:
  /// The first line.
  static constexpr const char* header =
      "step,epoch,seconds,tokens,train_loss,learning_rate,gradient_norm,tokens_per_second,"
      "validation_loss,validation_bleu,best\n";

  /// Replaces the file at `path` by one with these rows. Throws ValueError for a file that is not such a curve, and so may be
  /// anything of the user's; IoError. An old file is then as it was.
  CurveCsv(const std::filesystem::path& path, std::span<const CurvePoint> curve, std::span<const ValidationPoint> validations)
      : file_(begin(path, curve, validations)), before_(curve.empty() ? CurvePoint{} : curve.back()) {}

  /// Appends a row. Throws IoError.
  void add(const CurvePoint& point) {
    file_.write(row(before_, point));
    before_ = point;
  }
  void add(const ValidationPoint& point) { file_.write(row(point)); }

 private:
  static std::filesystem::path begin(const std::filesystem::path& path, std::span<const CurvePoint> curve,
                                     std::span<const ValidationPoint> validations) {
    check_is_curve(path);
    std::string text = header;
    CurvePoint before{};
    const auto add_validations = [&](auto&& wanted) {
      for (; !validations.empty() && wanted(validations.front().step); validations = validations.subspan(1))
        text += row(validations.front());
    };
    for (const CurvePoint& point : curve) {
      add_validations([&](index_t step) { return step < point.step; });
      text += row(before, point);
      before = point;
    }
    add_validations([](index_t) { return true; });
    std::error_code error;
    std::filesystem::create_directories(attend::detail::folder_of(path), error);  // if it fails, writing says why
    io::write_file_atomically(path, text);
    return path;
  }

  static void check_is_curve(const std::filesystem::path& path) {
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(path, ignored)) return;
    std::string line;
    std::getline(std::ifstream(path), line);
    check_value(line.empty() || line + "\n" == header, "write", path.string(),
                " is no curve of a training and would be lost: it begins with `", line.substr(0, 40),
                "`, expected `step,epoch,...`");
  }

  /// Infinity is written as `inf`; NaN, a missing value, as nothing.
  static std::string cell(double x) { return std::isnan(x) ? std::string() : number_text(x); }
  static std::string row(const CurvePoint& before, const CurvePoint& p) {
    return number_text(p.step) + "," + cell(p.epoch) + "," + cell(p.seconds) + "," + number_text(p.tokens) + "," + cell(p.loss) +
           "," + cell(p.learning_rate) + "," + cell(p.gradient_norm) + "," + cell(tokens_per_second(before, p)) + ",,,\n";
  }
  static std::string row(const ValidationPoint& p) {
    return number_text(p.step) + ",," + cell(p.seconds) + ",,,,,," + cell(p.loss) + "," + cell(p.bleu) + "," +
           (p.best ? "1" : "0") + "\n";
  }

  io::AppendFile file_;
  CurvePoint before_;
};

}  // namespace attend::train
