// translate train: a model from sentence pairs.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "attend/io/json.hpp"
#include "attend/io/model.hpp"
#include "attend/text/bleu.hpp"
#include "attend/text/corpus.hpp"
#include "attend/text/sentencepiece.hpp"
#include "attend/train/fit.hpp"
#include "attend/train/interrupt.hpp"
#include "commands.hpp"
#include "model_flags.hpp"
#include "search_flags.hpp"
#include "train_flags.hpp"

namespace translate {

namespace {

using namespace attend;
namespace fs = std::filesystem;

struct Flags {
  std::string pairs, source, target, validation_pairs, out;
  index_t validation_size = 1000, test_size = 0, vocabulary = 8000, max_characters = 1000;
  bool reverse = false, resume = false, overwrite = false;
  ModelFlags model;
  TrainFlags train;
};

/// What the run was started with is kept beside the model, so that `--resume --out FOLDER` alone goes on.
constexpr const char* settings_name = "train.json";

void save_settings(const CLI::App& command, const fs::path& out) {
  io::Json json = io::Json::object();
  for (const CLI::Option* option : command.get_options())
    if (option->count() > 0 && option->get_lnames().size() == 1) json[option->get_lnames().front()] = option->results();
  for (const char* name : {"resume", "overwrite", "out", "help"}) json.erase(name);
  for (const char* name : {"pairs", "source", "target", "validation-pairs"})
    if (json.contains(name)) json[name] = std::vector<std::string>{fs::absolute(json[name][0].get<std::string>()).string()};
  fs::create_directories(out);
  io::write_json(out / settings_name, json);
}

/// Takes over the settings of the run that is resumed, but for what the command line says anew.
void restore_settings(CLI::App& command, const fs::path& out) {
  if (!fs::exists(out / settings_name)) throw IoError("train: --resume, but there is no run in " + out.string());
  const auto json = io::read_json(out / settings_name);
  const io::JsonObject settings(json, (out / settings_name).string());
  for (CLI::Option* option : command.get_options()) {
    if (option->count() > 0 || option->get_lnames().size() != 1 || !settings.contains(option->get_lnames().front())) continue;
    option->add_result(settings.get<std::vector<std::string>>(option->get_lnames().front()));
    option->run_callback();
  }
}

text::Corpus read_corpus(const Flags& flags) {
  const text::ReadOptions how{.max_characters = flags.max_characters};
  check_value(
      flags.pairs.empty() != (flags.source.empty() && flags.target.empty()) && flags.source.empty() == flags.target.empty(),
      "train", "give the sentence pairs, either by --pairs or by --source and --target");
  auto corpus = flags.pairs.empty() ? text::read_aligned(flags.source, flags.target, how) : text::read_tsv(flags.pairs, how);
  std::fprintf(stderr, "train: %s\n", corpus.report.text().c_str());
  if (corpus.empty()) throw ValueError("train: there is no sentence pair to train on");
  return flags.reverse ? corpus.reversed() : corpus;
}

text::Split split(const Flags& flags) {
  auto corpus = read_corpus(flags);
  const bool own_validation = !flags.validation_pairs.empty();
  // Of a small file, a tenth at most is held out, lest too little is left to learn from.
  const index_t validation = own_validation ? 0 : std::min(flags.validation_size, corpus.size() / 10);
  if (!own_validation && validation < flags.validation_size)
    std::fprintf(stderr, "train: %lld pairs are few, so %lld of them are for validation instead of %lld\n",
                 static_cast<long long>(corpus.size()), static_cast<long long>(validation),
                 static_cast<long long>(flags.validation_size));
  auto parts =
      text::split_by_source(std::move(corpus), {.validation = validation, .test = flags.test_size, .seed = flags.train.fit.seed});
  if (own_validation) {
    parts.validation = text::read_tsv(flags.validation_pairs, {.max_characters = flags.max_characters});
    if (flags.reverse) parts.validation = parts.validation.reversed();
  }
  return parts;
}

void report_test(const Flags& flags, const text::Corpus& test, const text::SentencePiece& tokenizer) {
  const auto best = fs::path(flags.out) / (fs::exists(fs::path(flags.out) / "best") ? "best" : "last");
  const decode::Translator translator(io::load_model<float>(best), tokenizer);
  const auto translations = translator(test.sources());
  std::printf("test, %lld pairs, beam 4, %s: %s\n", static_cast<long long>(test.size()), best.string().c_str(),
              text::bleu(translations, test.targets()).text().c_str());
  for (index_t i = 0; i < std::min<index_t>(10, test.size()); ++i)
    std::printf("  %s\n    %s\n    reference: %s\n", test[i].source.c_str(), translations[static_cast<std::size_t>(i)].c_str(),
                test[i].target.c_str());
}

void train_model(CLI::App& command, Flags& flags) {
  const fs::path out = flags.out;
  if (flags.resume) restore_settings(command, out);
  const auto parts = split(flags);
  seed(flags.train.fit.seed);
  const auto tokenizer = flags.resume ? io::load_tokenizer<text::SentencePiece>(out / "last")
                                      : text::SentencePiece::train(parts.train, {.vocabulary = flags.vocabulary});
  auto model = [&] {
    if (!flags.resume) return nn::Transformer<float>(flags.model.options(tokenizer.size()));
    return io::load_model<float>(out / "last");
  }();
  std::fprintf(stderr,
               "train: %lld pairs, %lld for validation, %lld for test; %lld subwords, %.1f million parameters, %d threads\n",
               static_cast<long long>(parts.train.size()), static_cast<long long>(parts.validation.size()),
               static_cast<long long>(parts.test.size()), static_cast<long long>(tokenizer.size()),
               static_cast<double>(nn::parameter_count(model)) / 1e6, threads());

  auto options = flags.train.options(model.options.decoder.d_model);
  options.validation = parts.validation;
  if (parts.validation.empty()) options.best_by = train::Metric::loss;
  options.max_length = std::min(options.max_length, model.options.decoder.max_length);
  options.output = out;
  options.resume = flags.resume;
  options.overwrite = flags.overwrite;
  const decode::Translator greedy(model, tokenizer, {.beam = 1});
  options.translate = [&](const std::vector<std::string>& sources) { return greedy(sources); };
  const train::StopOnInterrupt interrupt;
  options.stop = &interrupt.flag();
  if (!flags.resume) save_settings(command, out);
  const auto report = train::fit(model, parts.train, tokenizer, options);
  if (report.stopped == train::StopReason::interrupted) {
    std::fprintf(stderr, "train: stopped; go on with: translate train --resume --out %s\n", flags.out.c_str());
    exit_code = 130;
    return;
  }
  if (!parts.test.empty()) report_test(flags, parts.test, tokenizer);
  std::fprintf(stderr, "train: translate with: translate run --model %s\n",
               (out / (fs::exists(out / "best") ? "best" : "last")).string().c_str());
}

}  // namespace

void add_train(CLI::App& app) {
  auto* command = app.add_subcommand("train", "Train a model on sentence pairs");
  auto flags = std::make_shared<Flags>();
  command->add_option("--pairs", flags->pairs, "File with a pair a line, source and target parted by a tab");
  command->add_option("--source", flags->source, "File with the source sentences, a line each");
  command->add_option("--target", flags->target, "File with their translations, line for line");
  command->add_flag("--reverse", flags->reverse, "Translate the other way, from target to source");
  command->add_option("--out", flags->out, "Folder for the checkpoints: best/ and last/, both whole models")->required();
  command->add_flag("--resume", flags->resume, "Go on from the last checkpoint in --out, with the options of that run");
  command->add_flag("--overwrite", flags->overwrite, "Begin anew where --out holds another run");
  command->add_option("--validation-pairs", flags->validation_pairs,
                      "File with pairs to validate with, in place of held-out ones");
  command->add_option("--validation-size", flags->validation_size, "Pairs to hold out for validation")
      ->check(CLI::Range(0, 1 << 30))
      ->capture_default_str();
  command->add_option("--test-size", flags->test_size, "Pairs to hold out and score the best model with at the end")
      ->check(CLI::Range(0, 1 << 30))
      ->capture_default_str();
  command->add_option("--vocabulary", flags->vocabulary, "Subwords of both languages together")
      ->check(CLI::Range(8, 1 << 20))
      ->capture_default_str();
  command->add_option("--max-characters", flags->max_characters, "Pairs with a longer side are left out")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str();
  flags->model.add_to(*command);
  flags->train.add_to(*command);
  command->callback([command, flags] { train_model(*command, *flags); });
}

}  // namespace translate
