#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attend/core/error.hpp"
#include "attend/io/file.hpp"
#include "attend/text/utf8.hpp"

namespace attend::detail {

/// A text file line by line, some at a time: without their ends (LF or CRLF) and without a byte order mark.
class TextReader {
 public:
  /// Throws IoError if the file cannot be read.
  explicit TextReader(std::filesystem::path path) : path_(std::move(path)), file_(system::open(path_, system::Open::read)) {
    if (!file_) throw_errno("read", path_);
  }

  /// The next line, good until the next call; false at the end. Throws IoError, FormatError for a line that is endless.
  bool next(std::string_view& line) {
    std::size_t end;
    while ((end = bytes_.find('\n', searched_)) == std::string::npos && !ended_) searched_ = bytes_.size(), fill();
    if (end == std::string::npos && begin_ == bytes_.size()) return false;
    const std::size_t last = std::min(end, bytes_.size());
    line = std::string_view(bytes_).substr(begin_, last - begin_);
    begin_ = searched_ = std::min(last + 1, bytes_.size());
    if (number_++ == 0 && line.starts_with("\xEF\xBB\xBF")) line.remove_prefix(3);
    if (line.ends_with('\r')) line.remove_suffix(1);
    return number_ > 1 || !line.empty() || end != std::string::npos;  // a byte order mark alone is no line
  }
  /// How many lines `next` has given.
  [[nodiscard]] std::size_t number() const { return number_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  /// Throws FormatError if the line, which is the last that was given, is not UTF-8.
  void check_utf8(const char* operation, std::string_view line) const {
    const std::size_t at = text::find_invalid_utf8(line);
    if (at == std::string_view::npos) return;
    throw FormatError(operation, ": ", path_.string(), ", line ", number_, ": byte ", at + 1, " of the line is 0x",
                      text::hexadecimal(line[at]), ", expected UTF-8");
  }

 private:
  /// A line above this is a sign of a wrong path (a disk, an endless pipe), which must not take all memory.
  static constexpr std::size_t longest = std::size_t{1} << 30;

  void fill() {
    constexpr std::size_t block = std::size_t{1} << 18;
    bytes_.erase(0, begin_);
    searched_ -= std::exchange(begin_, 0);
    const std::size_t had = bytes_.size();
    if (had > longest)
      throw FormatError("read: ", path_.string(), ", line ", number_ + 1, " has more than ", longest, " bytes, expected text");
    bytes_.resize(had + block);
    const std::ptrdiff_t n = system::read(file_.get(), bytes_.data() + had, block);
    bytes_.resize(had + static_cast<std::size_t>(std::max<std::ptrdiff_t>(n, 0)));
    if (n < 0) throw_errno("read", path_);
    ended_ = n == 0;
  }

  std::filesystem::path path_;
  Descriptor file_;
  std::string bytes_;                     // what was read and not yet given
  std::size_t begin_ = 0, searched_ = 0;  // of the next line; where the search for its end goes on
  std::size_t number_ = 0;
  bool ended_ = false;
};

}  // namespace attend::detail

namespace attend::text {

/// The lines of a text file, without their ends (LF or CRLF) and without a byte order mark, and otherwise as they are. A last
/// line need not have an end. Throws IoError if the file cannot be read, FormatError (with the line) if it is not UTF-8.
inline std::vector<std::string> read_lines(const std::filesystem::path& path) {
  detail::TextReader file(path);
  std::vector<std::string> lines;
  for (std::string_view line; file.next(line);) {
    file.check_utf8("read_lines", line);
    lines.emplace_back(line);
  }
  return lines;
}

}  // namespace attend::text
