// Training of low-rank adapters alone.

#include "attend/nn/adapters.hpp"

#include "../catch.hpp"
#include "attend/nn/freeze.hpp"
#include "attend/nn/transformer.hpp"
#include "attend/translate/translator.hpp"
#include "thread_ranks.hpp"
#include "toy.hpp"

using namespace attend;
using namespace attend::train;
using test::ThreadRanks;

namespace {

const std::vector<std::string> everything{"q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2"};

nn::Transformer<float> plain_model() {
  attend::seed(3);
  return nn::Transformer<float>({.vocabulary = 29,
                                 .d_model = 16,
                                 .heads = 2,
                                 .d_ff = 32,
                                 .layers = 1,
                                 .dropout = 0.1,
                                 .max_length = 32,
                                 .share_embeddings = true,
                                 .tie_head = true});
}
nn::Transformer<float> model_with_adapters() {
  auto model = plain_model();
  nn::add_adapters(model, {.rank = 4, .dropout = 0.1, .modules = everything});
  return model;
}

/// Another language: targets are the sources as they stand.
text::Corpus other_corpus(index_t pairs, std::uint64_t seed = 1) {
  auto corpus = toy::corpus(pairs, seed);
  for (auto& pair : corpus.pairs) pair.target = pair.source;
  return corpus;
}

bool is_adapter(const std::string& name) { return name.find(".lora_") != name.npos; }

}  // namespace

TEST_CASE("adapters: training them lowers the loss, and all else keeps its bits", "[train]") {
  auto model = plain_model();
  fit(model, toy::corpus(100), toy::Letters(), toy::options(15));
  nn::add_adapters(model, {.rank = 4, .dropout = 0.1, .modules = everything});
  std::vector<std::pair<std::string, std::vector<float>>> before;
  for (const auto& t : nn::state(model)) before.emplace_back(t.name, t.value.values());
  const auto counted = nn::parameter_count(model);
  const TemporaryFolder folder;
  auto options = toy::options(20);
  options.optimizer = optim::AdamWOptions{.learning_rate = 0.02, .weight_decay = 0.1};  // which could move what no gradient moves
  options.output = folder.path();
  const auto report = fit(model, other_corpus(100), toy::Letters(), options);
  REQUIRE(report.curve.size() > 4);
  CHECK(report.curve.back().loss < 0.75 * report.curve.front().loss);
  const auto after = nn::state(model);
  for (std::size_t i = 0; i < after.size(); ++i) {
    INFO(after[i].name);
    CHECK((after[i].value.values() == before[i].second) != is_adapter(after[i].name));
    CHECK(after[i].parameter.requires_grad() == is_adapter(after[i].name));
  }

  // What the optimizer remembers is as much as the adapters have, but for gaps between cache lines.
  const auto file = io::SafetensorsFile::open(folder.path() / "last" / "training.safetensors");
  index_t largest = 0;
  for (const auto& t : file.tensors())
    if (t.name.starts_with("optimizer.")) largest = std::max(largest, t.shape.size());
  CHECK(largest >= counted);
  CHECK(largest < counted + 16 * count_of(before));

  // What was saved has its adapters, and translates alike; merged too.
  auto loaded = io::load_model(folder.path() / "last");
  CHECK((toy::weights(loaded) == toy::weights(model)));
  const auto sources = other_corpus(30, 2).sources();
  const auto found = decode::Translator(model, toy::Letters(), {.beam = 3})(sources);
  CHECK(decode::Translator(loaded, toy::Letters(), {.beam = 3})(sources) == found);
  const decode::Translator kept(model, toy::Letters(), {.beam = 3});
  nn::merge_adapters(model);
  CHECK(decode::Translator(model, toy::Letters(), {.beam = 3})(sources) == found);
  CHECK(kept(sources) == found);  // its copy of the model still has adapters, which now are 0
}

TEST_CASE("adapters: the facts of a run have the width of the matrices beside them, and none for Muon", "[train]") {
  auto model = plain_model();
  CHECK_FALSE(run_facts(model, 10).adapters);
  nn::add_adapters(model, {.rank = 2, .modules = {"fc1"}});
  const auto facts = run_facts(model, 10);
  CHECK(facts.adapters);
  CHECK(facts.width == 16);
  CHECK_FALSE(facts.matrices);
  CHECK(optim::optimizer_name(*completed({}, facts).optimizer) == "adam");
}

TEST_CASE("adapters: stopped and resumed, and in any number of ranks, the bits are the same", "[train]") {
  auto options = toy::options(2);
  options.parts = 2;
  auto whole = model_with_adapters();
  fit(whole, toy::corpus(60), toy::Letters(), options);

  const TemporaryFolder folder;
  auto stopped = options;
  stopped.output = folder.path();
  std::atomic<bool> stop{false};
  stopped.stop = &stop;
  stopped.on_step = [&](const CurvePoint& point) { stop = point.step == 4; };
  auto first = model_with_adapters();
  REQUIRE(fit(first, toy::corpus(60), toy::Letters(), stopped).stopped == StopReason::interrupted);
  stop = false;
  stopped.on_step = {};
  stopped.resume = true;
  auto second = io::load_model(folder.path() / "last");
  fit(second, toy::corpus(60), toy::Letters(), stopped);
  CHECK((toy::weights(second) == toy::weights(whole)));

  for (const auto& end : ThreadRanks::run(2, [&](const std::shared_ptr<Communicator>& communicator) {
         auto own = options;
         own.communicator = communicator;
         auto model = model_with_adapters();
         fit(model, toy::corpus(60), toy::Letters(), own);
         if (toy::weights(model) != toy::weights(whole)) throw Error("another model");
       }))
    CHECK(end == nullptr);
}
