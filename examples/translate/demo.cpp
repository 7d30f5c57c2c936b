// translate demo: the whole way in a minute and a half, on a corpus that the program brings along.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "attend/decode/translator.hpp"
#include "attend/io/model.hpp"
#include "attend/text/bleu.hpp"
#include "attend/text/sentencepiece.hpp"
#include "attend/train/fit.hpp"
#include "attend/train/interrupt.hpp"
#include "attention.hpp"
#include "commands.hpp"
#include "grammar.hpp"
#include "report.hpp"

namespace translate {

namespace {

using namespace attend;

struct Flags {
  double seconds = 75;
  std::uint64_t seed = 1;
  index_t d_model = 128, heads = 4, layers = 2, d_ff = 384, vocabulary = 500;
  std::string report = "report.html", out;
  bool no_input = false;
};

constexpr std::size_t watched = 3;  // sentences whose translations are shown as the model learns
constexpr std::size_t shown_at_end = 12;

text::Corpus to_corpus(const std::vector<demo::Pair>& pairs) {
  text::Corpus corpus;
  for (const auto& pair : pairs) corpus.pairs.push_back({pair.source, pair.target});
  return corpus;
}

train::FitOptions fit_options(const Flags& flags) {
  train::FitOptions o;
  o.epochs = 0;
  o.max_seconds = flags.seconds;
  o.tokens_per_batch = 1500;
  o.label_smoothing = 0.05;
  o.optimizer = optim::AdamOptions{.learning_rate = 2e-3, .beta2 = 0.98, .eps = 1e-9};
  o.schedule = optim::Schedule({.kind = optim::ScheduleKind::inverse_sqrt, .learning_rate = 2e-3, .warmup = 200});
  o.seed = flags.seed;
  o.validate_every = 100;
  o.best_by = train::Metric::bleu;
  o.patience = 6;  // where everything is learnt, time is better spent otherwise
  o.progress.line_seconds = 5;
  return o;
}

/// Prints what the model makes of some sentences now, and keeps it for the report.
void watch(const train::ValidationPoint& point, const std::vector<std::string>& translations, const text::Corpus& validation,
           std::vector<report::Progress>& progress) {
  std::printf("\nafter %lld steps, %.0f s: BLEU %.1f on %lld validation pairs\n", static_cast<long long>(point.step),
              point.seconds, point.bleu, static_cast<long long>(validation.size()));
  for (std::size_t i = 0; i < std::min(watched, translations.size()); ++i) {
    std::printf("  %-34s -> %s\n", validation.pairs[i].source.c_str(), translations[i].c_str());
    progress[i].outputs.push_back({point.step, translations[i]});
  }
  std::fflush(stdout);
}

report::ReportData make_report(const Flags& flags, const train::FitReport& trained, index_t parameters) {
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
  std::string line;
  while (std::printf("> "), std::fflush(stdout), std::getline(std::cin, line) && !line.empty()) {
    try {
      std::printf("  %s\n", translator(line).c_str());
    } catch (const Error& e) {
      std::printf("  (%s)\n", e.what());
    }
  }
}

void run_demo(const Flags& flags) {
  const auto corpus = demo::demo_corpus(flags.seed);
  const auto pairs = to_corpus(corpus.train), validation = to_corpus(corpus.validation), test = to_corpus(corpus.test);
  const auto tokenizer = text::SentencePiece::train(pairs, {.vocabulary = flags.vocabulary});
  seed(flags.seed);
  nn::Transformer<float> model({.vocabulary = tokenizer.size(),
                                .d_model = flags.d_model,
                                .heads = flags.heads,
                                .d_ff = flags.d_ff,
                                .layers = flags.layers,
                                .dropout = 0.1,
                                .max_length = 128,
                                .share_embeddings = true,
                                .tie_head = true});
  std::printf(
      "English to Spanish, from nothing: %lld sentence pairs, %lld subwords, %lld parameters, %d threads, at most %.0f s.\n"
      "The test pairs combine words in ways that training never shows.\n",
      static_cast<long long>(pairs.size()), static_cast<long long>(tokenizer.size()),
      static_cast<long long>(nn::parameter_count(model)), threads(), flags.seconds);
  std::fflush(stdout);

  std::vector<report::Progress> progress;
  for (std::size_t i = 0; i < watched; ++i) progress.push_back({validation.pairs[i].source, validation.pairs[i].target, {}});
  auto options = fit_options(flags);
  options.validation = validation;
  const decode::Translator greedy(model, tokenizer, {.beam = 1, .batch_sentences = 128});
  options.translate = [&](const std::vector<std::string>& sources) { return greedy(sources); };
  options.on_validation = [&](const train::ValidationPoint& point, const std::vector<std::string>& translations) {
    watch(point, translations, validation, progress);
  };
  const train::StopOnInterrupt interrupt;
  options.stop = &interrupt.flag();
  const auto trained = train::fit(model, pairs, tokenizer, options);

  const decode::Translator translator(model, tokenizer, {.beam = 4});
  const auto outputs = translator(test.sources());
  const auto score = text::bleu(outputs, test.targets());
  auto data = make_report(flags, trained, nn::parameter_count(model));
  data.train_pairs = pairs.size(), data.validation_pairs = validation.size(), data.test_pairs = test.size();
  data.bleu = score.score;
  data.progress = progress;
  std::printf("\nSentences of the test part, which training has not seen:\n");
  for (std::size_t i = 0; i < std::min(shown_at_end, outputs.size()); ++i) {
    const auto& pair = test.pairs[i];
    std::printf("  %-38s -> %s%s\n", pair.source.c_str(), outputs[i].c_str(),
                outputs[i] == pair.target ? "" : ("   (expected: " + pair.target + ")").c_str());
    data.translations.push_back({pair.source, pair.target, outputs[i]});
  }
  std::printf("\ntrained for %.0f s, %lld steps; test, %lld pairs, beam 4: %s\n", trained.seconds,
              static_cast<long long>(trained.steps), static_cast<long long>(test.size()), score.text().c_str());
  data.attention = attention_maps(model, tokenizer, test.pairs[0].source, outputs[0]);
  if (!flags.report.empty()) {
    report::write_report(flags.report, data);
    std::printf("curves, attention and translations: %s\n", flags.report.c_str());
  }
  if (!flags.out.empty()) {
    io::save(flags.out, model, tokenizer);
    std::printf("the model: %s (translate run --model %s)\n", flags.out.c_str(), flags.out.c_str());
  }
  if (!flags.no_input && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)) talk(translator);
}

}  // namespace

void add_demo(CLI::App& app) {
  auto* command = app.add_subcommand("demo", "Watch a model learn to translate, on an embedded English-Spanish corpus");
  auto flags = std::make_shared<Flags>();
  command->add_option("--seconds", flags->seconds, "The most time to train")->check(CLI::PositiveNumber)->capture_default_str();
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
  command->add_option("--report", flags->report, "Where the report goes; empty: none")->capture_default_str();
  command->add_option("--out", flags->out, "Folder to save the model in");
  command->add_flag("--no-input", flags->no_input, "Do not ask for sentences at the end");
  command->callback([flags] { run_demo(*flags); });
}

}  // namespace translate
