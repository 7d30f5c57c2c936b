// translate run: from standard input to standard output, a line for a line.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "attend/io/model.hpp"
#include "attend/text/sentencepiece.hpp"
#include "commands.hpp"
#include "search_flags.hpp"
#include "standard_input.hpp"

namespace translate {

namespace {

struct Flags {
  std::string model;
  SearchFlags search;
  std::size_t buffer = 512;
};

/// The best of each line; or, of n-best lists, every one as `line number, tab, score, tab, text`.
void print(const std::vector<std::vector<attend::decode::Translation>>& results, bool lists, std::size_t first_line) {
  std::string out;
  for (std::size_t i = 0; i < results.size(); ++i) {
    for (const auto& translation : results[i]) {
      if (lists) {
        char head[64];
        std::snprintf(head, sizeof head, "%zu\t%.4f\t", first_line + i, translation.score);
        out += head;
      }
      out += translation.text + '\n';
    }
  }
  if (std::fwrite(out.data(), 1, out.size(), stdout) != out.size() || std::fflush(stdout) != 0)
    throw attend::IoError("standard output: cannot be written");
}

void run(const Flags& flags) {
  const auto model = attend::io::load_model<float>(flags.model);
  const auto tokenizer = attend::io::load_tokenizer<attend::text::SentencePiece>(flags.model);
  const attend::decode::Translator translator(model, tokenizer, flags.search.options);
  const bool lists = flags.search.options.n_best > 1;
  std::vector<std::string> lines;
  std::string line;
  std::size_t number = 0;
  const auto flush = [&] {
    if (!lines.empty()) print(translator.translate(lines), lists, number - lines.size() + 1);
    lines.clear();
  };
  // Lines that are already there are translated together; a program that waits for its answer gets it at once.
  while (next_line(line, number)) {
    lines.push_back(line);
    if (lines.size() >= flags.buffer || std::cin.rdbuf()->in_avail() <= 0) flush();
  }
  flush();
}

}  // namespace

void add_run(CLI::App& app) {
  auto* command = app.add_subcommand("run", "Translate standard input to standard output, a line for a line");
  auto flags = std::make_shared<Flags>();
  command->add_option("--model", flags->model, "Folder of the model")->required();
  command->add_option("--buffer", flags->buffer, "The most lines translated together")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  flags->search.add_to(*command);
  command->callback([flags] {
    std::ios::sync_with_stdio(false);
    run(*flags);
  });
}

}  // namespace translate
