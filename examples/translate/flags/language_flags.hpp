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

/// The languages of a model of many, on the command line: both or neither, or `--to` alone if sources do not say theirs.
struct LanguageFlags {
  std::string from, to;

  /// `sources` is whose language `--from` is: "the lines".
  void add_to(CLI::App& app, const std::string& sources) {
    auto* source =
        app.add_option("--from", from, "Language of " + sources + ", for a model of many, as its tokenizer calls it: eng_Latn");
    auto* target = app.add_option("--to", to, "Language to translate into, likewise");
    source->type_name("NAME")->needs(target);
    target->type_name("NAME");
  }

  [[nodiscard]] bool given() const { return !to.empty(); }
  /// For pairs whose sides are swapped. Throws ValueError if the sources' language is not known, which is then the targets'.
  [[nodiscard]] LanguageFlags reversed() const {
    if (given() && from.empty()) throw attend::ValueError("--reverse turns --from and --to around, and there is no --from");
    return {to, from};
  }

  /// The tokenizer, which is that of `folder`, in the languages that were given; as it is if none were. Throws CLI::RequiresError
  /// if `--from` is missing and sources say their language, ValueError for a language that it does not have, with those that it
  /// has.
  [[nodiscard]] attend::text::AnyTokenizer choose(const attend::text::AnyTokenizer& tokenizer, const std::string& folder) const {
    using namespace attend;
    if (!given()) return tokenizer;
    const auto names = tokenizer.languages();
    if (names.empty())
      throw ValueError("--from and --to choose languages, and the tokenizer of ", folder, " has none to choose from");
    if (from.empty() && !tokenizer.source_language().empty()) throw CLI::RequiresError("--to", "--from");
    for (const auto& [flag, name] : {std::pair("--from", from), std::pair("--to", to)}) {
      if (name.empty() || std::find(names.begin(), names.end(), name) != names.end()) continue;
      std::string all;
      for (const auto& known : text::nearest_first(name, names)) all += (all.empty() ? "" : ", ") + detail::printable(known);
      throw ValueError(flag, " is '", detail::printable(name), "', which is none of the ", names.size(),
                       " languages of the tokenizer of ", folder, ", expected one of ", all);
    }
    return tokenizer.with_languages(from, to);
  }
};

/// `from eng_Latn to fra_Latn`, `to de` where sources have none; empty for a tokenizer without languages.
inline std::string languages_text(const attend::text::AnyTokenizer& tokenizer) {
  if (tokenizer.languages().empty()) return {};
  const std::string from = tokenizer.source_language(), to = tokenizer.target_language();
  return (from.empty() ? "" : "from " + from + " ") + "to " + (to.empty() ? "none" : to);
}

/// Whether the tokenizer has languages and nothing says which one targets are in: neither a choice nor, where sources have no
/// language either, their text.
inline bool lacks_target_language(const attend::text::AnyTokenizer& tokenizer) {
  return !tokenizer.languages().empty() && tokenizer.target_language().empty() && !tokenizer.source_language().empty();
}

/// What would say it, for example.
inline std::string example_languages(const attend::text::AnyTokenizer& tokenizer) {
  return "--from " + tokenizer.source_language() + " --to " + tokenizer.languages().back();
}

/// Throws ValueError in that case: targets would be learnt without the token that says their language, and hours later the model
/// would be found to have lost it. The tokenizer is that of `folder`.
inline void check_target_language(const char* operation, const attend::text::AnyTokenizer& tokenizer, const std::string& folder) {
  if (lacks_target_language(tokenizer))
    throw attend::ValueError(operation, ": the tokenizer of ", folder, " has ", tokenizer.languages().size(),
                             " languages, and none is chosen for targets: add --from and --to, such as ",
                             example_languages(tokenizer));
}

}  // namespace translate
