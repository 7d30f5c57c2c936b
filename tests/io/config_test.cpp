#include "attend/io/config.hpp"

#include <functional>
#include <vector>

#include "catch.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;
using io::Json;

namespace {

/// Two stacks that differ from the defaults, and from one another, in everything.
nn::ModelOptions unusual() {
  nn::ModelOptions o{.encoder = {.vocabulary = 11,
                                 .d_model = 12,
                                 .heads = 3,
                                 .d_k = 5,
                                 .d_v = 7,
                                 .d_ff = 13,
                                 .layers = 2,
                                 .activation = Activation::gelu_tanh,
                                 .norm_order = nn::NormOrder::pre,
                                 .norm = {.eps = 1e-3, .sample_deviation = true, .scalar_affine = true},
                                 .final_norm = true,
                                 .attention_bias = false,
                                 .scale_embedding = false,
                                 .positions = nn::PositionKind::learned,
                                 .position_base = 77.5,
                                 .max_length = 19,
                                 .dropout = {.embedding = 0.1,
                                             .attention = 0.2,
                                             .activation = 0.3,
                                             .feed_forward = 0.4,
                                             .residual = 0.5,
                                             .norm = 0.6,
                                             .block = 0.7},
                                 .causal = true,
                                 .initialisation = nn::Initialisation::t_fixup},
                     .decoder = {.vocabulary = 17, .d_model = 8, .heads = 2, .layers = 1, .d_memory = 12},
                     .share_embeddings = false,
                     .tie_head = true,
                     .head_bias = false,
                     .output = nn::Output::log_probabilities};
  return o;
}

}  // namespace

TEST_CASE("config: every option comes back from text as it was") {
  const auto before = io::to_json(unusual());
  const auto after = io::to_json(io::model_options_from(Json::parse(before.dump()), "config.json"));
  CHECK(before == after);
  const auto o = io::model_options_from(before, "config.json");
  CHECK(o.encoder.vocabulary == 11);
  CHECK(o.encoder.d_model == 12);
  CHECK(o.encoder.heads == 3);
  CHECK(o.encoder.d_k == 5);
  CHECK(o.encoder.d_v == 7);
  CHECK(o.encoder.d_ff == 13);
  CHECK(o.encoder.layers == 2);
  CHECK(o.encoder.activation == Activation::gelu_tanh);
  CHECK(o.encoder.norm_order == nn::NormOrder::pre);
  CHECK(o.encoder.norm.eps == 1e-3);
  CHECK(o.encoder.norm.sample_deviation);
  CHECK(o.encoder.norm.scalar_affine);
  CHECK(o.encoder.final_norm);
  CHECK_FALSE(o.encoder.attention_bias);
  CHECK_FALSE(o.encoder.scale_embedding);
  CHECK(o.encoder.positions == nn::PositionKind::learned);
  CHECK(o.encoder.position_base == 77.5);
  CHECK(o.encoder.max_length == 19);
  const auto& d = o.encoder.dropout;
  CHECK(std::vector<double>{d.embedding, d.attention, d.activation, d.feed_forward, d.residual, d.norm, d.block} ==
        std::vector<double>{0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7});
  CHECK(o.encoder.cross_attentions == 0);
  CHECK(o.encoder.d_memory == 0);
  CHECK(o.encoder.causal == 1);
  CHECK(o.encoder.initialisation == nn::Initialisation::t_fixup);
  CHECK(o.decoder.vocabulary == 17);
  CHECK(o.decoder.d_memory == 12);
  CHECK(o.decoder.cross_attentions == 1);
  CHECK(o.decoder.causal == 1);
  CHECK_FALSE(o.share_embeddings);
  CHECK(o.tie_head);
  CHECK_FALSE(o.head_bias);
  CHECK(o.output == nn::Output::log_probabilities);
}

TEST_CASE("config: every name of every choice") {
  auto o = nn::model_options({.vocabulary = 5, .d_model = 4, .heads = 2});
  const auto again = [&] { return io::model_options_from(io::to_json(o), "config.json"); };
  for (const auto f :
       {Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu, Activation::tanh, Activation::identity}) {
    o.encoder.activation = f;
    CHECK(again().encoder.activation == f);
  }
  for (const auto& [kind, name] : names_of(nn::PositionKind())) {
    o.decoder.positions = kind;
    CHECK(again().decoder.positions == kind);
  }
  for (const auto order : {nn::NormOrder::post, nn::NormOrder::pre}) {
    o.decoder.norm_order = order;
    CHECK(again().decoder.norm_order == order);
  }
  for (const auto& [kind, name] : names_of(nn::Initialisation())) {
    o.encoder.initialisation = kind;
    CHECK(again().encoder.initialisation == kind);
  }
  for (const auto output : {nn::Output::logits, nn::Output::log_probabilities, nn::Output::probabilities}) {
    o.output = output;
    CHECK(again().output == output);
  }
}

