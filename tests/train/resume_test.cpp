#include <csignal>
#include <fstream>

#include "../catch.hpp"
#include "../io/limited_file_size.hpp"
#include "attend/train/interrupt.hpp"
#include "toy.hpp"

using namespace attend;
using namespace attend::train;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Dropout, accumulation and validation: all that a checkpoint has to remember.
FitOptions full_options() {
  auto options = toy::options(4);
  options.tokens_per_batch = 40;
  options.accumulate = 2;
  options.curve_every = 4;
  options.validation = toy::corpus(20, 2);
  options.validate_every = 7;
  options.checkpoint_seconds = 0;
  options.average_decay = 0.9;
  return options;
}

void check_equal(const FitReport& a, const FitReport& b) {
  CHECK(a.steps == b.steps);
  CHECK(a.epochs == b.epochs);
  CHECK(a.tokens == b.tokens);
  CHECK(a.skipped == b.skipped);
  REQUIRE(a.curve.size() == b.curve.size());
  for (std::size_t i = 0; i < a.curve.size(); ++i) {
    CHECK(a.curve[i].step == b.curve[i].step);
    CHECK(a.curve[i].epoch == b.curve[i].epoch);
    CHECK(a.curve[i].tokens == b.curve[i].tokens);
    CHECK(a.curve[i].loss == b.curve[i].loss);
    CHECK(a.curve[i].learning_rate == b.curve[i].learning_rate);
    CHECK(a.curve[i].gradient_norm == b.curve[i].gradient_norm);
  }
  REQUIRE(a.validations.size() == b.validations.size());
  for (std::size_t i = 0; i < a.validations.size(); ++i) {
    CHECK(a.validations[i].step == b.validations[i].step);
    CHECK(a.validations[i].loss == b.validations[i].loss);
    CHECK(a.validations[i].best == b.validations[i].best);
  }
}

constexpr auto everything = std::filesystem::copy_options::recursive | std::filesystem::copy_options::overwrite_existing;

std::string contents(const std::filesystem::path& path) { return io::read_file(path); }

}  // namespace

TEST_CASE("resume: stopped at any step and resumed, the bits are those of a run that was not stopped", "[train]") {
  for (const optim::OptimizerOptions& optimizer :
       {optim::OptimizerOptions(optim::AdamOptions{}), optim::OptimizerOptions(optim::AdamWOptions{}),
        optim::OptimizerOptions(optim::SgdOptions{.momentum = 0.9, .nesterov = true}),
        optim::OptimizerOptions(optim::MuonOptions{})}) {
    auto options = full_options();
    options.optimizer = optimizer;
    if (std::holds_alternative<optim::MuonOptions>(optimizer)) {  // as runs are where little is said
      options.validate_every = automatic;
      options.schedule = {};
      options.r_drop = 2;
    }
    auto whole = toy::model(0.3);
    const FitReport expected = fit(whole, toy::corpus(100), toy::Letters(), options);
    REQUIRE(expected.steps > 20);

    // A new model and a new process' worth of state for each piece, which ends after 1, 2, 3, ... steps: at the bounds of
    // epochs, before and after validations, between points of the curve.
    const TemporaryFolder folder;
    options.output = folder.path();
    std::atomic<bool> stop{false};
    options.stop = &stop;
    FitReport report;
    index_t pieces = 0;
    do {
      stop = false;
      index_t left = ++pieces;
      options.on_step = [&](const CurvePoint&) { stop = --left == 0; };
      auto model = toy::model(0.3);
      seed(1000 + static_cast<std::uint64_t>(pieces));
      report = fit(model, toy::corpus(100), toy::Letters(), options);
      options.resume = true;
      if (report.stopped != StopReason::interrupted) CHECK(toy::weights(model) == toy::weights(whole));
    } while (report.stopped == StopReason::interrupted && pieces < 100);
    CHECK(pieces > 5);
    CHECK(report.stopped == StopReason::epochs);
    check_equal(report, expected);
  }
}

