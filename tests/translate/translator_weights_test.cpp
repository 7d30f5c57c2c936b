#include "attend/translate/translator.hpp"
#include "catch.hpp"
#include "decode/swapping.hpp"

using namespace attend;
using swapping::SpacedLetters;

namespace {

const std::vector<std::string> sentences{"c a f e", "h g f e d", "a b"};

}  // namespace

// A matrix packed for an earlier translation must not stand beside an embedding or a norm that is read as it is.
TEST_CASE("a translator uses weights that were written by hand") {
  for (const auto precision : {Precision::full, Precision::bf16, Precision::int8}) {
    const auto model = swapping::model(0.8f);
    const decode::TranslatorOptions options{.beam = 2, .precision = precision};
    const decode::Translator translator(model, SpacedLetters{}, options);
    auto before = translator.translate(sentences);
    for (int step = 1; step <= 3; ++step) {
      for (const auto& p : nn::parameters(model))
        for (float& value : p.value().span()) value *= step % 2 == 0 ? 1.25f : 0.75f;
      const auto now = translator.translate(sentences);
      const auto expected = decode::Translator(model, SpacedLetters{}, options).translate(sentences);
      bool differs = false;
      for (std::size_t i = 0; i < sentences.size(); ++i) {
        CHECK(now[i].front().tokens == expected[i].front().tokens);
        CHECK(now[i].front().token_log_probabilities == expected[i].front().token_log_probabilities);
        differs = differs || now[i].front().log_probability != before[i].front().log_probability;
      }
      CHECK(differs);
      before = now;
    }
  }
}
