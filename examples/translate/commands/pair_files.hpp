#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "attend/core/shape.hpp"
#include "attend/text/corpus.hpp"

namespace translate {

/// Lets an option that names a file be given several times.
inline CLI::Option* takes_all(CLI::Option* option) {
  return option->type_name("FILE")->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->expected(1);
}

/// Files of sentence pairs: either of two columns, or of sources and as many of targets.
struct PairFiles {
  std::vector<std::string> pairs = {}, sources = {}, targets = {};

  /// `--pairs`, `--source` and `--target` for a command that learns from them; gives the first two, for what excludes them.
  std::pair<CLI::Option*, CLI::Option*> add_to(CLI::App& command) {
    auto* pair = takes_all(command.add_option(
        "--pairs", pairs, "A pair a line, source and translation parted by a tab. May come often: the pairs of all files"));
    auto* source = takes_all(command.add_option("--source", sources, "In place of --pairs: the source sentences, a line each"));
    auto* target = takes_all(command.add_option("--target", targets, "... and their translations, line for line"));
    source->excludes(pair)->needs(target);
    target->excludes(pair)->needs(source);
    return {pair, source};
  }
  /// Throws ValueError unless it is clear which files are meant.
  void check(const char* command) const {
    using namespace attend;
    check_value(pairs.empty() != (sources.empty() && targets.empty()) && sources.empty() == targets.empty(), command,
                "give --pairs, or --source and --target");
    check_value(sources.size() == targets.size(), command, "--source came ", sources.size(), " times and --target ",
                targets.size(), ", expected as often");
  }
  /// Calls `take(SentencePair)` for the pairs of all files one after the other, and `report(name, CorpusReport)` after each file.
  /// Throws whatever reading throws, and ValueError as `check`.
  template <class Take, class Report>
  void for_each(const char* command, const attend::text::ReadOptions& how, Take&& take, Report&& report) const {
    using namespace attend;
    check(command);
    for (const auto& file : pairs) report(file, text::for_each_pair(file, how, take));
    for (std::size_t i = 0; i < sources.size(); ++i)
      report(sources[i] + ", " + targets[i], text::for_each_pair(sources[i], targets[i], how, take));
  }
  /// The pairs of all files one after the other; says on standard error what became of the lines of each. Throws as `for_each`.
  [[nodiscard]] attend::text::Corpus read(const char* command, const attend::text::ReadOptions& how = {}) const {
    using namespace attend;
    text::Corpus all;
    for_each(
        command, how, [&](text::SentencePair pair) { all.pairs.push_back(std::move(pair)); },
        [&](const std::string& name, const text::CorpusReport& report) { say_report(command, name, report); });
    all.report.lines = all.report.pairs = all.size();
    return all;
  }
  static void say_report(const char* command, const std::string& name, const attend::text::CorpusReport& report) {
    std::fprintf(stderr, "%s: %s: %s\n", command, name.c_str(), report.text().c_str());
  }
};

}  // namespace translate
