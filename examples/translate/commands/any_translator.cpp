#include "any_translator.hpp"

#include <concepts>
#include <cstdio>
#include <string>
#include <utility>

#include "attend/load.hpp"
#include "attend/translate/shortlist.hpp"
#include "attend/translate/translator.hpp"
#include "model_memory.hpp"

namespace translate {

namespace {

using namespace attend;

decode::Shortlist load_shortlist(const std::string& path, const text::AnyTokenizer& tokenizer) {
  auto list = decode::Shortlist::load(path);
  if (list.source_vocabulary() != tokenizer.size() || list.target_vocabulary() != tokenizer.target_size())
    throw ValueError("--shortlist ", path, " is for vocabularies of ", list.source_vocabulary(), " and ",
                     list.target_vocabulary(), ", the model's tokenizer has ", tokenizer.size(), " and ",
                     tokenizer.target_size());
  return list;
}

template <class T, Device D>
class TranslatorOn final : public AnyTranslator {
 public:
  explicit TranslatorOn(decode::Translator<text::AnyTokenizer, T, D> translator) : translator_(std::move(translator)) {}
  [[nodiscard]] Lists translate(Strings sentences, std::size_t before, Strings prefixes) const override {
    return translator_.translate(sentences, before, prefixes);
  }
  [[nodiscard]] std::vector<decode::Translation> score(Strings sources, Strings targets, std::size_t before) const override {
    return translator_.score(sources, targets, before);
  }
  [[nodiscard]] std::vector<decode::Translation> alternatives(const std::string& sentence, const std::string& prefix,
                                                              index_t count, std::size_t before) const override {
    return translator_.alternatives(sentence, prefix, count, before);
  }
  [[nodiscard]] std::vector<std::string> pieces(const decode::Translation& translation) const override {
    auto names = translator_.pieces(translation.tokens);
    if (translation.token_log_probabilities.size() > names.size())
      names.push_back(translator_.tokenizer().target_piece(translation.end_token));
    return names;
  }

 private:
  decode::Translator<text::AnyTokenizer, T, D> translator_;
};

template <class T, Device D>
std::unique_ptr<AnyTranslator> make(const ModelsFlags& flags, const SearchFlags& search,
                                    const std::function<void(decode::TranslatorOptions&)>& adjust) {
  if constexpr (std::same_as<D, Cpu>) check_memory(flags.folders, flags.place.products());
  const io::LoadFor purpose(flags.place.products());
  auto first = load<T, D>(flags.folders.front());
  first.tokenizer = flags.languages.choose(first.tokenizer, flags.folders.front());
  std::vector<nn::Transformer<T, D>> models{first.model};
  for (std::size_t m = 1; m < flags.folders.size(); ++m) {
    auto next = load<T, D>(flags.folders[m]);
    if (!are_alike(first.tokenizer, flags.languages.choose(next.tokenizer, flags.folders[m])))
      throw ValueError("--model ", flags.folders[m], " has another tokenizer than ", flags.folders.front(),
                       ", and an ensemble needs the same");
    models.push_back(std::move(next.model));
  }
  auto options = search.over(std::move(first.search));
  options.precision = flags.place.products();
  if (!flags.shortlist.empty()) options.shortlist = load_shortlist(flags.shortlist, first.tokenizer);
  adjust(options);
  if (lacks_target_language(first.tokenizer) && options.first < 0)
    std::fprintf(
        stderr,
        "translate: nothing says which of its %zu languages the model is to translate into: add --from and --to, such as "
        "%s\n",
        first.tokenizer.languages().size(), example_languages(first.tokenizer).c_str());
  auto made = std::make_unique<TranslatorOn<T, D>>(
      decode::Translator<text::AnyTokenizer, T, D>(models, std::move(first.tokenizer), options));
  if (options.precision == Precision::bf16 && !bf16_is_fast())
    std::fprintf(stderr, "translate: this processor has no fast instructions for bf16, which takes longer here than float32\n");
  return made;
}

}  // namespace

bool are_alike(const text::AnyTokenizer& a, const text::AnyTokenizer& b) {
  if (a.size() != b.size() || a.target_size() != b.target_size() || a.bos() != b.bos() || a.eos() != b.eos() ||
      a.pad() != b.pad() || a.unk() != b.unk() || a.forced_begin() != b.forced_begin() || a.source_end() != b.source_end() ||
      a.encode("a") != b.encode("a"))
    return false;
  for (token_t t = 0; t < static_cast<token_t>(a.size()); ++t)
    if (a.piece(t) != b.piece(t)) return false;
  for (token_t t = 0; t < static_cast<token_t>(a.target_size()); ++t)
    if (a.target_piece(t) != b.target_piece(t)) return false;
  return true;
}

std::unique_ptr<AnyTranslator> make_translator(const ModelsFlags& models, const SearchFlags& search,
                                               const std::function<void(decode::TranslatorOptions&)>& adjust) {
  return models.place.with_types(
      [&](auto types) { return make<typename decltype(types)::T, typename decltype(types)::D>(models, search, adjust); });
}

}  // namespace translate