TEST_CASE("resume: goes on from a periodic checkpoint after a crash, in double too", "[train]") {
  auto options = full_options();
  auto whole = toy::model<double>(0.3);
  fit(whole, toy::corpus(100), toy::Letters(), options);

  const TemporaryFolder folder;
  options.output = folder.path();
  options.checkpoint_every = 3;
  options.on_step = [&](const CurvePoint& point) {  // what a process that is killed then leaves behind
    if (point.step == 11) std::filesystem::copy(folder.path() / "last", folder.path() / "crashed" / "last", everything);
  };
  auto crashed = toy::model<double>(0.3), resumed = toy::model<double>(0.3);
  std::filesystem::create_directory(folder.path() / "crashed");
  fit(crashed, toy::corpus(100), toy::Letters(), options);
  options.output = folder.path() / "crashed";
  index_t first = 0;
  options.on_step = [&](const CurvePoint& point) { first = first ? first : point.step; };
  options.resume = true;
  fit(resumed, toy::corpus(100), toy::Letters(), options);
  CHECK(first == 10);
  CHECK(toy::weights(resumed) == toy::weights(whole));
}

TEST_CASE("resume: whatever exception ends a run, it goes on from there to the same bits", "[train]") {
  struct Odd {};  // no exception of any library
  auto options = full_options();
  options.translate = [](const std::vector<std::string>& sources) { return sources; };
  auto whole = toy::model(0.3);
  const FitReport expected = fit(whole, toy::corpus(100), toy::Letters(), options);
  for (const std::string place : {"on_step", "on_validation", "translate", "loss"}) {
    INFO(place);
    const TemporaryFolder folder;
    auto failing = options;
    failing.output = folder.path();
    auto model = toy::model(0.3);
    index_t last = 0;
    failing.on_step = [&](const CurvePoint& point) {
      last = point.step;
      if (place == "on_step" && last == 11) throw Odd();
    };
    failing.on_validation = [&](const ValidationPoint& point, const std::vector<std::string>&) {
      if (place == "on_validation" && point.step == 14) throw Odd();
    };
    failing.translate = [&](const std::vector<std::string>& sources) {
      if (place == "translate" && last == 14) throw ValueError("no translation");
      return sources;
    };
    int calls = 0;
    model.on_loss = [&] {  // the second part of a batch: the random numbers of the first are drawn
      if (place == "loss" && last == 10 && ++calls == 2) throw Odd();
    };
    if (place == "translate")
      CHECK_THROWS_WITH(fit(model, toy::corpus(100), toy::Letters(), failing), "fit: validation at step 14: no translation");
    else CHECK_THROWS_AS(fit(model, toy::corpus(100), toy::Letters(), failing), Odd);

    index_t first = 0;
    auto going_on = options;
    going_on.output = folder.path();
    going_on.resume = true;
    going_on.on_step = [&](const CurvePoint& point) { first = first ? first : point.step; };
    auto resumed = toy::model(0.3);
    seed(1000);
    const auto report = fit(resumed, toy::corpus(100), toy::Letters(), going_on);
    CHECK(first == last + 1);
    CHECK(toy::weights(resumed) == toy::weights(whole));
    check_equal(report, expected);
  }
}

TEST_CASE("resume: more epochs, and limits that count from the very beginning", "[train]") {
  const TemporaryFolder folder;
  auto options = toy::options(1);
  options.output = folder.path();
  auto model = toy::model();
  const auto first = fit(model, toy::corpus(100), toy::Letters(), options);
  options.resume = true;
  CHECK(fit(model, toy::corpus(100), toy::Letters(), options).steps == first.steps);  // nothing left to do
  options.epochs = 3;
  const auto second = fit(model, toy::corpus(100), toy::Letters(), options);
  CHECK(second.epochs == 3);
  CHECK(second.steps >= 3 * first.steps - 3);
  options.max_seconds = 1e-9;
  options.epochs = 0;
  CHECK(fit(model, toy::corpus(100), toy::Letters(), options).steps == second.steps);
}

