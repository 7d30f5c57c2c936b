#include "explain_model.hpp"

#include <concepts>
#include <string>
#include <utility>
#include <vector>

#include "attend/decode/transformer.hpp"
#include "attend/load.hpp"
#include "attend/translate/translator.hpp"
#include "commands/model_memory.hpp"

namespace translate {

namespace {

using namespace attend;

template <class T, Device D>
class ExplainedModelOn final : public ExplainedModel {
 public:
  ExplainedModelOn(TranslationModel<T, D> loaded, Precision precision)
      : loaded_(std::move(loaded)), model_(loaded_.model, precision) {
    loaded_.search.precision = precision;
  }
  [[nodiscard]] const text::AnyTokenizer& tokenizer() const override { return loaded_.tokenizer; }
  [[nodiscard]] const nn::ModelOptions& sizes() const override { return loaded_.model.options; }
  [[nodiscard]] const Options& search() const override { return loaded_.search; }
  [[nodiscard]] std::vector<decode::Translation> translate(const std::string& sentence, const Options& options) const override {
    const decode::Translator<text::AnyTokenizer, T, D> translator(loaded_.model, loaded_.tokenizer, options);
    return translator.translate({&sentence, 1}).front();
  }
  [[nodiscard]] Looks look(const Tokens& source, const Tokens& inputs) const override {
    return model_.evaluate([&](nn::Transformer<T, D> model) { return translate::look(model, source, inputs); });
  }

 private:
  TranslationModel<T, D> loaded_;
  decode::TransformerModel<T, D> model_;  // the same weights
};

}  // namespace

std::unique_ptr<ExplainedModel> load_explained(const std::string& folder, const LanguageFlags& languages, const Place& place) {
  return place.with_types([&](auto types) -> std::unique_ptr<ExplainedModel> {
    using T = typename decltype(types)::T;
    using D = typename decltype(types)::D;
    if constexpr (std::same_as<D, Cpu>) check_memory(std::vector<std::string>{folder}, place.products());
    auto loaded = load<T, D>(folder);
    loaded.tokenizer = languages.choose(loaded.tokenizer, folder);
    return std::make_unique<ExplainedModelOn<T, D>>(std::move(loaded), place.products());
  });
}

}  // namespace translate
