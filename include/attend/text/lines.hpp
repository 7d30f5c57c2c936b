#pragma once

#include <algorithm>
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

/// Text files above this are refused, so that a wrong path (a disk, an endless pipe) cannot take all memory.
inline constexpr std::size_t max_text_file = std::size_t{1} << 33;

/// A text file in memory, and its lines: without their ends (LF or CRLF) and without a byte order mark.
struct TextFile {
  std::filesystem::path path;
  std::string bytes;
  std::vector<std::string_view> lines;  // into `bytes`, so a TextFile stays where it is

  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;
  explicit TextFile(std::filesystem::path from) : path(std::move(from)), bytes(io::read_file(path, max_text_file)) {
    std::string_view rest = bytes;
    if (rest.substr(0, 3) == "\xEF\xBB\xBF") rest.remove_prefix(3);
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      std::string_view line = rest.substr(0, end);
      if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
      lines.push_back(line);
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }

  /// Throws FormatError if line `i`, counted from 0, is not UTF-8.
  void check_utf8(const char* operation, std::size_t i) const {
    const std::size_t at = text::find_invalid_utf8(lines[i]);
    if (at == std::string_view::npos) return;
    throw FormatError(operation, ": ", path.string(), ", line ", i + 1, ": byte ", at + 1, " of the line is 0x",
                      text::hexadecimal(lines[i][at]), ", expected UTF-8");
  }
};

}  // namespace attend::detail

namespace attend::text {

/// The lines of a text file, without their ends (LF or CRLF) and without a byte order mark, and otherwise as they are. A last
/// line need not have an end. Throws IoError if the file cannot be read, FormatError (with the line) where it is not UTF-8.
inline std::vector<std::string> read_lines(const std::filesystem::path& path) {
  const detail::TextFile file(path);
  std::vector<std::string> lines;
  lines.reserve(file.lines.size());
  for (std::size_t i = 0; i < file.lines.size(); ++i) {
    file.check_utf8("read_lines", i);
    lines.emplace_back(file.lines[i]);
  }
  return lines;
}

}  // namespace attend::text
