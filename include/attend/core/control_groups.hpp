#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>
#include <system_error>

/// What Linux says of the limits of this process.
namespace attend::detail {

/// What the system says in a small file; nothing if there is none.
inline std::string system_text(const std::string& path) {
  std::string text;
  if (std::FILE* const file = std::fopen(path.c_str(), "r")) {
    text.resize(16384);
    text.resize(std::fread(text.data(), 1, text.size(), file));
    std::fclose(file);
  }
  return text;
}

/// The number that a text begins with, after spaces; -1 if it begins with none.
inline long long number_at(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  long long n = -1;
  return std::from_chars(text.data(), text.data() + text.size(), n).ec == std::errc() ? n : -1;
}
/// The number after a name at the beginning of a line; -1 if there is none.
inline long long number_after(std::string_view text, std::string_view name) {
  for (std::size_t at = text.find(name); at != text.npos; at = text.find(name, at + 1))
    if (at == 0 || text[at - 1] == '\n') return number_at(text.substr(at + name.size()));
  return -1;
}

/// visit(folder, version) for the control groups of a process and those above them, of which `groups`, its /proc/PID/cgroup,
/// tells: those of version 2, and those of version 1 of one controller. In a container a group's name may be the one it has
/// outside, so that only the top of the folders is there; that is then the container's own.
/// Source: Linux's documentation, "Control Group v2" and "Control Groups version 1".
template <class Visit>
void for_each_group(std::string_view groups, std::string_view controller, const Visit& visit) {
  for (std::size_t begin = 0; begin < groups.size();) {
    const std::size_t end = std::min(groups.find('\n', begin), groups.size());
    const std::string_view line = groups.substr(begin, end - begin);
    begin = end + 1;
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string controllers(line.substr(first + 1, second - first - 1));
    const bool is_second = controllers.empty();
    if (!is_second && ("," + controllers + ",").find("," + std::string(controller) + ",") == std::string::npos) continue;
    const std::string top = is_second ? "/sys/fs/cgroup" : "/sys/fs/cgroup/" + std::string(controller);  // or a link of that name
    for (std::string name(line.substr(second + 1));;) {
      while (!name.empty() && name.back() == '/') name.pop_back();
      visit(top + name, is_second ? 2 : 1);
      if (name.empty()) break;
      const std::size_t slash = name.rfind('/');
      name.resize(slash == name.npos ? 0 : slash);
    }
  }
}

}  // namespace attend::detail
