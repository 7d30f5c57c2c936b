// A translator of one's own.
//
//   translator train PAIRS FOLDER      learns from a file of lines `source<TAB>target`; Ctrl-C stops and saves
//   translator resume PAIRS FOLDER     goes on
//   translator tune PAIRS FOLDER NEW   trains the model of FOLDER on other pairs, into a folder NEW
//   translator run FOLDER [--int8]     translates standard input, a line for a line

#include <attend/attend.hpp>
#include <attend/load.hpp>
#include <cstdio>
#include <iostream>
#include <string>
using namespace attend;

void train_model(const std::string& pairs, const std::string& folder, bool resume) {
  const auto corpus = text::read_tsv(pairs, {.remove_duplicates = true});
  std::printf("%s: %s\n", pairs.c_str(), corpus.report.text().c_str());
  const auto parts = text::split_by_source(corpus, {.validation = 100, .test = 100});

  const auto tokenizer = text::SentencePiece::train(parts.train, {.vocabulary = 200});
  seed(1);
  nn::Transformer<float> model(
      {.vocabulary = tokenizer.size(), .d_model = 64, .heads = 4, .layers = 2, .share_embeddings = true, .tie_head = true});

  // It shares the model's weights, so it always translates with those of the moment.
  const decode::Translator translate(model, tokenizer, {.beam = 1});
  const train::StopOnInterrupt interrupt;
  const auto report = train::fit(model, parts.train, tokenizer,
                                 {.epochs = 12,
                                  .validation = parts.validation,
                                  .validate_every = 100,
                                  .translate = [&](const std::vector<std::string>& sources) { return translate(sources); },
                                  .best_by = train::Metric::bleu,
                                  .output = folder,
                                  .resume = resume,
                                  .stop = &interrupt.flag()});
  if (report.stopped == train::StopReason::interrupted) return;

  const auto best = load(folder);
  const auto translations = decode::Translator(best.model, best.tokenizer)(parts.test.sources());
  std::printf("test: %s\n", text::bleu(translations, parts.test.targets()).text().c_str());
}

void tune_model(const std::string& pairs, const std::string& folder, const std::string& tuned) {
  auto [model, tokenizer, search] = load(folder);  // its tokens are what the model knows
  train::fit(model, text::read_tsv(pairs), tokenizer,
             {.epochs = 20,
              .tokens_per_batch = 256,
              .optimizer = optim::AdamOptions{.beta2 = 0.98, .eps = 1e-9},
              .schedule = optim::Schedule({.learning_rate = 3e-4, .warmup = 10})});
  io::save(tuned, model, tokenizer);
}

void run(const std::string& folder, bool int8) {
  const auto loaded = load(folder);
  const decode::Translator translate(loaded.model, loaded.tokenizer,
                                     {.beam = 4, .precision = int8 ? Precision::int8 : Precision::full});
  for (std::string line; std::getline(std::cin, line);) std::cout << translate(line) << std::endl;
}

int main(int count, char** values) try {
  const std::vector<std::string> words(values + 1, values + count);
  const auto is = [&](const char* command, std::size_t size) { return words.size() == size && words[0] == command; };
  if (is("train", 3) || is("resume", 3)) train_model(words[1], words[2], words[0] == "resume");
  else if (is("tune", 4)) tune_model(words[1], words[2], words[3]);
  else if (is("run", 2) || (is("run", 3) && words[2] == "--int8")) run(words[1], words.size() == 3);
  else throw Error("say train, resume, tune or run, and on what");
  return 0;
} catch (const std::exception& error) {
  std::cerr << "translator: " << error.what() << '\n';
  return 1;
}
