// translate demo: the whole way in a minute and a half, on a corpus that the program brings along.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "attend/io/model.hpp"
#include "attend/text/bleu.hpp"
#include "attend/text/sentencepiece.hpp"
#include "attend/text/utf8.hpp"
#include "attend/train/fit.hpp"
#include "attend/train/interrupt.hpp"
#include "attend/translate/translator.hpp"
#include "commands.hpp"
#include "console.hpp"
#include "demo_corpus/grammar.hpp"
#include "line_input.hpp"
#include "pages/attention.hpp"
#include "pages/report.hpp"

namespace translate {

namespace {

using namespace attend;
namespace fs = std::filesystem;

struct DemoCommand {
  double seconds = 75;
  std::uint64_t seed = 1;
  index_t d_model = 128, heads = 4, layers = 2, d_ff = 384, vocabulary = 500;
  std::string report = "report.html", out;
  bool no_input = false;
};

constexpr std::size_t watched = 3;  // sentences whose translations are shown as the model learns
constexpr std::size_t shown_at_end = 12;

/// Sources and what became of them, side by side if they fit a terminal of 80 columns. A model that has learnt nothing yet
/// babbles, so long translations are cut.
void print_translations(const text::Corpus& pairs, const std::vector<std::string>& outputs, std::size_t count, bool marked) {
  constexpr index_t column = 38, longest = 60;  // code points
  for (std::size_t i = 0; i < std::min({count, outputs.size(), pairs.pairs.size()}); ++i) {
    const auto& [source, target] = pairs.pairs[i];
    auto points = text::decode_utf8(outputs[i]);
    if (count_of(points) > longest) points.resize(longest - 1), points += U'…';
    const std::string space(static_cast<std::size_t>(std::max<index_t>(0, column - text::count_code_points(source))), ' ');
    std::printf("  %s%s -> %s\n", source.c_str(), space.c_str(), text::encode_utf8(points).c_str());
    if (marked && outputs[i] != target) std::printf("      expected: %s\n", target.c_str());
  }
}

text::Corpus to_corpus(const std::vector<demo::Pair>& pairs) {
  text::Corpus corpus;
  for (const auto& pair : pairs) corpus.pairs.push_back({pair.source, pair.target});
  return corpus;
}

train::FitOptions fit_options(const DemoCommand& flags) {
  train::FitOptions o;
  o.epochs = 0;
  o.max_seconds = flags.seconds;
  o.tokens_per_batch = 1500;
  o.label_smoothing = 0.05;
  o.seed = flags.seed;
  o.validate_every = 100;
  o.best_by = train::Metric::bleu;
  o.patience = 6;  // once everything is learnt, the time is better spent otherwise
  o.progress.line_seconds = 5;
  return o;
}

/// Prints what the model makes of some sentences now, and keeps it for the report.
void watch(const train::ValidationPoint& point, const std::vector<std::string>& translations, const text::Corpus& validation,
           std::vector<report::Progress>& progress) {
  std::printf("\nafter %lld steps, %.0f s: BLEU %.1f on %lld validation pairs\n", static_cast<long long>(point.step),
              point.seconds, point.bleu, static_cast<long long>(validation.size()));
  print_translations(validation, translations, watched, false);
  std::fflush(stdout);
  for (std::size_t i = 0; i < std::min(progress.size(), translations.size()); ++i)
    progress[i].outputs.push_back({point.step, translations[i]});
}

report::ReportData make_report(const DemoCommand& flags, const train::FitReport& trained, index_t parameters) {
  report::ReportData data;
  data.title = "translate demo";
  data.subtitle = "An encoder-decoder Transformer learnt to translate English into Spanish, from nothing, on this machine.";
  data.settings = {{"d_model", std::to_string(flags.d_model)},
                   {"heads", std::to_string(flags.heads)},
                   {"layers", std::to_string(flags.layers) + " + " + std::to_string(flags.layers)},
                   {"d_ff", std::to_string(flags.d_ff)},
                   {"threads", std::to_string(threads())},
                   {"seed", std::to_string(flags.seed)}};
  data.parameters = parameters;
  data.seconds = trained.seconds;
  data.tokens_per_second = trained.seconds > 0 ? static_cast<double>(trained.tokens) / trained.seconds : 0;
  for (const auto& p : trained.curve) data.curve.push_back({p.step, p.seconds, p.tokens, p.loss, p.learning_rate});
  for (const auto& v : trained.validations) data.validations.push_back({v.step, v.seconds, v.loss, v.bleu});
  return data;
}

/// Sentences from the terminal, until there are no more.
void talk(const decode::Translator<text::SentencePiece, float>& translator) {
  std::printf("\nYour own sentences, in words like those above (an empty line ends):\n");
  LineInput input;
  std::string line, fault;
  while (std::printf("> "), std::fflush(stdout), input.next(line, fault)) {
    if (!fault.empty()) {
      std::printf("  (the sentence %s)\n", fault.c_str());
      continue;
    }
    if (line.find_first_not_of(" \t") == std::string::npos) return;
    try {
      std::printf("  %s\n", translator(line).c_str());
    } catch (const Error& e) {
      std::printf("  (%s)\n", e.what());
    }
  }
  std::printf("\n");  // Ctrl-D leaves the cursor after the prompt
}

/// Finds out, before the work begins, what would keep it from ending well.
void check_outputs(const DemoCommand& flags) {
  std::error_code ignored;
  if (!flags.report.empty()) {
    if (fs::is_directory(flags.report, ignored))
      throw IoError("demo: ", flags.report, " is a folder, expected a file for the report");
    const auto folder = fs::absolute(flags.report).parent_path();
    if (!attend::detail::system::is_writable(folder))
      throw IoError("demo: no report can be written to ", folder.string(), ": ", std::generic_category().message(errno),
                    " (--report says where)");
  }
  if (flags.out.empty() || !fs::exists(flags.out, ignored)) return;
  if (!fs::is_directory(flags.out, ignored)) throw IoError("demo: ", flags.out, " is a file, expected a folder");
  check_value(fs::is_empty(flags.out), "demo", flags.out, " is not empty; --out is a new folder for the model");
}

nn::Transformer<float> make_model(const DemoCommand& flags, index_t vocabulary) {
  return nn::Transformer<float>({.vocabulary = vocabulary,
                                 .d_model = flags.d_model,
                                 .heads = flags.heads,
                                 .d_ff = flags.d_ff,
                                 .layers = flags.layers,
                                 .dropout = 0.1,
                                 .max_length = 128,
                                 .share_embeddings = true,
                                 .tie_head = true});
}

/// Trains, and shows the validations as they come.
train::FitReport learn(const DemoCommand& flags, nn::Transformer<float>& model, const text::SentencePiece& tokenizer,
                       const text::Corpus& pairs, const text::Corpus& validation, std::vector<report::Progress>& progress) {
  auto options = fit_options(flags);
  options.validation = validation;
  const decode::Translator greedy(model, tokenizer, {.beam = 1, .batch_sentences = 128});
  options.translate = [&](const std::vector<std::string>& sources) { return greedy(sources); };
  options.on_validation = [&](const train::ValidationPoint& point, const std::vector<std::string>& translations) {
    watch(point, translations, validation, progress);
  };
  const train::StopOnInterrupt interrupt;
  options.stop = &interrupt.flag();
  return train::fit(model, pairs, tokenizer, options);
}

void run_demo(const DemoCommand& flags) {
  check_outputs(flags);
  const auto corpus = demo::demo_corpus(flags.seed);
  const auto pairs = to_corpus(corpus.train), validation = to_corpus(corpus.validation), test = to_corpus(corpus.test);
  const auto tokenizer = text::SentencePiece::train(pairs, {.vocabulary = flags.vocabulary});
  seed(flags.seed);
  auto model = make_model(flags, tokenizer.size());
  std::printf(
      "English to Spanish, from nothing, in at most %.0f s on %d threads:\n"
      "%lld sentence pairs, %lld subwords, %s parameters.\n"
      "The test pairs combine words in ways that training never shows.\n",
      flags.seconds, threads(), static_cast<long long>(pairs.size()), static_cast<long long>(tokenizer.size()),
      train::count_text(static_cast<double>(nn::parameter_count(model))).c_str());
  std::fflush(stdout);

  std::vector<report::Progress> progress;
  for (std::size_t i = 0; i < watched; ++i) progress.push_back({validation.pairs[i].source, validation.pairs[i].target, {}});
  const auto trained = learn(flags, model, tokenizer, pairs, validation, progress);
  if (trained.stopped == train::StopReason::interrupted) {
    exit_code = 130;
    return;
  }

  const decode::Translator translator(model, tokenizer, {.beam = 4});
  const auto outputs = translator(test.sources());
  const double bleu = text::bleu(outputs, test.targets()).score;
  std::printf("\nSentences of the test part, which training has not seen:\n");
  print_translations(test, outputs, shown_at_end, true);
  std::printf("\ntrained for %.0f s, %lld steps; BLEU on the %lld test pairs: %.1f\n", trained.seconds,
              static_cast<long long>(trained.steps), static_cast<long long>(test.size()), bleu);
  if (!flags.out.empty()) {
    io::save(flags.out, model, tokenizer);
    std::printf("the model: %s (translate run --model %s)\n", flags.out.c_str(), flags.out.c_str());
  }
  if (!flags.report.empty()) {
    auto data = make_report(flags, trained, nn::parameter_count(model));
    data.train_pairs = pairs.size(), data.validation_pairs = validation.size(), data.test_pairs = test.size();
    data.bleu = bleu;
    data.progress = progress;
    for (std::size_t i = 0; i < shown_at_end; ++i)
      data.translations.push_back({test.pairs[i].source, test.pairs[i].target, outputs[i]});
    data.attention = attention_maps(model, tokenizer, test.pairs[0].source, outputs[0]);
    report::write_report(flags.report, data);
    std::printf("curves, attention and translations: %s\n", flags.report.c_str());
  }
  if (!flags.no_input && is_conversation()) talk(translator);
}

}  // namespace

void add_demo(CLI::App& app) {
  auto* command = app.add_subcommand("demo", "Watch a model learn to translate, on an embedded English-Spanish corpus");
  auto flags = std::make_shared<DemoCommand>();
  command->add_option("--seconds", flags->seconds, "The most time to train")->check(CLI::Range(1e-3, 1e6))->capture_default_str();
  command->add_option("--seed", flags->seed, "Of corpus, weights and order")->capture_default_str();
  command->add_option("--d-model", flags->d_model, "Width of the model")->check(CLI::Range(1, 4096))->capture_default_str();
  command->add_option("--heads", flags->heads, "Attention heads, a divisor of the width")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command->add_option("--layers", flags->layers, "Layers of encoder and decoder each")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_option("--d-ff", flags->d_ff, "Width within the feed-forward")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  command->add_option("--vocabulary", flags->vocabulary, "Subwords of both languages together")
      ->check(CLI::Range(100, 8000))
      ->capture_default_str();
  command->add_option("--report", flags->report, "Where the report goes; empty: none")->type_name("FILE")->capture_default_str();
  command->add_option("--out", flags->out, "A new folder to save the model in")->type_name("FOLDER");
  command->add_flag("--no-input", flags->no_input, "Do not ask for sentences at the end");
  command->callback([flags] { run_demo(*flags); });
}

}  // namespace translate
