#include "attend/nn/quantized.hpp"

#include <memory>

#include "attend/translate/translator.hpp"
#include "catch.hpp"
#include "decode/swapping.hpp"

using namespace attend;
using swapping::SpacedLetters;

namespace {

/// A model whose embeddings lose nothing in 8 bits.
nn::Transformer<float> exact_model() {
  auto m = swapping::model(0.8f);
  for (const auto* table : {&m.encoder.embed_tokens->weight, &m.decoder.embed_tokens->weight})
    for (float& value : table->value().span()) value *= 127.0f / 128;
  return m;
}

}  // namespace

TEST_CASE("Translator: a model of 8-bit integers translates and scores with the bits of its floats in int8, and aligns alike") {
  const auto floats = exact_model(), quantized = exact_model();
  nn::quantize(quantized);
  const std::vector<std::string> sentences{"c a f e", "h g f e d", "a b"}, targets{"a c f e", "g h", "b a"};
  for (const index_t beam : {1, 3}) {
    decode::TranslatorOptions options{.beam = beam, .alignments = true};
    const decode::Translator got(quantized, SpacedLetters{}, options);
    options.precision = Precision::int8;
    const decode::Translator expected(floats, SpacedLetters{}, options);
    const auto a = got.translate(sentences), b = expected.translate(sentences);
    const auto c = got.score(sentences, targets), d = expected.score(sentences, targets);
    for (std::size_t i = 0; i < sentences.size(); ++i) {
      CHECK(a[i].front().text == b[i].front().text);
      CHECK(a[i].front().token_log_probabilities == b[i].front().token_log_probabilities);
      CHECK(a[i].front().alignment == b[i].front().alignment);
      CHECK(c[i].token_log_probabilities == d[i].token_log_probabilities);
    }
    CHECK(got("c a f e") == "a c f e");
  }
  CHECK_THROWS_WITH(decode::Translator(quantized, SpacedLetters{}, {.precision = Precision::bf16}),
                    Catch::Matchers::ContainsSubstring("the precision is bf16, and the model is of 8-bit integers"));
}

TEST_CASE("Translator: models in floats and in 8-bit integers go together") {
  const auto floats = exact_model(), quantized = exact_model();
  nn::quantize(quantized);
  const decode::Translator both(std::vector{floats, quantized}, SpacedLetters{}, {.beam = 2});
  CHECK(both("c a f e") == "a c f e");
}
