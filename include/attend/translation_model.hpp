#pragma once

#include "attend/nn/transformer.hpp"
#include "attend/text/any_tokenizer.hpp"
#include "attend/translate/translator_options.hpp"

namespace attend {

/// All that translation needs: the model, its tokenizer, and how its makers would have it searched.
///
///     const auto m = attend::load("opus-mt-en-de");
///     const decode::Translator translator(m.model, m.tokenizer, m.search);
template <class T = float, Device D = Cpu>
struct TranslationModel {
  nn::Transformer<T, D> model;
  text::AnyTokenizer tokenizer;
  decode::TranslatorOptions search = {};
};

}  // namespace attend
