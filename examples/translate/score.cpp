// translate score: BLEU or chrF of translations from standard input.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "attend/text/bleu.hpp"
#include "attend/text/chrf.hpp"
#include "attend/text/lines.hpp"
#include "commands.hpp"
#include "standard_input.hpp"

namespace translate {

namespace {

struct Flags {
  std::string reference, metric = "bleu", tokenize = "13a";
  bool lowercase = false, only_score = false;
};

void score(const Flags& flags) {
  const auto references = attend::text::read_lines(flags.reference);
  const auto hypotheses = read_standard_input();
  if (hypotheses.size() != references.size())
    throw attend::ValueError("score: standard input has " + std::to_string(hypotheses.size()) + " lines, " + flags.reference +
                             " has " + std::to_string(references.size()));
  if (flags.metric == "chrf") {
    const auto result = attend::text::chrf(hypotheses, references, {.lowercase = flags.lowercase});
    if (flags.only_score) std::printf("%.17g\n", result.score);
    else std::printf("%s\n", result.text().c_str());
    return;
  }
  attend::text::BleuOptions options{.lowercase = flags.lowercase};
  if (flags.tokenize == "none") options.tokenize = attend::text::BleuTokenize::none;
  const auto result = attend::text::bleu(hypotheses, references, options);
  if (flags.only_score) std::printf("%.17g\n", result.score);
  else std::printf("%s\n", result.text().c_str());
}

}  // namespace

void add_score(CLI::App& app) {
  auto* command = app.add_subcommand("score", "Score translations from standard input against a reference, as sacreBLEU does");
  auto flags = std::make_shared<Flags>();
  command->add_option("--reference", flags->reference, "The right translations, a line for a line")->required();
  command->add_option("--metric", flags->metric, "bleu or chrf")->check(CLI::IsMember({"bleu", "chrf"}))->capture_default_str();
  command->add_option("--tokenize", flags->tokenize, "Words of BLEU: 13a, or none where the text is tokenized already")
      ->check(CLI::IsMember({"13a", "none"}))
      ->capture_default_str();
  command->add_flag("--lowercase", flags->lowercase, "Compare without case");
  command->add_flag("--only-score", flags->only_score, "Print the bare number");
  command->callback([flags] { score(*flags); });
}

}  // namespace translate
