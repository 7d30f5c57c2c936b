// translate score: BLEU or chrF of translations from standard input.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "attend/text/bleu.hpp"
#include "attend/text/chrf.hpp"
#include "attend/text/lines.hpp"
#include "commands.hpp"
#include "line_input.hpp"

namespace translate {

namespace {

using namespace attend;

struct ScoreCommand {
  std::string reference, metric = "bleu", tokenize;
  bool lowercase = false, only_score = false;
};

void score(const ScoreCommand& flags) {
  if (!flags.tokenize.empty() && flags.metric != "bleu") throw ValueError("score: --tokenize goes with --metric bleu");
  const auto references = text::read_lines(flags.reference);
  const auto hypotheses = read_standard_input();
  if (hypotheses.size() != references.size())
    throw ValueError("score: standard input has ", hypotheses.size(), " lines, ", flags.reference, " has ", references.size());
  const auto print = [&](const auto& result) {
    if (flags.only_score) std::printf("%.17g\n", result.score);
    else std::printf("%s\n", result.text().c_str());
  };
  if (flags.metric == "chrf") return print(text::chrf(hypotheses, references, {.lowercase = flags.lowercase}));
  text::BleuOptions options{.lowercase = flags.lowercase};
  if (flags.tokenize == "none") options.tokenize = text::BleuTokenize::none;
  print(text::bleu(hypotheses, references, options));
}

}  // namespace

void add_score(CLI::App& app) {
  auto* command = app.add_subcommand("score", "Score translations from standard input against a reference, as sacreBLEU does");
  auto flags = std::make_shared<ScoreCommand>();
  command->add_option("--reference", flags->reference, "The right translations, a line for a line")
      ->type_name("FILE")
      ->required();
  command->add_option("--metric", flags->metric, "What to compute")
      ->check(CLI::IsMember({"bleu", "chrf"}))
      ->capture_default_str();
  command->add_option("--tokenize", flags->tokenize, "Words of BLEU; none: as they stand (13a)")
      ->check(CLI::IsMember({"13a", "none"}));
  command->add_flag("--lowercase", flags->lowercase, "Compare without case");
  command->add_flag("--only-score", flags->only_score, "Print the bare number");
  command->callback([flags] { score(*flags); });
}

}  // namespace translate
