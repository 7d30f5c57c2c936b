#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "attend/decode/translator.hpp"

namespace translate {

/// The options of a search on the command line.
struct SearchFlags {
  attend::decode::TranslatorOptions options;

  void add_to(CLI::App& app) {
    const std::string group = "Search";
    auto& o = options;
    auto* beam = app.add_option("--beam", o.beam, "Beam size; 1: greedy");
    beam->check(CLI::Range(1, 1000))->capture_default_str()->group(group);
    app.add_option("--n-best", o.n_best, "Translations per line, each with its score")
        ->check(CLI::Range(1, 1000))
        ->capture_default_str()
        ->group(group);
    auto* penalty = app.add_option("--length-penalty", o.length_penalty, "0: none; larger favours longer translations");
    penalty->capture_default_str()->group(group);
    app.add_option("--max-tokens", o.max_length, "The most tokens of a translation; 0: twice the source's and 10 more")
        ->check(CLI::Range(0, 1 << 16))
        ->capture_default_str()
        ->group(group);
    app.add_option("--min-tokens", o.min_length, "The fewest tokens of a translation")
        ->check(CLI::Range(0, 1 << 16))
        ->capture_default_str()
        ->group(group);
    auto* sample = app.add_flag("--sample", o.sample, "Draw translations at random instead of searching the best");
    sample->excludes(beam)->excludes(penalty)->group(group);
    app.add_option("--temperature", o.temperature, "Of sampling; below 1 sharpens")
        ->check(CLI::Range(1e-6, 1e6))
        ->needs(sample)
        ->capture_default_str()
        ->group(group);
    app.add_option("--top-k", o.top_k, "Sample among the k most probable tokens; 0: all")
        ->check(CLI::Range(0, 1 << 24))
        ->needs(sample)
        ->capture_default_str()
        ->group(group);
    app.add_option("--top-p", o.top_p, "Sample among the most probable tokens of this share")
        ->check(CLI::Range(0.0, 1.0))
        ->needs(sample)
        ->capture_default_str()
        ->group(group);
    app.add_option("--seed", o.seed, "Of sampling")->needs(sample)->capture_default_str()->group(group);
  }
};

}  // namespace translate
