#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "attend/core/error.hpp"
#include "attend/core/printable.hpp"
#include "attend/pretrained/languages.hpp"
#include "attend/text/any_tokenizer.hpp"

namespace translate {

/// The languages of a model of many, on the command line: both or neither.
struct LanguageFlags {
  std::string from, to;

  /// `sources` is whose language `--from` is: "the lines".
  void add_to(CLI::App& app, const std::string& sources) {
    auto* source =
        app.add_option("--from", from, "Language of " + sources + ", for a model of many, as its tokenizer calls it: eng_Latn");
    auto* target = app.add_option("--to", to, "Language to translate into, likewise");
    source->type_name("NAME")->needs(target);
    target->type_name("NAME")->needs(source);
  }

  [[nodiscard]] bool given() const { return !to.empty(); }
  /// For pairs whose sides are swapped.
  [[nodiscard]] LanguageFlags reversed() const { return {to, from}; }

  /// The tokenizer, which is that of `folder`, in the languages that were given; as it is if none were. Throws ValueError for a
  /// language that it does not have, with those that it has.
  [[nodiscard]] attend::text::AnyTokenizer choose(const attend::text::AnyTokenizer& tokenizer, const std::string& folder) const {
    using namespace attend;
    if (!given()) return tokenizer;
    const auto names = tokenizer.languages();
    if (names.empty())
      throw ValueError("--from and --to choose languages, and the tokenizer of ", folder, " has none to choose from");
    for (const auto& [flag, name] : {std::pair("--from", from), std::pair("--to", to)}) {
      if (std::find(names.begin(), names.end(), name) != names.end()) continue;
      std::string all;
      for (const auto& known : text::nearest_first(name, names)) all += (all.empty() ? "" : ", ") + detail::printable(known);
      throw ValueError(flag, " is '", detail::printable(name), "', which is none of the ", names.size(),
                       " languages of the tokenizer of ", folder, ", expected one of ", all);
    }
    return tokenizer.with_languages(from, to);
  }
};

/// `from eng_Latn to fra_Latn`; empty for a tokenizer without languages.
inline std::string languages_text(const attend::text::AnyTokenizer& tokenizer) {
  if (tokenizer.languages().empty()) return {};
  const auto name = [](const std::string& language) { return language.empty() ? std::string("none") : language; };
  return "from " + name(tokenizer.source_language()) + " to " + name(tokenizer.target_language());
}

/// Throws ValueError if the tokenizer, that of `folder`, has languages and none was chosen for targets: these would be learnt
/// without the token that says their language, and hours later the model would be found to have lost it.
inline void check_target_language(const char* operation, const attend::text::AnyTokenizer& tokenizer, const std::string& folder) {
  const auto names = tokenizer.languages();
  attend::check_value(names.empty() || !tokenizer.target_language().empty(), operation, "the tokenizer of ", folder, " has ",
                      names.size(), " languages, and none is chosen for targets: add --from and --to, such as --from ",
                      tokenizer.source_language(), " --to ", names.back());
}

}  // namespace translate
