// translate run: from standard input to standard output, a line for a line.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "attend/io/model.hpp"
#include "attend/text/sentencepiece.hpp"
#include "attend/train/run_folder.hpp"
#include "commands.hpp"
#include "place.hpp"
#include "search_flags.hpp"
#include "standard_input.hpp"

namespace translate {

namespace {

using namespace attend;

struct Flags {
  std::string model;
  SearchFlags search;
  Place place;
  std::size_t buffer = 512;
};

/// Translates lines and prints the best of each; or, of n-best lists, all as `line number, tab, score, tab, translation`.
template <class T, Device D>
class Printer {
 public:
  explicit Printer(const Flags& flags) : Printer(train::model_folder(flags.model), options(flags)) {}

  /// The lines that come after `before` others.
  void print(const std::vector<std::string>& lines, std::size_t before) const {
    std::string out;
    const auto results = translator_.translate(lines, before);
    for (std::size_t i = 0; i < results.size(); ++i) {
      for (const auto& translation : results[i]) {
        if (lists_) {
          char head[64];
          std::snprintf(head, sizeof head, "%zu\t%.4f\t", before + i + 1, translation.score);
          out += head;
        }
        out += translation.text + '\n';
      }
    }
    if (std::fwrite(out.data(), 1, out.size(), stdout) != out.size() || std::fflush(stdout) != 0)
      throw IoError("standard output: cannot be written");
  }

 private:
  Printer(const std::filesystem::path& folder, const decode::TranslatorOptions& options)
      : translator_(io::load_model<T, D>(folder), io::load_tokenizer<text::SentencePiece>(folder), options),
        lists_(options.n_best > 1) {}

  static decode::TranslatorOptions options(const Flags& flags) {
    auto o = flags.search.options;
    o.precision = flags.place.decoding();
    return o;
  }

  decode::Translator<text::SentencePiece, T, D> translator_;
  bool lists_;
};

/// Lines that are already there are translated together; a program that waits for its answer gets it at once. What stands before
/// a line at fault is translated before the error goes on.
template <class T, Device D>
void run(const Flags& flags) {
  const Printer<T, D> printer(flags);
  StandardInput input;
  std::vector<std::string> lines;
  const auto flush = [&] {
    const auto waiting = std::exchange(lines, {});
    const std::size_t before = input.number() - waiting.size();
    try {
      if (!waiting.empty()) printer.print(waiting, before);
    } catch (const ValueError&) {  // a sentence is too long: one by one, up to that one
      for (std::size_t i = 0; i < waiting.size(); ++i) printer.print({waiting[i]}, before + i);
    }
  };
  try {
    for (std::string line; input.next(line);) {
      lines.push_back(line);
      if (lines.size() >= flags.buffer || !input.ready()) flush();
    }
  } catch (const Error&) {
    flush();
    throw;
  }
  flush();
}

}  // namespace

void add_run(CLI::App& app) {
  auto* command = app.add_subcommand("run", "Translate standard input to standard output, a line for a line");
  auto flags = std::make_shared<Flags>();
  command->add_option("--model", flags->model, "Folder of a model, or the --out of a training, whose best model it then is")
      ->type_name("FOLDER")
      ->required();
  command->add_option("--buffer", flags->buffer, "The most lines translated together; a line that comes alone never waits")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  flags->search.add_to(*command);
  flags->place.add_to(*command, true);
  command->callback([flags] {
    flags->place.with_types([&](auto types) { run<typename decltype(types)::T, typename decltype(types)::D>(*flags); });
  });
}

}  // namespace translate
