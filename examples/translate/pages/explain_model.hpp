#pragma once

#include <memory>
#include <string>
#include <vector>

#include "attend/nn/transformer_options.hpp"
#include "attend/text/any_tokenizer.hpp"
#include "attend/translate/translator_options.hpp"
#include "attention.hpp"
#include "flags/language_flags.hpp"
#include "flags/place.hpp"

namespace translate {

/// A model that `explain` asks, on whatever device and in whatever precision the command line chose.
class ExplainedModel {
 public:
  using Options = attend::decode::TranslatorOptions;
  using Tokens = std::vector<attend::token_t>;
  virtual ~ExplainedModel() = default;
  [[nodiscard]] virtual const attend::text::AnyTokenizer& tokenizer() const = 0;
  [[nodiscard]] virtual const attend::nn::ModelOptions& sizes() const = 0;
  /// How its makers would have it searched, in the precision that was chosen.
  [[nodiscard]] virtual const Options& search() const = 0;
  /// The translations of one sentence.
  [[nodiscard]] virtual std::vector<attend::decode::Translation> translate(const std::string& sentence,
                                                                           const Options& options) const = 0;
  /// What it looks at while it reads a target; see `translate::look`.
  [[nodiscard]] virtual Looks look(const Tokens& source, const Tokens& inputs) const = 0;
};

/// Throws what `LanguageFlags::choose`, `Place::with_types` and loading throw.
std::unique_ptr<ExplainedModel> load_explained(const std::string& folder, const LanguageFlags& languages, const Place& place);

}  // namespace translate
