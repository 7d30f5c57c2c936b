// translate rate: how probable a model finds given translations, and which words belong together.

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "any_translator.hpp"
#include "commands.hpp"
#include "output.hpp"
#include "standard_input.hpp"

namespace translate {

namespace {

using namespace attend;

struct RateCommand {
  ModelsFlags models;
  std::string format = "text";
  index_t alignment_layer = -1;
  bool alignments = false;
  std::size_t buffer = 512;
};

void rate(const RateCommand& flags) {
  const auto translator = make_translator(flags.models, {}, [&](decode::TranslatorOptions& o) {
    o.alignments = flags.alignments;
    o.alignment_layer = flags.alignment_layer;
  });
  StandardInput input;
  std::vector<std::string> sources, targets;
  const auto print = [&](std::span<const std::string> from, std::span<const std::string> to, std::size_t before) {
    const auto rated = translator->score(from, to, before);
    std::string out;
    for (std::size_t i = 0; i < rated.size(); ++i) {
      if (flags.format == "json") {
        out += json_line(before + i + 1, from[i], {rated[i]}, *translator, flags.alignments);
        continue;
      }
      out += number_text("%.4f\t", rated[i].log_probability) + std::to_string(rated[i].token_log_probabilities.size());
      if (flags.alignments) out += '\t' + decode::to_pharaoh(rated[i].alignment);
      out += '\n';
    }
    write_out(out);
  };
  std::size_t done = 0;  // lines
  const auto flush = [&] {
    const auto from = std::exchange(sources, {}), to = std::exchange(targets, {});
    try {
      print(from, to, done);
    } catch (const ValueError&) {  // a sentence is too long: one by one, up to that one
      for (std::size_t i = 0; i < from.size(); ++i) print({&from[i], 1}, {&to[i], 1}, done + i);
    }
    done += from.size();
  };
  try {
    for (std::string line; input.next(line);) {
      const std::size_t tab = line.find('\t');
      if (tab == std::string::npos)
        throw FormatError("standard input: line ", input.number(), " has no tab, expected `source<TAB>translation`");
      sources.push_back(line.substr(0, tab));
      targets.push_back(line.substr(tab + 1, line.find('\t', tab + 1) - tab - 1));
      if (sources.size() >= flags.buffer || !input.ready()) flush();
    }
  } catch (const Error&) {
    flush();
    throw;
  }
  flush();
}

}  // namespace

void add_rate(CLI::App& app) {
  auto* command =
      app.add_subcommand("rate", "Say how probable a model finds the translations in lines `source, tab, translation`");
  auto flags = std::make_shared<RateCommand>();
  flags->models.add_to(*command);
  command->add_option("--buffer", flags->buffer, "The most lines rated together; a line that comes alone never waits")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command
      ->add_option("--format", flags->format,
                   "text: log-probability, tab, number of tokens, their end counted. json: an object for a line, with the "
                   "tokens and their log-probabilities")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  command->add_flag("--alignments", flags->alignments,
                    "And a column `0-0 1-2`: words that belong together, source-target, from 0");
  command
      ->add_option("--alignment-layer", flags->alignment_layer,
                   "The decoder layer whose attention aligns, from 0 on; -1: the last but one")
      ->check(CLI::Range(-1, 1000))
      ->capture_default_str();
  command->callback([flags] { rate(*flags); });
}

}  // namespace translate