TEST_CASE("resume: a longer run is validated at its own twentieths", "[train]") {
  const TemporaryFolder folder;
  auto options = toy::options(0);
  options.output = folder.path();
  options.max_steps = 60;
  options.validate_every = automatic;
  options.validation = toy::corpus(10, 2);
  auto model = toy::model();
  REQUIRE(fit(model, toy::corpus(100), toy::Letters(), options).validations.size() == 20);
  options.resume = true;
  options.max_steps = 120;
  const auto report = fit(model, toy::corpus(100), toy::Letters(), options);
  REQUIRE(report.validations.size() == 30);
  CHECK(report.validations[20].step == 66);
}

TEST_CASE("resume: a run that does not fit is refused with all that differs", "[train]") {
  const TemporaryFolder folder;
  auto options = toy::options(1);
  options.output = folder.path();
  auto model = toy::model();
  fit(model, toy::corpus(100), toy::Letters(), options);
  const auto before = contents(folder.path() / "last" / "training.safetensors");

  CHECK_THROWS_WITH(fit(model, toy::corpus(100), toy::Letters(), options), ContainsSubstring("holds another run"));
  options.resume = true;
  const auto refuses = [&](auto&& other_model, const text::Corpus& corpus, const toy::Letters& letters, const FitOptions& o,
                           const std::string& text) {
    CHECK_THROWS_AS(fit(other_model, corpus, letters, o), ValueError);
    CHECK_THROWS_WITH(fit(other_model, corpus, letters, o), ContainsSubstring("is of another run") && ContainsSubstring(text));
  };
  refuses(model, toy::corpus(101), toy::Letters(), options, "pairs 100 (this run: 101)");
  refuses(model, toy::corpus(100, 5), toy::Letters(), options,
          "is of another run: other sentence pairs in the corpus (their text, tokens or order)");
  refuses(model, toy::corpus(100), toy::Letters{.letters = 30}, options, "vocabulary 29 (this run: 33)");
  refuses(toy::Model<float>(0, 16), toy::corpus(100), toy::Letters(), options,
          "model.embedding.weight F32 [29, 12] (this run: F32 [29, 16])");
  refuses(toy::Model<double>(), toy::corpus(100), toy::Letters(), options, "(this run: F64 [29, 12])");
  auto frozen = toy::model();
  frozen.head.bias->set_requires_grad(false);
  refuses(frozen, toy::corpus(100), toy::Letters(), options, "optimizer.first_moment");
  auto changed = options;
  changed.seed = 8;
  changed.tokens_per_batch = 50;
  refuses(model, toy::corpus(100), toy::Letters(), changed, "seed 1 (this run: 8), tokens_per_batch 64 (this run: 50)");
  changed = options;
  changed.validation = toy::corpus(10, 2);
  refuses(model, toy::corpus(100), toy::Letters(), changed, "no validation pairs (this run: some)");
  changed = options;
  changed.optimizer = optim::SgdOptions{};
  refuses(model, toy::corpus(100), toy::Letters(), changed, "optimizer adam (this run: sgd)");

  CHECK(contents(folder.path() / "last" / "training.safetensors") == before);
  const TemporaryFolder empty;
  options.output = empty.path();
  CHECK_THROWS_AS(fit(model, toy::corpus(100), toy::Letters(), options), IoError);
  options.output = folder.path() / "mistyped";
  CHECK_THROWS_WITH(fit(model, toy::corpus(100), toy::Letters(), options), ContainsSubstring("fit: cannot resume: "));
  CHECK_FALSE(std::filesystem::exists(options.output));  // nothing is made if nothing was
}

TEST_CASE("resume: a damaged state is refused", "[train]") {
  const TemporaryFolder folder;
  auto options = toy::options(1);
  options.output = folder.path();
  auto model = toy::model();
  fit(model, toy::corpus(100), toy::Letters(), options);
  options.resume = true;
  const auto path = folder.path() / "last" / "training.safetensors";
  const std::string good = contents(path);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const auto at = text.find(from);
    REQUIRE(at != std::string::npos);
    REQUIRE(from.size() == to.size());
    return text.replace(at, from.size(), to);
  };
  for (const std::string& bad :
       {std::string(), std::string("junk"), good.substr(0, good.size() / 2),
        with("attend training state 1", "attend training state 9"), with("\"epoch\":\"1\"", "\"epoch\":\"x\""),
        with("\"epoch\":\"1\"", "\"epocx\":\"1\""), with("\"position\":\"0\"", "\"position\":\"9\"")}) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bad;
    CHECK_THROWS_AS(fit(model, toy::corpus(100), toy::Letters(), options), FormatError);
  }
}

