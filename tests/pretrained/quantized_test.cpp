#include "attend/nn/quantized.hpp"

#include <string>
#include <vector>

#include "attend/load.hpp"
#include "attend/translate/translator.hpp"
#include "make_folder.hpp"
#include "pretrained_data.hpp"
#include "temporary_folder.hpp"

using namespace attend;

TEST_CASE("pretrained: a model of every family may be of 8-bit integers, in a folder of this library") {
  const TemporaryFolder folder;
  for (const auto& name : pretrained::models()) {
    INFO(name);
    const auto m = io::load_pretrained(pretrained::data() / name);
    io::save(folder / name, m.model, {.quantized = true});
    const auto loaded = io::load_model(folder / name);
    CHECK(nn::is_quantized(loaded));
    nn::quantize(m.model);
    const auto source = Tensor<token_t>({3}, {3, 4, 5});
    const auto step = [&](const nn::Transformer<float>& model) {
      const decode::TransformerModel<float> steps(model);
      auto state = steps.begin(source, Segments::ragged({3}));
      return steps.step(state, std::vector<token_t>{2}).values();
    };
    CHECK(step(loaded) == step(m.model));
    CHECK_THROWS_AS(io::save_pretrained(folder / "theirs", m), ValueError);
    CHECK_FALSE(std::filesystem::exists(folder / "theirs"));
  }
  const auto m = io::load_pretrained(pretrained::data() / pretrained::models().front());
  CHECK_THROWS_WITH(io::save_pretrained(folder / "theirs", m, {.quantized = true}),
                    "save_pretrained: 8-bit integers are for folders of this library; see io::save");
}

TEST_CASE("pretrained: in 8-bit integers a model translates with its tokenizer, its search and the languages that it had") {
  const TemporaryFolder folder;
  pretrained::make(folder / "nllb", "m2m_100", "nllb");
  pretrained::make(folder / "t5", "t5", "t5", {{"decoder_start_token_id", 0}});
  for (const std::string name : {"nllb", "t5"}) {
    const auto m = load(folder / name);
    const auto own = folder / (name + "-8");
    io::save(own, m.model, m.tokenizer, {.quantized = true});
    decode::save_search(own, m.search);
    const auto loaded = load(own);
    nn::quantize(m.model);
    CHECK(loaded.search.beam == m.search.beam);
    CHECK(loaded.tokenizer.languages() == m.tokenizer.languages());
    const auto translated = [&](const TranslationModel<float>& with) {
      const auto names = with.tokenizer.languages();
      const auto tokenizer = names.empty() ? with.tokenizer : with.tokenizer.with_languages(names.front(), names.back());
      const auto one =
          decode::Translator(with.model, tokenizer, with.search).translate(std::vector<std::string>{"the green house"});
      return std::pair(one.front().front().text, one.front().front().log_probability);
    };
    CHECK(translated(loaded) == translated(m));
  }
}

TEST_CASE("pretrained: loaded for int8, a model of every family is of 8-bit integers where it is read, and computes the same") {
  const auto source = Tensor<token_t>({3}, {3, 4, 5});
  const auto step = [&](const nn::Transformer<float>& model, Precision precision = Precision::int8) {
    const decode::TransformerModel<float> steps(model, {.precision = precision});
    auto state = steps.begin(source, Segments::ragged({3}));
    return steps.step(state, std::vector<token_t>{2}).values();
  };
  for (const auto& name : pretrained::models()) {
    INFO(name);
    const auto folder = pretrained::data() / name;
    const auto floats = io::load_pretrained(folder).model;
    CHECK_FALSE(nn::is_quantized(floats));
    const io::LoadFor purpose(Precision::int8);
    const auto loaded = io::load_pretrained(folder).model;
    for (const auto& p : nn::product_parameters(loaded)) CHECK(p.value().quantized());
    for (const auto* embedding : {&loaded.encoder.embed_tokens->weight, &loaded.decoder.embed_tokens->weight})
      CHECK_FALSE(embedding->value().quantized());
    CHECK(step(loaded) == step(floats));
    {
      const io::MapFrom all(1);  // what the file has as it is needed takes no memory of its own
      const auto mapped = io::load_pretrained(folder).model;
      for (const auto& p : nn::product_parameters(mapped)) CHECK((p.value().quantized() != nullptr) != p.value().is_mapped());
      CHECK(step(mapped) == step(floats));
    }
    for (const auto other : {Precision::full, Precision::bf16}) {
      const io::LoadFor another(other);
      const auto model = io::load_pretrained(folder).model;
      CHECK_FALSE(nn::is_quantized(model));
      for (const auto& p : nn::product_parameters(model))
        CHECK((p.value().in_bfloat16() != nullptr) == (other == Precision::bf16));
      CHECK(step(model, other) == step(floats, other));
    }
    CHECK(io::LoadFor::current() == Precision::int8);
  }
  CHECK_FALSE(io::LoadFor::current());
}
