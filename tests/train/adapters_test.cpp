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
  const auto stopped = toy::stopped_run(folder.path(), model_with_adapters(), options, 4);
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

namespace {

/// Models with adapters whose matrices are held in bfloat16 or in 8-bit integers, and ones of the floats that these stand for.
enum class Held { bfloat16, integers };
nn::Transformer<float> held_model(Held held) {
  auto model = plain_model();
  if (held == Held::integers) {
    nn::quantize(model);
  } else {
    for (const auto& p : nn::quantizable_parameters(model))
      p.set_value(Tensor<float>::from_bfloat16(attend::detail::converted<bfloat16>(p.value())));
  }
  attend::seed(4);
  nn::add_adapters(model, {.rank = 4, .dropout = 0.1, .modules = everything});
  return model;
}
nn::Transformer<float> model_in_floats(Held held) {
  auto model = held_model(held);
  for (const auto& p : nn::parameters(model))
    if (p.value().instead()) p.set_value(attend::detail::elements_of_held(p.value()));
  return model;
}

/// The numbers of all adapters, one after another.
std::vector<float> adapter_values(const nn::Transformer<float>& model) {
  std::vector<float> all;
  for (const auto& t : nn::state(model))
    if (is_adapter(t.name))
      for (const float x : t.value.values()) all.push_back(x);
  return all;
}

}  // namespace

TEST_CASE("adapters: beside bfloat16 and 8-bit integers they learn as beside the floats that these stand for", "[train]") {
  const auto held = GENERATE(Held::bfloat16, Held::integers);
  for (const auto precision : {Precision::full, Precision::bf16}) {
    auto options = toy::options(3);
    options.precision = precision;
    auto expected = model_in_floats(held), model = held_model(held);
    const auto before = adapter_values(model);
    const auto losses = fit(expected, toy::corpus(60), toy::Letters(), options).curve;
    const auto curve = fit(model, toy::corpus(60), toy::Letters(), options).curve;
    CHECK(adapter_values(model) == adapter_values(expected));
    CHECK(adapter_values(model) != before);
    REQUIRE(curve.size() == losses.size());
    CHECK(curve.back().loss == losses.back().loss);
    for (const auto& p : nn::quantizable_parameters(model)) CHECK(p.value().instead() != nullptr);
  }
  auto whole = held_model(held);
  nn::unfreeze(whole, "*");
  CHECK_THROWS_WITH(fit(whole, toy::corpus(60), toy::Letters(), toy::options(1)),
                    Catch::Matchers::ContainsSubstring("all else needs the model in floats"));
  CHECK_THROWS_WITH(nn::merge_adapters(whole), Catch::Matchers::ContainsSubstring("expected a model in floats"));
}

TEST_CASE("adapters: a run beside what is held stops, goes on and runs in ranks with the bits of one that does not", "[train]") {
  const auto held = GENERATE(Held::bfloat16, Held::integers);
  auto options = toy::options(2);
  options.parts = 2;
  auto whole = held_model(held);
  fit(whole, toy::corpus(60), toy::Letters(), options);

  const TemporaryFolder folder;
  auto stopped = toy::stopped_run(folder.path(), held_model(held), options, 4);
  const auto last = folder.path() / "last";

  // The state leaves out what stays as it is, and knows it by a fingerprint.
  const auto file = io::SafetensorsFile::open(last / "training.safetensors");
  for (const auto& t : nn::state(whole)) CHECK(file.contains("model." + t.name) == is_adapter(t.name));
  CHECK(io::SafetensorsFile::open(last / "model.safetensors").info("encoder.layers.0.fc1.weight").dtype ==
        (held == Held::integers ? io::DType::i8 : io::DType::bf16));
  auto other = plain_model();
  other.encoder.layers[0].feed_forward.fc1.weight.value()(1, 2) += 1;
  nn::add_adapters(other, {.rank = 4, .dropout = 0.1, .modules = everything});
  CHECK_THROWS_WITH(fit(other, toy::corpus(60), toy::Letters(), stopped),
                    Catch::Matchers::ContainsSubstring("the frozen weights are others"));

  // It goes on with the model as it is held, or in floats, as on a GPU.
  const TemporaryFolder copy;
  std::filesystem::copy(folder.path(), copy.path(), std::filesystem::copy_options::recursive);
  {
    const io::LoadFor purpose(Precision::full);
    auto second = io::load_model(last);
    CHECK(second.encoder.layers[0].feed_forward.fc1.weight.value().instead() != nullptr);
    fit(second, toy::corpus(60), toy::Letters(), stopped);
    CHECK(adapter_values(second) == adapter_values(whole));
  }
  auto in_floats = model_in_floats(held);
  stopped.output = copy.path();
  fit(in_floats, toy::corpus(60), toy::Letters(), stopped);
  CHECK(adapter_values(in_floats) == adapter_values(whole));
  // And the other way round: a model that holds them goes on where the floats that they stand for were.
  const TemporaryFolder of_floats;
  auto narrow = held_model(held);
  fit(narrow, toy::corpus(60), toy::Letters(), toy::stopped_run(of_floats.path(), model_in_floats(held), options, 4));
  CHECK(adapter_values(narrow) == adapter_values(whole));
  // A state that has the floats is not for a model that holds other numbers.
  auto all = model_in_floats(held), unlike = held_model(held);
  nn::unfreeze(all, "*");
  stopped.resume = false, stopped.overwrite = true;
  fit(all, toy::corpus(60), toy::Letters(), stopped);
  stopped.resume = true, stopped.overwrite = false;
  CHECK_THROWS_WITH(fit(unlike, toy::corpus(60), toy::Letters(), stopped),
                    Catch::Matchers::ContainsSubstring("encoder.embed_tokens.weight F32 [29, 16] (this run: ") &&
                        Catch::Matchers::ContainsSubstring("tensors more"));

  for (const auto& end : ThreadRanks::run(2, [&](const std::shared_ptr<Communicator>& communicator) {
         auto own = options;
         own.communicator = communicator;
         auto model = held_model(held);
         fit(model, toy::corpus(60), toy::Letters(), own);
         if (adapter_values(model) != adapter_values(whole)) throw Error("another model");
       }))
    CHECK(end == nullptr);
}

TEST_CASE("adapters: ranks that hold other weights beside them, or hold them otherwise, are refused", "[train]") {
  const index_t different = GENERATE(0, 1, 2);  // the rank that has floats; 2: one has other numbers
  for (const auto& end : ThreadRanks::run(2, [&](const std::shared_ptr<Communicator>& communicator) {
         auto options = toy::options(1);
         options.communicator = communicator;
         auto model = plain_model();
         if (different == 2 && communicator->rank() == 1) model.encoder.layers[0].feed_forward.fc1.weight.value()(1, 2) += 1;
         if (different != communicator->rank()) nn::quantize(model);
         nn::add_adapters(model, {.rank = 4, .modules = everything});
         try {
           fit(model, toy::corpus(60), toy::Letters(), options);
         } catch (const ValueError& e) {
           if (std::string(e.what()).find("held weights") != std::string::npos) return;
           throw;
         }
         throw Error("it was not refused");
       }))
    CHECK(end == nullptr);
}
