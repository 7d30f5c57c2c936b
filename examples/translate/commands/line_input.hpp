#pragma once

#include <array>
#include <cerrno>
#include <cstddef>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "attend/core/error.hpp"
#include "attend/io/file.hpp"
#include "attend/text/utf8.hpp"

namespace translate {

/// Standard input or a file line by line, without the lines' ends (LF or CR LF) and without a byte order mark. Unlike std::cin it
/// can tell whether a whole line is there, and tells a folder or a closed input from an empty one.
class LineInput {
 public:
  LineInput() = default;
  /// Throws IoError if there is no such file. Empty: standard input.
  explicit LineInput(const std::string& path) {
    if (path.empty()) return;
    file_ = attend::detail::Descriptor(attend::detail::system::open(path, attend::detail::system::Open::read));
    name_ = path;
    if (!file_) fail();
  }

  /// The next line, for which it waits; false at the end of the input. What is wrong with a line (`is not UTF-8`, or that it is
  /// endless) goes into `fault`, which is empty for a good one; `line` is empty then, and the next call goes on after that line.
  /// Throws IoError if it cannot be read.
  bool next(std::string& line, std::string& fault) {
    std::size_t end;
    while ((end = newline()) == std::string::npos && !ended_) fill();
    if (end == std::string::npos && begin_ == bytes_.size() && !endless_) return false;
    line.assign(bytes_, begin_, end == std::string::npos ? end : end - begin_);
    begin_ = end == std::string::npos ? bytes_.size() : end + 1;
    searched_ = begin_;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (number_ == 0 && line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3);
    ++number_;
    fault.clear();
    if (std::exchange(endless_, false)) fault = "has more than " + std::to_string(longest) + " bytes";
    else if (!attend::text::is_utf8(line)) fault = "is not UTF-8";
    if (!fault.empty()) line.clear();
    return true;
  }
  /// The same, but that a line with a fault is a FormatError with its number.
  bool next(std::string& line) {
    std::string fault;
    if (!next(line, fault)) return false;
    if (!fault.empty()) throw attend::FormatError(name_, ": line ", number_, " ", fault);
    return true;
  }

  /// Whether `next` would answer at once: a whole line is there, or the end. So a writer who stops in mid-line keeps nobody
  /// waiting.
  [[nodiscard]] bool ready() {
    while (newline() == std::string::npos && !ended_) {
      if (!attend::detail::system::answers(descriptor())) return false;
      fill();
    }
    return true;
  }

  [[nodiscard]] int descriptor() const { return file_ ? file_.get() : 0; }
  /// What it is called in messages.
  [[nodiscard]] const std::string& name() const { return name_; }
  /// How many lines `next` has given.
  [[nodiscard]] std::size_t number() const { return number_; }

 private:
  static constexpr std::size_t longest = std::size_t{1} << 20;

  /// Where the line at `begin_` ends. Looks at each byte once.
  [[nodiscard]] std::size_t newline() {
    const std::size_t end = bytes_.find('\n', searched_);
    searched_ = end == std::string::npos ? bytes_.size() : end;
    return end;
  }
  void fill() {
    bytes_.erase(0, std::exchange(begin_, 0));
    searched_ = bytes_.size();
    if (bytes_.size() > longest) {  // what has come of the line is of no use, nor will the rest be
      endless_ = true;
      bytes_.clear();
      searched_ = 0;
    }
    std::array<char, 1 << 16> block;
    const std::ptrdiff_t n = attend::detail::system::read(descriptor(), block.data(), block.size());
    if (n < 0) fail();
    bytes_.append(block.data(), n);
    ended_ = n == 0;
  }

  [[noreturn]] void fail() const { throw attend::IoError(name_, ": ", std::generic_category().message(errno)); }

  attend::detail::Descriptor file_;  // none: standard input
  std::string name_ = "standard input";
  std::string bytes_;                     // what was read and not yet handed out
  std::size_t begin_ = 0, searched_ = 0;  // of the next line; where the search for its end goes on
  std::size_t number_ = 0;
  bool ended_ = false, endless_ = false;  // the input; the next line
};

/// All lines of standard input. Throws as `LineInput::next` does.
inline std::vector<std::string> read_standard_input() {
  LineInput input;
  std::vector<std::string> lines;
  for (std::string line; input.next(line);) lines.push_back(line);
  return lines;
}

}  // namespace translate
