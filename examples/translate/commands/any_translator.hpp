#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "attend/text/any_tokenizer.hpp"
#include "attend/translate/translator_options.hpp"
#include "flags/language_flags.hpp"
#include "flags/place.hpp"
#include "flags/search_flags.hpp"

namespace translate {

/// A decode::Translator on whatever device and in whatever precision the command line chose.
class AnyTranslator {
 public:
  using Lists = std::vector<std::vector<attend::decode::Translation>>;
  using Strings = std::span<const std::string>;
  virtual ~AnyTranslator() = default;
  [[nodiscard]] virtual Lists translate(Strings sentences, std::size_t before, Strings prefixes) const = 0;
  [[nodiscard]] virtual std::vector<attend::decode::Translation> score(Strings sources, Strings targets,
                                                                       std::size_t before) const = 0;
  [[nodiscard]] virtual std::vector<attend::decode::Translation> alternatives(const std::string& sentence,
                                                                              const std::string& prefix, attend::index_t count,
                                                                              std::size_t before) const = 0;
  /// The names of a translation's tokens, and of its end if it is finished.
  [[nodiscard]] virtual std::vector<std::string> pieces(const attend::decode::Translation& translation) const = 0;
};

/// The model or models of a command, and where they work.
struct ModelsFlags {
  std::vector<std::string> folders;
  std::string shortlist;
  LanguageFlags languages;
  Place place;

  void add_to(CLI::App& app) {
    app.add_option(
           "--model", folders,
           "Folder of a model, of a translation model of Hugging Face, or the --out of a training, whose best model it then "
           "is. Given again: an ensemble")
        ->type_name("FOLDER")
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->allow_extra_args(false)
        ->required();
    languages.add_to(app, "the lines");
    place.add_to(app, true);
  }
};

/// Whether two tokenizers give the same tokens the same meaning.
bool are_alike(const attend::text::AnyTokenizer& a, const attend::text::AnyTokenizer& b);

/// Loads the models. What the first of them says about its search counts unless the command line says otherwise; `adjust` has the
/// last word. Throws ValueError if tokenizers, vocabularies or options do not go together, and whatever loading throws.
std::unique_ptr<AnyTranslator> make_translator(const ModelsFlags& models, const SearchFlags& search,
                                               const std::function<void(attend::decode::TranslatorOptions&)>& adjust);

}  // namespace translate