TEST_CASE("config: a missing key, whichever it is, is named") {
  const auto whole = io::to_json(unusual());
  const std::function<void(const Json&, const Json::json_pointer&)> visit = [&](const Json& part, const Json::json_pointer& at) {
    for (const auto& [key, value] : part.items()) {
      if (key == "initialisation") continue;  // younger than the format: see below
      auto damaged = whole;
      damaged[at].erase(key);
      INFO((at / key).to_string());
      CHECK_THROWS_AS(io::model_options_from(damaged, "config.json"), FormatError);
      CHECK_THROWS_WITH(io::model_options_from(damaged, "config.json"), ContainsSubstring(key));
      if (value.is_object()) visit(value, at / key);
    }
  };
  visit(whole, Json::json_pointer());
}

TEST_CASE("config: what an encoder of version 1 says of a decoder's options means nothing, as when it was saved") {
  const auto o = nn::model_options({.vocabulary = 5, .d_model = 4, .heads = 2});
  auto json = io::to_json(o);
  CHECK(json["version"] == 1);  // so that older programs read it
  CHECK(json["encoder"]["causal"] == false);
  json["encoder"]["causal"] = true, json["encoder"]["cross_attentions"] = 1, json["encoder"]["d_memory"] = 3;
  const auto old = io::model_options_from(json, "config.json");
  CHECK(old.encoder.causal == 0);
  CHECK(old.encoder.cross_attentions == 0);
  CHECK(old.encoder.d_memory == 0);
  CHECK(old.decoder.causal == 1);
  CHECK(old.decoder.cross_attentions == 1);
  CHECK(io::to_json(unusual())["version"] == 2);
}

TEST_CASE("config: norms that older programs would take for others have a version of their own") {
  auto o = nn::model_options({.vocabulary = 5, .d_model = 4, .heads = 2});
  CHECK_FALSE(io::to_json(o)["encoder"]["norm"].contains("kind"));
  o.decoder.norm.kind = NormKind::rms;
  o.encoder.norm.bias = false;
  const auto json = io::to_json(o);
  CHECK(json["version"] == 3);
  const auto again = io::model_options_from(json, "config.json");
  CHECK(again.decoder.norm.kind == NormKind::rms);
  CHECK(again.decoder.norm.bias);
  CHECK(again.encoder.norm.kind == NormKind::layer);
  CHECK_FALSE(again.encoder.norm.bias);
}

TEST_CASE("config: options that older programs would read past make a version that they refuse, and only where they are used") {
  auto o = nn::model_options({.vocabulary = 5, .d_model = 4, .heads = 2});
  CHECK_FALSE(io::to_json(o)["decoder"].contains("position"));
  const auto version = [&](auto change) {
    auto changed = o;
    change(changed);
    const auto json = io::to_json(changed);
    CHECK(io::to_json(io::model_options_from(json, "config.json")) == json);
    return json["version"].template get<int>();
  };
  CHECK(version([](nn::ModelOptions&) {}) == 1);
  using nn::PositionKind;
  const std::vector<void (*)(nn::ModelOptions&)> newer{
      [](nn::ModelOptions& m) { m.decoder.positions = PositionKind::learned, m.decoder.position.offset = 2; },
      [](nn::ModelOptions& m) {
        m.encoder.positions = PositionKind::rotary, m.encoder.d_k = 4, m.encoder.position.rotary_fraction = 0.5;
      },
      [](nn::ModelOptions& m) { m.encoder.positions = PositionKind::relative, m.encoder.position.buckets = 16; },
      [](nn::ModelOptions& m) { m.encoder.positions = PositionKind::relative_each, m.encoder.position.max_distance = 200; },
      [](nn::ModelOptions& m) { m.decoder.kv_heads = 1; },
      [](nn::ModelOptions& m) { m.decoder.gated = true; },
      [](nn::ModelOptions& m) { m.decoder.bias = false; },
      [](nn::ModelOptions& m) { m.encoder.attention_scale = 1; },
      [](nn::ModelOptions& m) { m.encoder.norm_embedding = true; },
      [](nn::ModelOptions& m) { m.decoder.dropout.output = 0.1; },
      [](nn::ModelOptions& m) { m.scale_head = true; }};
  for (const auto change : newer) CHECK(version(change) == 4);
  CHECK(version([](nn::ModelOptions& m) { m.adapters.rank = 2; }) == 5);
}