TEST_CASE("resume: counts that no run has are refused, and texts are quoted without control characters", "[train]") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "training.safetensors";
  const auto model = toy::model();
  const optim::Adam<float> adam{optim::FlatParameters<float>(nn::parameters(model)), {}};
  const auto write = [&](const TrainingState& state, const std::string& vocabulary) {
    write_training_state(path, state, {{"vocabulary", vocabulary}}, model, adam.state(), "layout");
  };
  const auto read = [&] {
    auto memory = adam.state();
    return read_training_state(path, {{"vocabulary", "a"}}, model, memory, "layout");
  };
  for (const auto count : {&TrainingState::step, &TrainingState::epoch, &TrainingState::position, &TrainingState::tokens,
                           &TrainingState::twentieths, &TrainingState::since_best}) {
    TrainingState state;
    state.*count = 7;
    write(state, "a");
    CHECK(read().*count == 7);
    for (const index_t bad : {index_t{-1}, std::numeric_limits<index_t>::max()}) {
      state.*count = bad;
      write(state, "a");
      CHECK_THROWS_AS(read(), FormatError);
      CHECK_THROWS_WITH(read(), ContainsSubstring("is " + std::to_string(bad) + ", expected 0 to"));
    }
  }
  write({}, "b\x1B[2J\n");
  CHECK_THROWS_AS(read(), ValueError);
  CHECK_THROWS_WITH(read(), ContainsSubstring("vocabulary b?[2J? (this run: a)"));
}

TEST_CASE("overwrite: nothing of the old run is left, and foreign files are", "[train]") {
  const TemporaryFolder folder;
  auto options = toy::options(1);
  options.output = folder.path();
  options.validation = toy::corpus(10, 2);
  options.validate_every = 0;
  auto model = toy::model();
  fit(model, toy::corpus(100), toy::Letters(), options);
  std::ofstream(folder.path() / "best" / "notes.txt") << "mine";
  options.validation = {};
  options.validate_every = automatic;
  options.overwrite = true;
  fit(model, toy::corpus(100), toy::Letters(), options);
  CHECK_FALSE(std::filesystem::exists(folder.path() / "best" / "model.safetensors"));
  CHECK(std::filesystem::exists(folder.path() / "best" / "notes.txt"));
  CHECK(model_folder(folder.path()) == folder.path() / "last");
}

#if !defined(_WIN32)
TEST_CASE("a disk that is full for a while costs warnings, and the checkpoints of that while", "[train]") {
  const TemporaryFolder folder;
  auto options = toy::options(2);
  options.output = folder.path();
  options.checkpoint_every = 2;
  options.keep_checkpoints = 20;
  options.validation = toy::corpus(10, 2);
  options.validate_every = 3;
  auto whole = toy::model(), model = toy::model();
  const auto expected = fit(whole, toy::corpus(100), toy::Letters(), options);
  REQUIRE(expected.steps > 12);
  options.overwrite = true;
  std::optional<LimitedFileSize> full;
  options.on_step = [&](const CurvePoint& point) {
    if (point.step == 5) full.emplace(2000);
    if (point.step == 9) full.reset();
  };
  const auto report = fit(model, toy::corpus(100), toy::Letters(), options);
  CHECK(toy::weights(model) == toy::weights(whole));
  // Of the corpus; the best and the checkpoint of step 6, kept too; both of step 8.
  REQUIRE(report.warnings.size() == 1 + 3 + 2);
  for (std::size_t i = 1; i < report.warnings.size(); ++i)
    CHECK_THAT(report.warnings[i], ContainsSubstring("File too large; training goes on, and the next checkpoint tries again"));
  CHECK_FALSE(std::filesystem::exists(folder.path() / "step-6"));
  CHECK(std::filesystem::exists(folder.path() / "step-10"));
  CHECK_FALSE(report.validations[1].best);  // best/ does not have it
  CHECK(report.validations[2].best);
  auto saved = toy::model();
  io::load_state(saved, io::SafetensorsFile::open(folder.path() / "last" / "model.safetensors"));
  CHECK(toy::weights(saved) == toy::weights(whole));
}
#endif

