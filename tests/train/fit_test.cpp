#include "attend/train/fit.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>
#include <thread>

#include "../catch.hpp"
#include "toy.hpp"
#include "with_threads.hpp"

using namespace attend;
using namespace attend::train;
using Catch::Matchers::ContainsSubstring;

namespace {

/// What a run of these options prints.
std::string printed(toy::Model<float>& model, FitOptions options) {
  std::FILE* file = std::tmpfile();
  options.progress = {.mode = ProgressMode::lines, .stream = file};
  fit(model, toy::corpus(100), toy::Letters(), options);
  std::rewind(file);
  std::string text(4096, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}

}  // namespace

TEST_CASE("fit: the loss falls, and the report tells how", "[train]") {
  auto model = toy::model(0.1);
  auto options = toy::options(6);
  options.validation = toy::corpus(40, 2);
  options.validate_every = 0;
  options.max_length = 8;
  options.curve_every = 5;
  index_t steps = 0;
  options.on_step = [&](const CurvePoint& point) { CHECK(point.step == ++steps); };
  const FitReport report = fit(model, toy::corpus(300), toy::Letters(), options);

  CHECK(report.stopped == StopReason::epochs);
  CHECK(report.epochs == 6);
  CHECK(report.steps == steps);
  CHECK(report.pairs + report.dropped == 300);
  CHECK(report.dropped > 0);  // eight letters and the end are nine tokens
  CHECK(report.skipped == 0);
  REQUIRE(report.curve.size() == static_cast<std::size_t>((steps + 4) / 5));
  CHECK(report.curve.back().loss < 0.7 * report.curve.front().loss);
  for (std::size_t i = 0; i < report.curve.size(); ++i) {
    CHECK(report.curve[i].step == std::min(steps, static_cast<index_t>(5 * (i + 1))));
    CHECK(report.curve[i].gradient_norm > 0);
    if (i > 0) {
      CHECK(report.curve[i].tokens > report.curve[i - 1].tokens);
      CHECK(report.curve[i].seconds >= report.curve[i - 1].seconds);
      CHECK(report.curve[i].epoch > report.curve[i - 1].epoch);
    }
  }
  CHECK(report.curve[2].learning_rate == Approx(0.02 * std::sqrt(10.0 / 15)));
  REQUIRE(report.validations.size() == 6);
  CHECK(report.validations.back().loss < report.validations.front().loss);
  REQUIRE(report.best() != nullptr);
  CHECK(report.best()->loss <= report.validations.back().loss);
  CHECK(std::isnan(report.best()->bleu));
  CHECK_FALSE(nn::is_training(model));
  CHECK_THAT(report.text(), ContainsSubstring("6 epochs") && ContainsSubstring("all epochs are done"));
}

TEST_CASE("fit: the validation loss is that of the model without dropout and smoothing", "[train]") {
  auto model = toy::model<double>(0.5);
  auto options = toy::options(2);
  options.validation = toy::corpus(30, 2);
  options.validate_every = 0;
  const FitReport report = fit(model, toy::corpus(100), toy::Letters(), options);

  EncodedPairs pairs = encode_pairs(options.validation, toy::Letters());
  const Batches batches(pairs, 1, 2, {.tokens_per_batch = 100000});
  const auto whole = batches.in_order();
  REQUIRE(whole.size() == 1);
  CHECK(report.validations.back().loss == Approx(model.loss(batches.make(whole[0]), {}).item()).epsilon(1e-12));
}

TEST_CASE("fit: with an average of the weights, that is what is validated and what the model holds at the end", "[train]") {
  auto options = toy::options(4);
  options.validation = toy::corpus(20, 2);
  options.validate_every = 0;
  auto plain = toy::model(), averaged = toy::model();
  fit(plain, toy::corpus(100), toy::Letters(), options);
  options.average_decay = 0.8;
  const auto report = fit(averaged, toy::corpus(100), toy::Letters(), options);
  CHECK(toy::weights(averaged) != toy::weights(plain));
  const Validation validation(options.validation, toy::Letters(), {});
  CHECK(*validation.loss(averaged, nullptr) == Approx(report.validations.back().loss).epsilon(1e-6));
  CHECK(*validation.loss(plain, nullptr) != Approx(report.validations.back().loss).epsilon(1e-6));
}

TEST_CASE("fit: accumulating over k batches equals batches k times as large", "[train]") {
  auto whole = toy::model<double>(), split = toy::model<double>();
  auto options = toy::options(2);
  options.tokens_per_batch = 120;
  const auto a = fit(whole, toy::corpus(200), toy::Letters(), options);
  options.tokens_per_batch = 40;
  options.accumulate = 3;
  const auto b = fit(split, toy::corpus(200), toy::Letters(), options);
  REQUIRE(a.steps == b.steps);
  CHECK(a.curve.back().loss == Approx(b.curve.back().loss).epsilon(1e-12));
  const auto x = toy::weights(whole), y = toy::weights(split);
  for (std::size_t i = 0; i < x.size(); ++i) REQUIRE(std::abs(x[i] - y[i]) < 1e-9);
}

TEST_CASE("fit: the same options give the same bits, with any number of threads, and another seed does not", "[train]") {
  const auto train = [](int thread_count, std::uint64_t seed) {
    const WithThreads set(thread_count);
    auto model = toy::model(0.3);
    auto options = toy::options(2);
    options.seed = seed;
    fit(model, toy::corpus(100), toy::Letters(), options);
    return toy::weights(model);
  };
  const auto one = train(1, 1);
  CHECK(one == train(3, 1));
  CHECK(one != train(1, 2));
}

TEST_CASE("fit: a tokenizer is used where it is, and need not be one that can be copied", "[train]") {
  struct Counting : toy::Letters {
    Counting() = default;
    Counting(const Counting&) = delete;
    Counting& operator=(const Counting&) = delete;
    [[nodiscard]] std::vector<token_t> encode(const std::string& text) const { return ++encoded, toy::Letters::encode(text); }
    mutable std::atomic<int> encoded = 0;
  };
  const Counting tokenizer;
  auto model = toy::model(0);
  fit(model, toy::corpus(10), tokenizer, toy::options(1));
  CHECK(tokenizer.encoded >= 20);
}

TEST_CASE("fit: the caller's random numbers are left alone", "[train]") {
  auto model = toy::model(0.3);
  seed(77);
  default_generator().next();
  fit(model, toy::corpus(50), toy::Letters(), toy::options(1));
  CHECK(default_generator().seed() == 77);
  CHECK(default_generator().drawn() == 1);
}

TEST_CASE("fit: each limit ends the training", "[train]") {
  auto model = toy::model();
  auto options = toy::options();
  const auto ends = [&] { return fit(model, toy::corpus(100), toy::Letters(), options).stopped; };
  options.max_steps = 2;
  CHECK(ends() == StopReason::max_steps);
  options.max_steps = 0;
  options.max_seconds = 1e-9;
  CHECK(ends() == StopReason::max_seconds);
  options.max_seconds = 0;
  std::atomic<bool> stop{false};
  options.stop = &stop;
  index_t steps = 0;
  options.on_step = [&](const CurvePoint&) { stop = ++steps == 3; };
  CHECK(ends() == StopReason::interrupted);
  CHECK(steps == 3);

  options = toy::options(0);
  options.schedule = optim::Schedule({.kind = optim::ScheduleKind::constant, .learning_rate = 0});  // never better
  options.validation = toy::corpus(10, 2);
  options.validate_every = 2;
  options.patience = 3;
  const auto report = fit(model, toy::corpus(100), toy::Letters(), options);
  CHECK(report.stopped == StopReason::patience);
  CHECK(report.validations.size() == 4);
  CHECK(report.steps == 8);
}

TEST_CASE("fit: the best model by BLEU is kept, whatever comes after it", "[train]") {
  const TemporaryFolder folder;
  auto model = toy::model();
  auto options = toy::options(0);
  options.max_steps = 6;
  options.validate_every = 1;
  options.output = folder.path();
  options.best_by = Metric::bleu;
  options.validation = toy::corpus(20, 2);
  options.validation.pairs.resize(8);
  for (auto& pair : options.validation.pairs) pair.target = "a b c d";
  int call = 0;
  // The share of the sentences that are right rises to the third validation and then falls.
  options.translate = [&](const std::vector<std::string>& sources) {
    CHECK_FALSE(nn::is_training(model));
    CHECK_FALSE(grad_enabled());
    const std::size_t right = std::vector<std::size_t>{1, 4, 7, 6, 5, 2}.at(static_cast<std::size_t>(call++));
    std::vector<std::string> translations(sources.size(), "x x x x");
    for (std::size_t i = 0; i < right; ++i) translations[i] = "a b c d";
    return translations;
  };
  std::vector<float> best;
  options.on_validation = [&](const ValidationPoint& point, const std::vector<std::string>& translations) {
    CHECK(translations.size() == 8);
    if (point.best) best = toy::weights(model);
  };
  // BLEU counts words, the model letters.
  struct Words : toy::Letters {
    std::vector<token_t> encode(const std::string& text) const {
      std::vector<token_t> tokens;
      for (const char c : text)
        if (c != ' ') tokens.push_back(static_cast<token_t>(c - 'a' + 3));
      return tokens;
    }
  };
  const auto report = fit(model, toy::corpus(100), Words(), options);
  REQUIRE(report.validations.size() == 6);
  REQUIRE(report.best() != nullptr);
  CHECK(report.best()->step == 3);
  CHECK(report.best()->bleu > 80);
  CHECK(best != toy::weights(model));

  auto loaded = toy::model();
  io::load_state(loaded, io::SafetensorsFile::open(folder.path() / "best" / "model.safetensors"));
  CHECK(toy::weights(loaded) == best);
  io::load_state(loaded, io::SafetensorsFile::open(folder.path() / "last" / "model.safetensors"));
  CHECK(toy::weights(loaded) == toy::weights(model));
  CHECK(model_folder(folder.path()) == folder.path() / "best");
  CHECK(model_folder(folder.path() / "last") == folder.path() / "last");
  CHECK_THROWS_AS(model_folder(folder.path() / "other"), IoError);
}

TEST_CASE("fit: a gradient that is not finite costs a step, and a hundred in a row end the run", "[train]") {
  auto model = toy::model();
  auto options = toy::options(0);
  options.max_steps = 10;
  options.on_step = [&](const CurvePoint& point) { model.poisoned = point.step == 4 || point.step == 5; };
  auto report = fit(model, toy::corpus(100), toy::Letters(), options);
  CHECK(report.skipped == 2);
  CHECK(report.steps == 10);
  CHECK_THAT(report.text(), ContainsSubstring("2 steps skipped"));
  for (const float w : toy::weights(model)) REQUIRE(std::isfinite(w));

  const auto before = toy::weights(model);
  const TemporaryFolder folder;
  model.poisoned = true;
  options.on_step = {};
  options.max_steps = 1000;
  options.output = folder.path();
  CHECK_THROWS_WITH(fit(model, toy::corpus(100), toy::Letters(), options), ContainsSubstring("not finite in the last 100 steps"));
  CHECK(toy::weights(model) == before);
  CHECK_FALSE(std::filesystem::exists(folder.path() / "last"));  // a run that has diverged leaves what was before
  model.poisoned = false;
  options.validation = toy::corpus(10, 2);
  options.validate_every = 4;
  options.on_step = [&](const CurvePoint& point) {
    if (point.step == 4) model.head.bias->value().data()[0] = std::numeric_limits<float>::quiet_NaN();
  };
  CHECK_THROWS_WITH(fit(model, toy::corpus(100), toy::Letters(), options),
                    ContainsSubstring("the validation loss is not finite at step 4; a lower learning rate"));
  CHECK_FALSE(std::filesystem::exists(folder.path() / "last"));
}

TEST_CASE("fit: validation pairs that are too long are left out as in training, and counted", "[train]") {
  auto model = toy::model();
  auto options = toy::options(2);
  options.max_length = 6;
  options.validation = toy::corpus(20, 2);
  options.validate_every = 0;
  const auto fits = [](const std::string& sentence) { return sentence.size() + 1 <= 6; };
  index_t dropped = 0;
  for (const auto& pair : options.validation) dropped += fits(pair.source) ? 0 : 1;
  REQUIRE(dropped > 0);
  options.translate = [&](const std::vector<std::string>& sources) {
    for (const auto& source : sources)
      if (!fits(source)) throw ValueError("Translator: " + source + " is too long");
    return sources;
  };
  options.on_validation = [&](const ValidationPoint&, const std::vector<std::string>& translations) {
    REQUIRE(translations.size() == 20);
    for (std::size_t i = 0; i < 20; ++i) {
      const auto& source = options.validation.pairs[i].source;
      CHECK(translations[i] == (fits(source) ? source : ""));
    }
  };
  const auto report = fit(model, toy::corpus(100), toy::Letters(), options);
  CHECK(report.validations.size() == 2);
  CHECK(report.validation_dropped == dropped);
  CHECK(report.pairs + report.dropped == 100);
  CHECK_THAT(printed(model, options),
             ContainsSubstring("  validation " + std::to_string(20 - dropped) + " pairs (" + std::to_string(dropped) +
                               " left out: longer than 6 tokens), at the end"));
  options.validation.pairs.assign(3, {"hgfedcba", "abcdefgh"});
  CHECK_THROWS_WITH(fit(model, toy::corpus(100), toy::Letters(), options),
                    "fit: the validation pairs: Batches: none of 3 pairs has at most 6 tokens on each side");
}

TEST_CASE("fit: a folder that somebody else writes into is refused", "[train]") {
  const TemporaryFolder folder;
  auto options = toy::options(1);
  options.output = folder.path() / "run";
  auto model = toy::model();
  {
    const io::FolderLock lock(options.output), other(folder.path());
    CHECK_THROWS_WITH(fit(model, toy::corpus(100), toy::Letters(), options), ContainsSubstring("is in use: another training"));
    options.lock = &other;
    CHECK_THROWS_WITH(fit(model, toy::corpus(100), toy::Letters(), options), ContainsSubstring("expected that of output"));
    options.lock = &lock;
    fit(model, toy::corpus(100), toy::Letters(), options);
  }
  options.lock = nullptr;
  options.overwrite = true;
  options.on_step = [&](const CurvePoint&) { CHECK_THROWS_AS(io::FolderLock(options.output), IoError); };
  fit(model, toy::corpus(100), toy::Letters(), options);
  const io::FolderLock lock(options.output);  // free again
}

TEST_CASE("fit: a fall with an open end ends with the training", "[train]") {
  auto model = toy::model();
  auto options = toy::options(2);
  options.schedule = optim::Schedule({.kind = optim::ScheduleKind::linear, .learning_rate = 0.01});
  double rate = 1;
  options.on_step = [&](const CurvePoint& point) { rate = point.learning_rate; };
  const auto report = fit(model, toy::corpus(100), toy::Letters(), options);
  CHECK(rate == Approx(0.01 / static_cast<double>(report.steps + 1)));
  // By the clock if the clock ends it: what has passed of the time is what has gone of the rate.
  options.epochs = 0;
  options.max_seconds = 1;
  double before = 1;
  options.on_step = [&](const CurvePoint& point) {
    if (point.step == 1) std::this_thread::sleep_for(std::chrono::milliseconds(500));  // the second step's rate is chosen already
    if (point.step > 2) CHECK(point.learning_rate <= 0.005);
    CHECK(point.learning_rate <= before);
    before = point.learning_rate;
  };
  const auto timed = fit(model, toy::corpus(100), toy::Letters(), options);
  CHECK(timed.stopped == StopReason::max_seconds);
  // Nothing to fall towards.
  options.max_seconds = 0;
  const std::atomic<bool> stop = true;
  options.stop = &stop;
  CHECK_THROWS_WITH(fit(model, toy::corpus(100), toy::Letters(), options),
                    ContainsSubstring("has no end; give its steps, or epochs"));
}

TEST_CASE("fit: without a schedule the optimizer's learning rate is reached, and falls to 0 by the end", "[train]") {
  auto model = toy::model();
  auto options = toy::options(0);
  options.schedule = {};
  std::vector<double> rates;
  options.on_step = [&](const CurvePoint& point) { rates.push_back(point.learning_rate); };
  options.max_steps = 100;  // a tenth is warm-up
  fit(model, toy::corpus(100), toy::Letters(), options);
  CHECK(rates[0] == Approx(0.02 / 10));
  CHECK(rates[4] == Approx(0.02 / 2));
  CHECK(rates[9] == Approx(0.02));
  CHECK(rates[54] == Approx(0.02 * 46 / 91));
  CHECK(rates[99] == Approx(0.02 / 91));  // the last one moves the weights too
  rates.clear();
  options.max_steps = 10'000;
  std::atomic<bool> stop = false;
  options.stop = &stop;
  options.on_step = [&](const CurvePoint& point) {
    rates.push_back(point.learning_rate);
    stop = point.step == 3;
  };
  fit(model, toy::corpus(100), toy::Letters(), options);
  CHECK(rates.back() == Approx(0.02 * 3 / 400));  // of Adam
}

TEST_CASE("fit: a warm-up longer than half of the run is cut down, and said so", "[train]") {
  auto model = toy::model();
  auto options = toy::options(0);
  options.max_steps = 20;
  std::vector<double> rates;
  options.on_step = [&](const CurvePoint& point) { rates.push_back(point.learning_rate); };
  for (const auto kind : {optim::ScheduleKind::linear, optim::ScheduleKind::inverse_sqrt, optim::ScheduleKind::constant}) {
    rates.clear();
    options.schedule = optim::Schedule({.kind = kind, .learning_rate = 0.02, .warmup = 1000});
    const std::string text = printed(model, options);
    CHECK(*std::max_element(rates.begin(), rates.end()) == Approx(0.02));
    CHECK_THAT(text, ContainsSubstring("a warm-up of 1000 steps is more than half of the run; it is cut to 10"));
  }
}

TEST_CASE("fit: a warm-up that the clock cuts short is mentioned, also where nobody asked for it", "[train]") {
  auto model = toy::model();
  auto options = toy::options(0);
  options.schedule = {};
  options.max_seconds = 3;
  std::atomic<bool> stop = false;
  options.stop = &stop;
  options.on_step = [&](const CurvePoint& point) {  // half of the time is over when the second step ends
    if (point.step == 1) std::this_thread::sleep_for(std::chrono::milliseconds(1600));
    stop = point.step == 3;
  };
  CHECK_THAT(printed(model, options), ContainsSubstring("a warm-up of 400 steps is more than half of the run; it is cut to 2\n"));
}

TEST_CASE("fit: R-Drop passes each batch twice, which means nothing without dropout", "[train]") {
  auto options = toy::options(2);
  const auto train = [&](double dropout, double r_drop) {
    auto model = toy::model<double>(dropout);
    options.r_drop = r_drop;
    fit(model, toy::corpus(100), toy::Letters(), options);
    return toy::weights(model);
  };
  const auto plain = train(0, 0), twice = train(0, 5);
  for (std::size_t i = 0; i < plain.size(); ++i) REQUIRE(std::abs(plain[i] - twice[i]) < 1e-9);
  CHECK(train(0.3, 5) != train(0.3, 2));
  const auto parts = [&](index_t tokens, index_t accumulate) {
    options.tokens_per_batch = tokens, options.accumulate = accumulate;
    return train(0, 5);
  };
  const auto whole = parts(120, 1), split = parts(40, 3);
  for (std::size_t i = 0; i < whole.size(); ++i) REQUIRE(std::abs(whole[i] - split[i]) < 1e-9);
  auto model = toy::model();
  options.r_drop = -1;
  CHECK_THROWS_WITH(fit(model, toy::corpus(100), toy::Letters(), options), ContainsSubstring("r_drop is -1, expected 0 or more"));
}

TEST_CASE("fit: validates at each twentieth of the run where nothing else is said", "[train]") {
  auto model = toy::model();
  auto options = toy::options(0);
  options.max_steps = 60;
  options.validate_every = automatic;
  options.validation = toy::corpus(10, 2);
  const auto report = fit(model, toy::corpus(100), toy::Letters(), options);
  REQUIRE(report.validations.size() == 20);
  for (std::size_t i = 0; i < 20; ++i) CHECK(report.validations[i].step == static_cast<index_t>(3 * (i + 1)));
}

TEST_CASE("fit: what is automatic follows from the pairs and the width", "[train]") {
  struct Row {
    index_t pairs, tokens, epochs;
  };
  for (const auto& [pairs, tokens, epochs] :
       {Row{1'000, 1'024, 100}, Row{30'000, 2'048, 32}, Row{120'000, 2'880, 20}, Row{1'000'000, 4'928, 10}}) {
    const auto o = completed({}, {.pairs = pairs, .width = 256});
    CHECK(o.tokens_per_batch == tokens);
    CHECK(o.epochs == epochs);
    CHECK(o.max_steps == 0);
    CHECK(run_schedule(o, 777).at(778) == Approx(0).margin(1e-12));
  }
  // Muon if a batch has eight tokens for each channel, at rates that fall with the square root of the width; else Adam.
  const auto optimizer = [](index_t pairs, index_t width) { return *completed({}, {.pairs = pairs, .width = width}).optimizer; };
  const auto rate = [&](index_t pairs, index_t width) {
    return std::visit([](const auto& chosen) { return chosen.learning_rate; }, optimizer(pairs, width));
  };
  CHECK(std::string(optim::optimizer_name(optimizer(30'000, 128))) == "muon");
  CHECK(std::string(optim::optimizer_name(optimizer(120'000, 256))) == "muon");
  CHECK(std::string(optim::optimizer_name(optimizer(1'000'000, 512))) == "muon");
  CHECK(std::string(optim::optimizer_name(optimizer(3'000, 256))) == "adam");
  CHECK(rate(30'000, 128) == Approx(0.008));
  CHECK(rate(1'000'000, 512) == Approx(0.004));
  CHECK(rate(3'000, 256) == Approx(0.002));
  CHECK(automatic_schedule(optim::AdamOptions{}, true).kind == optim::ScheduleKind::linear);
  CHECK(automatic_schedule(optim::AdamOptions{}, false).kind == optim::ScheduleKind::inverse_sqrt);
  // An optimizer may be named by its kind alone.
  const auto of_kind = [](optim::OptimizerKind kind) {
    const auto o = completed({.optimizer_kind = kind}, {.pairs = 30'000, .width = 128});
    CHECK_FALSE(o.optimizer_kind);
    CHECK_NOTHROW(check(o));
    return *o.optimizer;
  };
  CHECK(std::get<optim::AdamOptions>(of_kind(optim::OptimizerKind::adam)).learning_rate == Approx(0.004));
  CHECK(std::get<optim::AdamWOptions>(of_kind(optim::OptimizerKind::adamw)).learning_rate == 1e-3);
  CHECK(std::get<optim::SgdOptions>(of_kind(optim::OptimizerKind::sgd)).momentum == 0.9);
  CHECK(std::get<optim::MuonOptions>(of_kind(optim::OptimizerKind::muon)).learning_rate == Approx(0.008));
  CHECK_THROWS_WITH(check({.optimizer = optim::SgdOptions{}, .optimizer_kind = optim::OptimizerKind::sgd}),
                    ContainsSubstring("optimizer and optimizer_kind exclude each other"));
  // Another kind of schedule has the same rate and warm-up.
  const auto cosine =
      run_schedule(completed({.schedule_kind = optim::ScheduleKind::cosine}, {.pairs = 30'000, .width = 128}), 500);
  CHECK(cosine.options().kind == optim::ScheduleKind::cosine);
  CHECK(cosine.options().warmup == 50);
  CHECK(cosine.at(50) == Approx(0.008));
  CHECK_THROWS_WITH(check({.epochs = 1, .schedule = optim::Schedule(), .schedule_kind = optim::ScheduleKind::cosine}),
                    ContainsSubstring("schedule and schedule_kind exclude each other"));
  CHECK_THROWS_WITH(check({.epochs = 1, .schedule_kind = optim::ScheduleKind::noam}), ContainsSubstring("noam"));
  // What is given stays.
  const auto o = completed({.epochs = 3, .tokens_per_batch = 77, .optimizer = optim::SgdOptions{}}, {.pairs = 1000});
  CHECK(o.epochs == 3);
  CHECK(o.max_steps == 0);
  CHECK(o.tokens_per_batch == 77);
  CHECK(optim::optimizer_name(*o.optimizer) == "sgd");
  CHECK(completed({.max_seconds = 5}, {.pairs = 1000}).epochs == 0);
  CHECK(completed({.max_steps = 5}, {.pairs = 1000}).epochs == 0);
}

TEST_CASE("fit: a warning says before the work begins that a corpus cannot be learnt from", "[train]") {
  auto model = toy::model();
  auto options = toy::options(1);
  text::Corpus corpus;
  for (int i = 0; i < 100; ++i) corpus.pairs.push_back({"abc", "abc"});
  const auto report = fit(model, corpus, toy::Letters(), options);
  REQUIRE(report.warnings.size() == 4);
  CHECK_THAT(report.warnings[0], ContainsSubstring("only 100 pairs"));
  CHECK_THAT(report.warnings[1], ContainsSubstring("source and target are the same in 100 % (100 of 100)"));
  CHECK_THAT(report.warnings[2], ContainsSubstring("only 1 distinct source, \"abc\" 100 times"));
  options.warn_of_corpus = false;
  CHECK(fit(model, corpus, toy::Letters(), options).warnings.empty());
}

TEST_CASE("fit: options that are out of range or do not fit each other are refused", "[train]") {
  auto model = toy::model();
  const auto refuses = [&](auto&& change) {
    auto options = toy::options();
    change(options);
    CHECK_THROWS_AS(fit(model, toy::corpus(20), toy::Letters(), options), ValueError);
  };
  refuses([](FitOptions& o) { o.epochs = -1; });
  refuses([](FitOptions& o) { o.epochs = 0; });  // nothing would end it
  refuses([](FitOptions& o) { o.max_seconds = std::nan(""); });
  refuses([](FitOptions& o) { o.label_smoothing = 1; });
  refuses([](FitOptions& o) { o.clip_norm = -1; });
  refuses([](FitOptions& o) { o.patience = 2; });
  refuses([](FitOptions& o) { o.validate_every = 5; });
  refuses([](FitOptions& o) { o.validate_every = 0; });
  refuses([](FitOptions& o) { o.resume = true; });
  refuses([](FitOptions& o) { o.best_by = Metric::bleu; });
  refuses([](FitOptions& o) { o.curve_every = 0; });
  refuses([](FitOptions& o) { o.tokens_per_batch = 0; });
  refuses([](FitOptions& o) { o.max_length = 1; });  // no pair is so short
  refuses([](FitOptions& o) { o.optimizer = optim::SgdOptions{.momentum = 2}; });
  CHECK_THROWS_AS(fit(model, text::Corpus(), toy::Letters(), toy::options()), ValueError);
  CHECK_THROWS_WITH(fit(model, text::Corpus(), toy::Letters(), toy::options()),
                    "Batches: the corpus is empty, expected a sentence pair or more");
}
