#pragma once

#include <cstddef>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "attend/core/error.hpp"
#include "attend/core/printable.hpp"
#include "attend/core/standard.hpp"
#include "attend/io/file.hpp"
#include "attend/io/json.hpp"

// How JSON is parsed and written: part of json.hpp, and of compiled.cpp where a program has that.

namespace attend::detail {

ATTEND_INLINE std::string json_fault(std::string_view what) {
  if (const std::size_t end = what.find("] "); what.starts_with('[') && end != what.npos) what.remove_prefix(end + 2);
  return printable(what.substr(0, what.find("; last read")));
}

ATTEND_INLINE std::string json_quoted(const char* operation, const std::string& text) {
  try {
    return io::Json(text).dump();
  } catch (const io::Json::exception&) {
    throw ValueError(operation, ": a string of ", text.size(), " bytes is not UTF-8");
  }
}

ATTEND_INLINE std::string json_excerpt(const io::Json& value) {
  if (value.is_structured()) return std::string(value.is_array() ? "an array" : "an object");
  return printable(value.dump(-1, ' ', false, io::Json::error_handler_t::replace));
}

}  // namespace attend::detail

namespace attend::io {

ATTEND_INLINE Json parse_json(std::string_view text, const std::string& name) {
  constexpr int deepest = 100;
  if (text.find('\0') != text.npos) throw FormatError(name, ": has a zero byte, expected JSON");
  std::vector<std::set<std::string>> keys;  // of each open object and array
  const auto check = [&](int, Json::parse_event_t event, Json& parsed) {
    using Event = Json::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) {
      keys.emplace_back();
      if (keys.size() > deepest) throw FormatError(name, ": is nested more than ", deepest, " deep");
    } else if (event == Event::object_end || event == Event::array_end) {
      keys.pop_back();
    } else if (event == Event::key && !keys.back().insert(parsed.get_ref<const std::string&>()).second) {
      throw FormatError(name, ": has the key ", detail::json_excerpt(parsed), " twice in one object");
    }
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), check);
  } catch (const Json::exception& error) {
    throw FormatError(name, ": ", detail::json_fault(error.what()));
  }
}

ATTEND_INLINE void write_json(const std::filesystem::path& path, const Json& value) {
  std::string text;
  try {
    text = value.dump(2) + "\n";
  } catch (const Json::exception& error) {
    throw ValueError("write: ", path.string(), ": ", detail::json_fault(error.what()));
  }
  write_file_atomically(path, text);
}

}  // namespace attend::io