#if !defined(_WIN32)
TEST_CASE("a disk that is full at the end costs an exception, not the checkpoint before", "[train]") {
  const TemporaryFolder folder;
  auto options = toy::options(2);
  options.output = folder.path();
  options.checkpoint_every = 4;
  auto model = toy::model();
  std::optional<LimitedFileSize> full;
  options.on_step = [&](const CurvePoint& point) {
    if (point.step == 6) full.emplace(2000);
  };
  CHECK_THROWS_WITH(fit(model, toy::corpus(100), toy::Letters(), options),
                    ContainsSubstring("fit: the last checkpoint: write: "));
  full.reset();
  for (const auto& entry : std::filesystem::directory_iterator(folder.path() / "last"))
    CHECK(entry.path().filename().string().find("tmp") == std::string::npos);

  auto whole = toy::model(), resumed = toy::model();
  index_t first = 0;
  options.on_step = [&](const CurvePoint& point) { first = first ? first : point.step; };
  options.resume = true;
  fit(resumed, toy::corpus(100), toy::Letters(), options);
  CHECK(first == 5);
  options = toy::options(2);
  fit(whole, toy::corpus(100), toy::Letters(), options);
  CHECK(toy::weights(resumed) == toy::weights(whole));
}
#endif

#if defined(_WIN32)
TEST_CASE("StopOnInterrupt: Ctrl-C and Ctrl-Break set the flag once, and the handler from before comes back", "[train]") {
  const auto before = std::signal(SIGINT, SIG_IGN);
  for (const int signal : {SIGINT, SIGBREAK}) {
    const StopOnInterrupt interrupt;
    CHECK_FALSE(interrupt.flag());
    std::raise(signal);
    CHECK(interrupt.flag());
    CHECK(std::signal(signal, SIG_IGN) == SIG_DFL);  // so that the second one ends the program
  }
  CHECK(std::signal(SIGINT, before) == SIG_IGN);
}
#endif

#if !defined(_WIN32)
TEST_CASE("StopOnInterrupt: a signal sets the flag, and the handler from before comes back", "[train]") {
  const auto hang_up_before = std::signal(SIGHUP, SIG_DFL);  // these tests may themselves run under nohup
  struct sigaction before {
  }, after{};
  sigaction(SIGINT, nullptr, &before);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
    const StopOnInterrupt interrupt;
    CHECK_FALSE(interrupt.flag());
    std::raise(signal);
    CHECK(interrupt.flag());
  }
  {
    std::signal(SIGHUP, SIG_IGN);  // as nohup does
    const StopOnInterrupt interrupt;
    std::raise(SIGHUP);
    CHECK_FALSE(interrupt.flag());
  }
  std::signal(SIGHUP, hang_up_before);
  sigaction(SIGINT, nullptr, &after);
  CHECK(before.sa_handler == after.sa_handler);
  const StopOnInterrupt again;
  CHECK_FALSE(again.flag());
}
#endif

#if !defined(_WIN32)
TEST_CASE("StopOnInterrupt: SIGTERM and SIGUSR1 may come again, also when the program is about to end", "[train]") {
  for (const int signal : {SIGTERM, SIGUSR1}) {
    {
      StopOnInterrupt interrupt;
      for (int times = 0; times < 3; ++times) std::raise(signal);
      CHECK(interrupt.flag());
      interrupt.ignore_afterwards();
    }
    std::raise(signal);
    CHECK(std::signal(signal, SIG_DFL) == SIG_IGN);
  }
  struct sigaction now {};
  const StopOnInterrupt interrupt;
  for (const int signal : {SIGINT, SIGHUP}) {  // of which the second one has its usual effect
    sigaction(signal, nullptr, &now);
    CHECK((now.sa_handler == SIG_IGN || (static_cast<unsigned>(now.sa_flags) & static_cast<unsigned>(SA_RESETHAND)) != 0));
  }
}
#endif
