#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "pretrained_data.hpp"
#include "temporary_folder.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("pretrained: what is read and written is what transformers wrote, tensor by tensor and key by key") {
  for (const auto& name : pretrained::models()) {
    INFO(name);
    const auto from = pretrained::data() / name;
    const auto m = io::load_pretrained(from);
    const TemporaryFolder temporary;
    const char* wanted = std::getenv("ATTEND_PRETRAINED_SAVE");  // for check_saved.py
    const std::filesystem::path saved = wanted ? std::filesystem::path(wanted) / name : temporary / "model";
    const auto before = io::SafetensorsFile::open(from / "model.safetensors");
    io::save_pretrained(saved, m, {.stored = before.tensors().front().dtype});

    const auto after = io::SafetensorsFile::open(saved / "model.safetensors");
    std::vector<std::string> names, written;
    for (const auto& t : before.tensors()) names.push_back(t.name);
    for (const auto& t : after.tensors()) written.push_back(t.name);
    CHECK(written == names);
    for (const auto& t : before.tensors()) {
      if (t.name == "model.shared.weight" && !m.model.options.share_embeddings) continue;  // nothing reads it
      INFO(t.name);
      REQUIRE(after.contains(t.name));
      CHECK(after.info(t.name).dtype == t.dtype);
      CHECK(after.info(t.name).shape == t.shape);
      CHECK(after.read<float>(t.name) == before.read<float>(t.name));
    }

    // Keys that say nothing of the function, or say what the options below are compared by: activations have several names.
    const std::set<std::string> other{"activation_function",
                                      "classifier_dropout",
                                      "dense_act_fn",
                                      "feed_forward_proj",
                                      "id2label",
                                      "label2id",
                                      "dtype",
                                      "init_std",
                                      "initializer_factor",
                                      "is_decoder",
                                      "transformers_version",
                                      "use_cache",
                                      "tie_word_embeddings",
                                      "encoder_layerdrop",
                                      "decoder_layerdrop"};
    for (const char* file : {"config.json", "generation_config.json"}) {
      const auto theirs = io::read_json(from / file), ours = io::read_json(saved / file);
      for (const auto& [key, value] : theirs.items()) {
        INFO(file << ": " << key);
        if (other.contains(key)) continue;
        CHECK(ours.value(key, io::Json()) == value);
      }
    }
    const auto again = io::load_pretrained(saved);
    CHECK(io::to_json(again.model.options) == io::to_json(m.model.options));
    CHECK(io::to_json(again.search, again.config, {}) == io::to_json(m.search, m.config, {}));
    CHECK((again.config.begin == m.config.begin && again.config.bos == m.config.bos && again.config.pad == m.config.pad));
    const NoGrad no_grad;
    const auto batch = pretrained::Expected(name).batch();
    CHECK(again.model(batch).value().values() == m.model(batch).value().values());
  }
}

TEST_CASE("pretrained: a model that its family cannot express is refused with all that stands in the way") {
  const TemporaryFolder folder;
  const auto refused = [&](const char* name, auto change, const std::vector<std::string>& why) {
    auto m = io::load_pretrained(pretrained::data() / name);
    change(m);
    INFO(name);
    try {
      io::save_pretrained(folder / "model", m);
      FAIL("saved");
    } catch (const ValueError& error) {
      for (const auto& part : why) CHECK_THAT(error.what(), ContainsSubstring(part));
    }
    CHECK_FALSE(std::filesystem::exists(folder / "model"));
  };
  refused("bart_gelu",
          [](auto& m) {
            m.model.options.encoder.norm_order = nn::NormOrder::pre;
            m.model.options.decoder.norm.eps = 1e-3;
            m.model.options.decoder.activation = Activation::relu;
            m.search.coverage_penalty = 1;
          },
          {"save_pretrained: this cannot be a model of the family bart: ", "encoder.norm_order is \"pre\", expected \"post\"",
           "decoder.norm.eps is 0.001, expected 1e-05", "decoder.activation is \"relu\", expected \"gelu\"",
           "the search has a coverage penalty"});
  refused("m2m_relu", [](auto& m) { m.model.options.share_embeddings = false; }, {"share_embeddings is false, expected true"});
  refused("m2m_relu", [](auto& m) { m.model.options.decoder.position_base = 10000; }, {"decoder.position_base"});
  refused("t5_relu", [](auto& m) { m.model.options.decoder.gated = true; }, {"decoder.gated is true, expected what is usual"});
  refused("t5_gated", [](auto& m) { m.model.options.decoder.gated = false; }, {"decoder.gated is as usual, expected true"});
  refused("umt5_tied", [](auto& m) { m.config.family = "t5"; },
          {"encoder.positions is \"relative_each\", expected \"relative\""});
  refused("mt5_tied", [](auto& m) { m.model.options.scale_head = true; }, {"scale_head is true, expected what is usual"});
  refused("t5_relu", [](auto& m) { nn::add_adapters(m.model, {.rank = 2}); },
          {"family t5: it has adapters: merge_adapters folds them into the weights, save_adapters saves them apart"});
  refused("mt5_tied", [](auto& m) { m.config.eos = 20; }, {"eos_token_id is 20, outside the vocabulary"});
  refused("mt5_tied", [](auto& m) { m.config.family = "marian"; }, {"the family is 'marian', which it does not write"});
}

TEST_CASE("pretrained: a model of this library's own may be one of a family") {
  nn::TransformerOptions o{.vocabulary = 12, .d_model = 8, .heads = 2, .d_ff = 10, .layers = 1, .dropout = 0.25};
  o.norm_order = nn::NormOrder::pre, o.final_norm = true, o.norm_embedding = true, o.max_length = 9;
  o.positions = nn::PositionKind::learned, o.position.offset = 2, o.share_embeddings = o.tie_head = true;
  const io::PretrainedModel<float> m{.model = nn::Transformer<float>(o),
                                     .config = {.model = {}, .eos = 2, .pad = 1, .begin = 11, .family = "mbart"},
                                     .search = {}};
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(io::save_pretrained(folder / "model", m), ContainsSubstring("length penalty is Google's"));
  auto saved = m;
  saved.search.normalization = decode::LengthNormalization::marian;
  io::save_pretrained(folder / "model", saved, {.stored = io::DType::f64, .more = [](const auto& staging) {
                                                  io::write_file_atomically(staging / "notes", "more");
                                                }});
  CHECK(io::read_file(folder / "model/notes") == "more");
  const auto again = io::load_pretrained(folder / "model");
  CHECK(again.model.options.encoder.dropout.residual == 0.25);
  CHECK((again.config.begin == 11 && again.search.length_penalty == 0.6));
  const auto one = nn::state(m.model), other = nn::state(again.model);
  REQUIRE(one.size() == other.size());
  for (std::size_t i = 0; i < one.size(); ++i) CHECK(one[i].value.values() == other[i].value.values());
}
