// Training on from a model that is there: parts that stay as they are, checkpoints that are kept.

#include "../catch.hpp"
#include "attend/io/average.hpp"
#include "attend/nn/freeze.hpp"
#include "attend/nn/transformer.hpp"
#include "attend/translate/search_file.hpp"
#include "attend/translate/translator.hpp"
#include "toy.hpp"

using namespace attend;
using namespace attend::train;
using Catch::Matchers::ContainsSubstring;

namespace {

nn::Transformer<float> tiny_model(std::uint64_t seed = 3) {
  attend::seed(seed);
  return nn::Transformer<float>({.vocabulary = 29,
                                 .d_model = 16,
                                 .heads = 2,
                                 .d_ff = 32,
                                 .layers = 1,
                                 .dropout = 0.2,
                                 .max_length = 32,
                                 .share_embeddings = true,
                                 .tie_head = true});
}

/// All that could move a weight that no gradient moves.
FitOptions moving_options() {
  auto options = toy::options(2);
  options.optimizer = optim::AdamWOptions{.learning_rate = 0.02, .weight_decay = 0.5};
  options.average_decay = 0.9;
  return options;
}

std::vector<std::pair<std::string, std::vector<float>>> values(const nn::Transformer<float>& model) {
  std::vector<std::pair<std::string, std::vector<float>>> list;
  for (const auto& t : nn::state(model)) list.emplace_back(t.name, t.value.values());
  return list;
}

}  // namespace

TEST_CASE("fine-tuning: what is frozen comes out bit for bit, and all else has learnt", "[train]") {
  auto model = tiny_model();
  const auto before = values(model);
  nn::freeze(model, "encoder.layers.*"), nn::freeze(model, "decoder.embed_tokens.*");
  nn::freeze(model, "decoder.layers.0.self_attn.*"), nn::freeze(model, "*.fc2.bias");
  const auto frozen = nn::frozen_names(model);
  const auto report = fit(model, toy::corpus(100), toy::Letters(), moving_options());
  CHECK(report.steps > 10);
  const auto after = values(model);
  std::size_t still = 0;
  for (std::size_t i = 0; i < after.size(); ++i) {
    const auto& [name, value] = after[i];
    const bool stays = std::find(frozen.begin(), frozen.end(), name) != frozen.end();
    INFO(name);
    CHECK((value == before[i].second) == stays);
    still += stays;
  }
  CHECK(still == frozen.size());
}

TEST_CASE("fine-tuning: stopped and resumed, the bits are the same; with other parts frozen it is refused", "[train]") {
  const auto freeze = [](nn::Transformer<float>& model, const char* pattern) {
    nn::freeze(model, pattern);
    return model;
  };
  auto whole = tiny_model();
  freeze(whole, "decoder.layers.0.self_attn_layer_norm.*");
  fit(whole, toy::corpus(60), toy::Letters(), moving_options());

  const TemporaryFolder folder;
  auto first = tiny_model(), second = tiny_model(4), other = tiny_model(4), none = tiny_model(4);
  freeze(first, "decoder.layers.0.self_attn_layer_norm.*");
  const auto options = toy::stopped_run(folder.path(), first, moving_options(), 5);
  // Parameters of the same shapes, but others.
  freeze(other, "decoder.layers.0.final_layer_norm.*");
  CHECK_THROWS_WITH(fit(other, toy::corpus(60), toy::Letters(), options),
                    ContainsSubstring("frozen 2 tensors (this run: others)"));
  CHECK_THROWS_AS(fit(none, toy::corpus(60), toy::Letters(), options), ValueError);
  CHECK_THROWS_WITH(fit(none, toy::corpus(60), toy::Letters(), options),
                    ContainsSubstring("frozen 2 tensors (this run: none)") && !ContainsSubstring("weights are others"));
  freeze(second, "decoder.layers.0.self_attn_layer_norm.*");
  fit(second, toy::corpus(60), toy::Letters(), options);
  CHECK(toy::weights(second) == toy::weights(whole));
}

TEST_CASE("fine-tuning: a checkpoint has what is frozen once, in the model's own file", "[train]") {
  const auto model_of = [](std::uint64_t seed) {
    auto model = tiny_model(seed);
    nn::freeze(model, "encoder.layers.*");
    return model;
  };
  auto whole = model_of(3);
  fit(whole, toy::corpus(60), toy::Letters(), moving_options());

  const TemporaryFolder folder;
  auto first = model_of(3);
  const auto options = toy::stopped_run(folder.path(), first, moving_options(), 5);
  const auto last = folder.path() / "last", weights = last / "model.safetensors";
  const auto frozen = nn::frozen_names(first);
  const auto state = io::SafetensorsFile::open(last / "training.safetensors");
  for (const auto& t : nn::state(first)) {
    INFO(t.name);
    const bool stays = std::find(frozen.begin(), frozen.end(), t.name) != frozen.end();
    CHECK(state.contains("model." + t.name) == !stays);
  }

  // A model that has other numbers there gets them from that file, unless it is gone or is another's.
  const auto away = folder.path() / "away";
  std::filesystem::rename(weights, away);
  const auto refused = [&] {
    auto other = model_of(4);
    const auto before = values(other);
    CHECK_THROWS_WITH(fit(other, toy::corpus(60), toy::Letters(), options), ContainsSubstring("the frozen weights are others"));
    CHECK(values(other) == before);
  };
  refused();
  io::save(folder.path() / "other", model_of(4));
  std::filesystem::copy_file(folder.path() / "other" / "model.safetensors", weights);
  refused();
  io::save(folder.path() / "double", nn::Transformer<double>(first.options));
  std::filesystem::remove(weights);
  std::filesystem::copy_file(folder.path() / "double" / "model.safetensors", weights);
  refused();
  std::filesystem::remove(weights);
  std::filesystem::rename(away, weights);
  auto second = model_of(4);
  fit(second, toy::corpus(60), toy::Letters(), options);
  CHECK(toy::weights(second) == toy::weights(whole));
}

