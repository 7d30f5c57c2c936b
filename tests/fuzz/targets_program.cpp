// Targets of the program `translate`: its command lines, what follows from their options, the settings that a run leaves behind.
// No command runs.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "../../examples/translate/commands/commands.hpp"
#include "../../examples/translate/commands/train_settings.hpp"
#include "../../examples/translate/flags/model_flags.hpp"
#include "../../examples/translate/flags/place.hpp"
#include "../../examples/translate/flags/search_flags.hpp"
#include "../../examples/translate/flags/train_flags.hpp"
#include "../../examples/translate/help.hpp"
#include "attend/compiled.hpp"
#include "attend/nn/linear.hpp"
#include "attend/optim/any_optimizer.hpp"
#include "attend/train/completed.hpp"
#include "attend/train/recipe.hpp"
#include "attend/translate/translator_options.hpp"
#include "input.hpp"

using namespace attend;
namespace fs = std::filesystem;

namespace fuzz {

namespace {

/// The words of a command line, last one first, as CLI11 takes them: a line each.
std::vector<std::string> words_of(Bytes bytes) {
  constexpr std::size_t most = 64;
  std::string_view rest = text_of(bytes);
  std::vector<std::string> words;
  while (!rest.empty() && words.size() < most) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    // The system ends a word at a zero byte.
    words.emplace_back(rest.substr(0, end).substr(0, rest.substr(0, end).find('\0')));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  std::reverse(words.begin(), words.end());
  return words;
}

/// Thrown where a command would begin.
struct Parsed {};

/// Parses; false if the command line is refused, or asks for help.
bool parses(CLI::App& app, Bytes bytes) {
  try {
    app.parse(words_of(bytes));
    return true;
  } catch (const Parsed&) {
    return true;
  } catch (const CLI::ParseError& error) {
    std::ostringstream out, err;
    app.exit(error, out, err);
    expect(!out.str().empty() || !err.str().empty(), "a command line that is not taken has an answer");
    return false;
  }
}

/// The options of all commands in one.
struct Flags {
  translate::ModelFlags model;
  translate::TrainFlags train;
  translate::SearchFlags search;
  translate::Place place;
  bool has_learnt = false;
};

void check_finite(std::initializer_list<double> values) {
  for (const double value : values) expect(std::isfinite(value), "an option that is taken is a finite number");
}

/// What the options of training come to for a corpus of 1000 pairs. Throws ValueError for those that do not go together.
void check_training(const Flags& flags) {
  const auto recipe = train::recipe(1000, flags.train.minutes, 4);
  const auto sizes = nn::model_options(flags.model.options(500, recipe));
  nn::check(sizes);
  auto o = flags.train.options({.pairs = 1000, .width = sizes.encoder.d_model}, flags.has_learnt, sizes.decoder.d_model);
  o.validation.pairs = {{"one", "uno"}};
  o.translate = [](const std::vector<std::string>& sources) { return sources; };
  o.output = "run";
  o.csv.clear();
  train::check(o);
  check_finite({o.max_seconds, o.clip_norm, o.label_smoothing, o.r_drop, o.distillation_weight, o.distillation_temperature,
                o.average_decay});
  const nn::Linear<float> linear(2, 2);
  const optim::AnyOptimizer<float> optimizer(optim::FlatParameters<float>({linear.weight, *linear.bias}, {linear.weight.value()}),
                                             *o.optimizer);
  const optim::Schedule schedule = o.schedule ? *o.schedule : train::automatic_schedule(*o.optimizer, true);
  check_finite({optimizer.learning_rate(), schedule.options().learning_rate});
  std::visit(
      [](const auto& chosen) {
        if constexpr (requires { chosen.matrix_rate; }) check_finite({chosen.matrix_rate});
        if constexpr (requires { chosen.weight_decay; }) check_finite({chosen.weight_decay});
        if constexpr (requires { chosen.momentum; }) check_finite({chosen.momentum});
      },
      *o.optimizer);
}

}  // namespace

int command_line(Bytes bytes) {
  CLI::App app{"", "translate"};
  app.formatter(std::make_shared<translate::HelpFormatter>());
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.require_subcommand(1);
  app.fallthrough();
  app.set_version_flag("--version", std::string("translate"));
  int threads = 0;
  app.add_option("--threads", threads)->check(CLI::Range(1, 1024));
  app.parse_complete_callback([] { throw Parsed{}; });  // it is called before those of the commands
  for (const auto add : {&translate::add_demo, &translate::add_train, &translate::add_prepare, &translate::add_distill,
                         &translate::add_run, &translate::add_rate, &translate::add_shortlist, &translate::add_explain,
                         &translate::add_average, &translate::add_score, &translate::add_bench})
    add(app);
  parses(app, bytes);
  return 0;
}
std::vector<std::string> command_line_seeds() {
  return {"train\n--pairs\na.tsv\n--out\nrun\n--minutes\n5\n--preset=tiny\n--freeze\nencoder.*\n--reverse",
          "run\n--model\na\n--model\nb\n--beam\n8\n--n-best=2\n--suppress\nword\n--unknown\nreplace\n--format\njson",
          "run\n--model\na\n--sample\n--temperature\n0.5\n--top-k\n10\n--seed\n7\n--stream",
          "--threads\n4\ndemo\n--seconds\n3\n--no-input",
          "average\na\nb\n--out\nc\n--last\n3",
          "score\n--reference\na\n--metric\nchrf\n--only-score",
          "shortlist\n--help",
          "--version",
          "explain\none small house\n--model\na\n--out\npage.html",
          "bench\n--length\n9\n--precision\nint8",
          "rate\n--model\na\n--alignments",
          "prepare\n--pairs\na.tsv\n--out\nb\n--test-size\n5",
          "distill\n--teacher\na\n--pairs\nb.tsv\n--out\nc\n--preset\ntiny\n--n-best\n3\n--sample\n--seed\n7"};
}

int command_options(Bytes bytes) {
  CLI::App app{"", "options"};
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  Flags flags;
  flags.model.add_to(app);
  flags.train.add_to(app);
  // Both have one of this name.
  app.remove_option(app.get_option("--seed"));
  flags.search.add_to(app);
  flags.place.add_to(app, true);
  app.add_flag("--has-learnt", flags.has_learnt);
  if (!parses(app, bytes)) return 0;
  answers<ValueError>([&] { check_training(flags); });
  answers<ValueError>([&] { decode::detail::check_translator(flags.search.over({})); });
  answers<ValueError>([&] { flags.place.with_types([](auto) {}); });
  return 0;
}
std::vector<std::string> command_options_seeds() {
  return {"--preset\nbase\n--d-model\n96\n--heads\n6\n--layers\n2\n--dropout\n0.2\n--activation\ngelu\n--norm\npre\n--tie\nhead",
          "--minutes\n3\n--optimizer\nmuon\n--matrix-rate\n0.5\n--no-cautious\n--momentum\n0.9\n--warmup\n50\n--schedule\ncosine",
          "--epochs\n4\n--optimizer\nsgd\n--learning-rate\n0.1\n--weight-decay\n0.01\n--clip-norm\n1\n--average-decay\n0.99",
          "--schedule\nnoam\n--warmup\n400\n--max-steps\n1000\n--r-drop\n5\n--label-smoothing\n0.1\n--has-learnt",
          "--beam\n6\n--length-penalty\n1\n--normalization\nmarian\n--stop\nfirst\n--coverage\n0.2\n--max-tokens\n90\n--min-"
          "tokens\n2",
          "--sample\n--temperature\n0.8\n--top-p\n0.9\n--device\ncpu\n--precision\nint8"};
}

int train_settings(Bytes bytes) {
  const fs::path folder = scratch() / "settings";
  fs::create_directories(folder);
  put(folder / translate::settings_name, bytes);
  CLI::App app{"", "train"};
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  Flags flags;
  index_t vocabulary = 0;
  std::vector<std::string> freeze;
  flags.model.add_to(app);
  flags.train.add_to(app);
  flags.place.add_to(app, false);
  app.add_option("--vocabulary", vocabulary)->check(CLI::Range(8, 1 << 20));
  app.add_option("--freeze", freeze)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->expected(1);
  app.add_flag("--reverse", flags.has_learnt);
  const auto path = folder / translate::settings_name;
  answers<FormatError, IoError>([&] { translate::restore_settings(app, folder, io::read_file(path), path.string()); });
  return 0;
}
std::vector<std::string> train_settings_seeds() {
  return {
      R"({"minutes": ["5"], "preset": ["tiny"], "freeze": ["a", "b"], "reverse": ["true"], "vocabulary": ["500"]})",
      R"({"dropout": ["0.1"], "optimizer": ["adamw"], "epochs": ["3"], "precision": ["float32"], "seed": ["18446744073709551615"]})"};
}

}  // namespace fuzz
