#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

/// Looking into the pages that the program writes.

inline std::size_t count(std::string_view text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) ++found;
  return found;
}
inline bool has(std::string_view text, std::string_view part) { return count(text, part) != 0; }

/// What stands between two texts, the first of which comes after `from`.
inline std::string between(const std::string& text, const std::string& before, const std::string& after, std::size_t from = 0) {
  const std::size_t begin = text.find(before, from);
  if (begin == text.npos) throw std::runtime_error("no " + before);
  return text.substr(begin + before.size(), text.find(after, begin + before.size()) - begin - before.size());
}

/// The first tag that closes what is not open, or is left open; empty if all match. A script's text is no markup.
inline std::string unbalanced(std::string page) {
  static const std::set<std::string> single = {"meta", "!DOCTYPE", "input"};
  const std::size_t script = page.find("<script>");
  if (script != page.npos) page.erase(script + 8, page.find("</script>") - script - 8);
  std::vector<std::string> open;
  for (std::size_t at = page.find('<'); at != page.npos; at = page.find('<', at + 1)) {
    const std::size_t end = page.find('>', at);
    if (end == page.npos) return page.substr(at, 20);
    const std::string tag = page.substr(at + 1, end - at - 1), name = tag.substr(0, tag.find_first_of(" \n"));
    if (tag.back() == '/' || single.count(name) != 0) continue;
    if (name[0] != '/') {
      open.push_back(name);
    } else {
      if (open.empty() || '/' + open.back() != name) return tag;
      open.pop_back();
    }
  }
  return open.empty() ? "" : open.back();
}

inline std::string from_base64(std::string_view text) {
  std::string bytes;
  std::uint32_t bits = 0;
  int have = 0;
  for (const char c : text) {
    if (c == '=') break;
    const int value = c >= 'a' ? c - 'a' + 26 : c >= 'A' ? c - 'A' : c >= '0' ? c - '0' + 52 : c == '+' ? 62 : 63;
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    if ((have += 6) >= 8) bytes += static_cast<char>(bits >> (have -= 8) & 0xFF);
  }
  return bytes;
}

/// The weights that a picture of the page holds, read as any reader of PNG files would.
inline std::vector<double> weights_in(const std::string& page, const std::string& id) {
  const std::string png = from_base64(between(page, "base64,", "\"", page.find("<image id=\"" + id + "\"")));
  const auto byte = [&](std::size_t at) { return static_cast<std::uint32_t>(static_cast<unsigned char>(png.at(at))); };
  const auto number = [&](std::size_t at) { return byte(at) << 24 | byte(at + 1) << 16 | byte(at + 2) << 8 | byte(at + 3); };
  const std::size_t width = number(16), height = number(20), wide = byte(24) / 8;
  std::string rows;
  for (std::size_t at = 43, last = 0; last == 0;) {
    last = byte(at);
    const std::size_t size = byte(at + 1) | byte(at + 2) << 8;
    rows += png.substr(at + 5, size);
    at += 5 + size;
  }
  if (rows.size() != height * (1 + width * wide)) throw std::runtime_error("the picture " + id + " has another size");
  std::vector<double> weights;
  for (std::size_t i = 0; i < width * height; ++i) {
    const std::size_t at = i / width * (1 + width * wide) + 1 + i % width * wide;
    const auto high = static_cast<unsigned char>(rows.at(at));
    const double grey = wide == 2 ? (high * 256 + static_cast<unsigned char>(rows.at(at + 1))) / 65535.0 : high / 255.0;
    weights.push_back(grey * grey);
  }
  return weights;
}
