#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace translate {

/// `--beam INT` and `Beam size; 1: greedy (4)` in place of CLI11's `--beam INT:INT in [1 - 1000]=4`.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_type_size() == 0) return "";  // a flag
    std::string type = option->get_type_name();
    if (const auto names = type.find('{'); names != std::string::npos) type = type.substr(names);
    else type = type.substr(0, type.find_first_of(": "));
    return " " + type;
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    const std::string preset = option->get_type_size() == 0 ? "" : option->get_default_str();
    return option->get_description() + (option->get_required() ? " (required)" : "") +
           (preset.empty() ? "" : " (" + preset + ")");
  }
};

}  // namespace translate
