#pragma once

#include <iostream>
#include <string>
#include <vector>

#include "attend/core/error.hpp"
#include "attend/text/utf8.hpp"

namespace translate {

/// The next line of standard input without its end (LF or CR LF); false at the end of input.
/// Throws FormatError for a line that is not UTF-8, with its number.
inline bool next_line(std::string& line, std::size_t& number) {
  if (!std::getline(std::cin, line)) return false;
  ++number;
  if (!line.empty() && line.back() == '\r') line.pop_back();
  if (number == 1 && line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3);
  if (!attend::text::is_utf8(line)) throw attend::FormatError("standard input: line " + std::to_string(number) + " is not UTF-8");
  return true;
}

/// All lines of standard input.
inline std::vector<std::string> read_standard_input() {
  std::vector<std::string> lines;
  std::string line;
  std::size_t number = 0;
  while (next_line(line, number)) lines.push_back(line);
  return lines;
}

}  // namespace translate