TEST_CASE("fine-tuning: a translator made before sees the new weights, and a model that is loaded trains on", "[train]") {
  const TemporaryFolder folder;
  auto model = tiny_model();
  auto options = toy::options(8);
  options.optimizer = optim::AdamOptions{.learning_rate = 0.01};
  io::save(folder.path() / "model", model);
  auto loaded = io::load_model<float>(folder.path() / "model");
  CHECK_FALSE(nn::is_training(loaded));
  const decode::Translator translator(loaded, toy::Letters(), {.beam = 1});
  nn::freeze(loaded, "encoder.*");
  const auto pairs = toy::corpus(40);
  const auto before = translator(pairs.sources());
  fit(loaded, pairs, toy::Letters(), options);
  const auto after = translator(pairs.sources());
  CHECK(before != after);
  CHECK(after == decode::Translator(loaded, toy::Letters(), {.beam = 1})(pairs.sources()));
  // From the same weights, frozen alike, the same comes out.
  nn::freeze(model, "encoder.*");
  fit(model, pairs, toy::Letters(), options);
  CHECK(toy::weights(model) == toy::weights(loaded));
}

TEST_CASE("kept checkpoints: the last of them stay, and their mean is a model", "[train]") {
  const TemporaryFolder folder;
  auto options = toy::options(0);
  options.max_steps = 23;
  options.output = folder.path();
  options.checkpoint_every = 5;
  options.checkpoint_seconds = 0;
  options.keep_checkpoints = 3;
  options.validation = toy::corpus(6, 2);
  options.validate_every = 10;  // at which a checkpoint is due anyway
  std::map<index_t, std::vector<float>> weights;
  auto model = tiny_model();
  options.on_step = [&](const CurvePoint& point) { weights[point.step] = toy::weights(model); };
  std::filesystem::create_directories(folder.path() / "step-2");
  std::filesystem::create_directories(folder.path() / "step-x");
  fit(model, toy::corpus(60), toy::Letters(), options);
  const auto kept = kept_checkpoints(folder.path());
  REQUIRE(kept.size() == 3);
  std::vector<double> mean(weights[10].size());
  for (const index_t step : {10, 15, 20}) {
    const auto& path = kept[static_cast<std::size_t>(step / 5 - 2)];
    CHECK(path.filename().string() == "step-" + std::to_string(step));
    CHECK(toy::weights(io::load_model<float>(path)) == weights[step]);
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += static_cast<double>(weights[step][i]) / 3;
  }
  CHECK_FALSE(std::filesystem::exists(folder.path() / "step-5"));
  CHECK(std::filesystem::exists(folder.path() / "step-x"));  // not ours
  CHECK(std::filesystem::exists(folder.path() / "step-2"));
  CHECK(model_folder(folder.path()) == folder.path() / "best");

  io::average(kept, folder.path() / "mean");
  const auto averaged = toy::weights(io::load_model<float>(folder.path() / "mean"));
  double worst = 0;
  for (std::size_t i = 0; i < mean.size(); ++i) worst = std::max(worst, std::abs(mean[i] - static_cast<double>(averaged[i])));
  CHECK(worst < 1e-7);

  // A run that goes on keeps on; one that begins anew begins with none.
  options.resume = true;
  options.max_steps = 26;
  fit(model, toy::corpus(60), toy::Letters(), options);
  CHECK(kept_checkpoints(folder.path()).back() == folder.path() / "step-25");
  CHECK(kept_checkpoints(folder.path()).size() == 3);
  options.resume = false, options.overwrite = true;
  options.max_steps = 6;
  fit(model, toy::corpus(60), toy::Letters(), options);
  CHECK(kept_checkpoints(folder.path()) == std::vector<std::filesystem::path>{folder.path() / "step-5"});
  CHECK(kept_checkpoints(folder.path() / "nowhere").empty());

  // If a crash left nothing but a checkpoint that was kept, that is another run too, whose checkpoints would pass for the new.
  for (const char* name : {"best", "last"}) std::filesystem::remove_all(folder.path() / name);
  options.overwrite = false;
  CHECK_THROWS_WITH(fit(model, toy::corpus(60), toy::Letters(), options), ContainsSubstring("holds another run"));

  options.checkpoint_every = 0;
  CHECK_THROWS_WITH(fit(model, toy::corpus(60), toy::Letters(), options),
                    ContainsSubstring("keep_checkpoints needs checkpoint_every"));
}

TEST_CASE("fine-tuning: what else a model folder is to have is in each, and goes with the run", "[train]") {
  const TemporaryFolder folder;
  auto options = toy::options(0);
  options.max_steps = 4;
  options.validation = toy::corpus(8, 2);
  options.output = folder.path();
  options.checkpoint_every = 2, options.keep_checkpoints = 1;
  const decode::TranslatorOptions search{.beam = 7};
  options.save_more = [&](const std::filesystem::path& model) { decode::save_search(model, search); };
  auto model = tiny_model();
  fit(model, toy::corpus(100), toy::Letters(), options);
  for (const char* part : {"best", "last", "step-4"}) {
    INFO(part);
    CHECK(decode::load_search(io::FolderReader(folder.path() / part), 29).beam == 7);
  }
  auto other = tiny_model();
  options.overwrite = true, options.save_more = {};
  fit(other, toy::corpus(100), toy::Letters(), options);
  for (const char* part : {"best", "last", "step-4"}) {
    INFO(part);
    CHECK_FALSE(std::filesystem::exists(folder.path() / part / io::search_file));
  }
}
