#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>

#include "attend/core/error.hpp"
#include "attend/io/json.hpp"

namespace translate {

/// What the results of a command depend on, by name: options, and in place of files their fingerprints. Kept beside unfinished
/// work, so that nothing goes on with it that would have begun it otherwise.
using Making = std::map<std::string, std::string>;

/// The options that the command line has, in its words.
inline Making given_options(const CLI::App& command) {
  Making all;
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() == 0 || option->get_lnames().size() != 1) continue;
    auto& text = all["--" + option->get_lnames().front()];
    for (const auto& value : option->reduced_results()) text += (text.empty() ? "" : " ") + value;
  }
  return all;
}

/// As it stands in a file. Throws FormatError if that is no text by name.
inline Making read_making(const attend::io::JsonObject& json) {
  Making all;
  for (const auto& [key, unused] : json.json().items()) all[key] = json.get<std::string>(key);
  return all;
}

/// Throws ValueError if `begun` was begun otherwise than it would now be.
inline void check_making(const Making& then, const Making& now, const char* command, const std::string& begun) {
  using namespace attend;
  const auto value = [](const Making& making, const std::string& key) {
    const auto found = making.find(key);
    return found == making.end() ? std::string("not given") : found->second;
  };
  auto both = then;
  both.insert(now.begin(), now.end());
  for (const auto& [key, unused] : both) {
    const auto was = value(then, key), is = value(now, key);
    const bool files = key.starts_with("the file") && then.contains(key) && now.contains(key);
    check_value(!files || was == is, command, begun, " was begun with other contents of ", key);  // fingerprints say nothing
    check_value(was == is, command, begun, " was begun with ", key, " ", was, ", now it is ", is);
  }
}

}  // namespace translate
