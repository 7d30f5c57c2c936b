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

/// Files of sentence pairs: either of two columns, or of sources and as many of targets.
struct PairFiles {
  std::vector<std::string> pairs = {}, sources = {}, targets = {};

  /// The pairs of all files one after the other; says on standard error what became of the lines of each. Throws ValueError if
  /// it is not clear which files are meant, and whatever reading throws.
  [[nodiscard]] attend::text::Corpus read(const char* command, const attend::text::ReadOptions& how = {}) const {
    using namespace attend;
    check_value(pairs.empty() != (sources.empty() && targets.empty()) && sources.empty() == targets.empty(), command,
                "give --pairs, or --source and --target");
    check_value(sources.size() == targets.size(), command, "--source came ", sources.size(), " times and --target ",
                targets.size(), ", expected as often");
    text::Corpus all;
    const auto add = [&](const std::string& name, text::Corpus corpus) {
      std::fprintf(stderr, "%s: %s: %s\n", command, name.c_str(), corpus.report.text().c_str());
      if (all.empty()) all = std::move(corpus);
      else
        for (auto& pair : corpus.pairs) all.pairs.push_back(std::move(pair));
    };
    for (const auto& file : pairs) add(file, text::read_tsv(file, how));
    for (std::size_t i = 0; i < sources.size(); ++i)
      add(sources[i] + ", " + targets[i], text::read_aligned(sources[i], targets[i], how));
    return all;
  }
};

/// Lets an option that names a file come often.
inline CLI::Option* takes_all(CLI::Option* option) {
  return option->type_name("FILE")->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->expected(1);
}

}  // namespace translate