TEST_CASE("config: adapters are written where there are any, whatever they are") {
  auto o = nn::model_options({.vocabulary = 5, .d_model = 4, .heads = 2});
  CHECK_FALSE(io::to_json(o).contains("adapters"));
  o.adapters = {.rank = 3, .alpha = 0.5, .dropout = 0.25, .rslora = true, .modules = {"fc1", "decoder.*.q_proj"}};
  const auto json = io::to_json(o);
  CHECK(json["adapters"] ==
        Json{{"rank", 3}, {"alpha", 0.5}, {"dropout", 0.25}, {"rslora", true}, {"modules", {"fc1", "decoder.*.q_proj"}}});
  CHECK(io::model_options_from(json, "config.json").adapters == o.adapters);
  const auto refuses = [&](const char* at, const Json& value, const std::string& why) {
    auto damaged = json;
    damaged["adapters"][at] = value;
    CHECK_THROWS_AS(io::model_options_from(damaged, "config.json"), FormatError);
    CHECK_THROWS_WITH(io::model_options_from(damaged, "config.json"), ContainsSubstring("config.json") && ContainsSubstring(why));
  };
  refuses("rank", -1, "adapters.rank is -1, expected 1 or more");
  refuses("alpha", 0, "adapters.alpha is 0, expected more than 0");
  refuses("dropout", 1, "adapters.dropout is 1");
  refuses("modules", "fc1", "modules");
  refuses("modules", {1}, "modules");
}

TEST_CASE("config: a model saved before there was a choice of initial values began as xavier") {
  auto json = io::to_json(unusual());
  for (const char* stack : {"encoder", "decoder"}) json[stack].erase("initialisation");
  const auto o = io::model_options_from(json, "config.json");
  CHECK(o.encoder.initialisation == nn::Initialisation::xavier);
  CHECK(o.decoder.initialisation == nn::Initialisation::xavier);
}

TEST_CASE("config: a value that makes no sense is named with what was expected") {
  const auto refuses = [](const char* at, const Json& value, const std::string& why) {
    auto damaged = io::to_json(unusual());
    damaged[Json::json_pointer(at)] = value;
    INFO(at << " " << value.dump());
    CHECK_THROWS_AS(io::model_options_from(damaged, "config.json"), FormatError);
    CHECK_THROWS_WITH(io::model_options_from(damaged, "config.json"), ContainsSubstring("config.json") && ContainsSubstring(why));
  };
  refuses("/format", "other", "format is \"other\", expected \"attend\"");
  refuses("/version", 7, "version is 7, this library reads versions 1 to 6");
  refuses("/encoder/cross_attentions", 1, "cross_attentions is 1, and an encoder has none");
  refuses("/encoder/d_model", "12", "d_model");
  refuses("/encoder/d_model", 12.5, "d_model");
  refuses("/encoder/d_model", -1, "d_model is -1");
  refuses("/encoder/d_model", 0, "d_model is 0");
  refuses("/encoder/heads", index_t{1} << 40, "heads is 1099511627776");
  refuses("/encoder/heads", 1e30, "heads");
  refuses("/decoder/activation", "reIu", "activation is \"reIu\", expected one of relu, gelu");
  refuses("/decoder/positions", Json::array(), "positions");
  refuses("/decoder/initialisation", "kaiming", "initialisation is \"kaiming\", expected one of residual_scaled, xavier");
  refuses("/encoder/norm", 3, "norm");
  refuses("/encoder/norm/eps", -1, "eps is -1");
  refuses("/encoder/norm/scalar_affine", 1, "scalar_affine");
  refuses("/encoder/dropout/residual", 1.5, "dropout.residual is 1.5");
  refuses("/encoder/position_base", 0, "position_base is 0");
  refuses("/decoder/d_memory", 9, "attends to 9");
  refuses("/decoder/cross_attentions", 2, "cross-attention");
  refuses("/share_embeddings", true, "shared embedding");
  refuses("/output", "words", "output is \"words\"");
  CHECK_THROWS_AS(io::model_options_from(Json::array(), "config.json"), FormatError);
  CHECK_THROWS_AS(io::model_options_from(Json(), "config.json"), FormatError);
}
