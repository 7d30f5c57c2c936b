#pragma once

#include "attend/decode/translator_options.hpp"
#include "attend/nn/transformer.hpp"
#include "attend/text/any_tokenizer.hpp"

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
