#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attend/decode/translator_options.hpp"

namespace translate {

/// The options of a search on the command line.
struct SearchFlags {
  using Options = attend::decode::TranslatorOptions;
  Options options;  // the defaults, with what the command line says in their place

  void add_to(CLI::App& app) {
    auto* beam = add_beam(app);
    add(app, "--n-best", &Options::n_best, "Translations per line, each with its score", CLI::Range(1, 1000));
    add(app, "--length-penalty", &Options::length_penalty, "0: none; larger favours longer translations");
    add_choice<attend::decode::LengthNormalization>(
        app, "--normalization", &Options::normalization, "How the length penalty grows with a length n: ((5+n)/6)^a or n^a",
        {{"google", attend::decode::LengthNormalization::google}, {"marian", attend::decode::LengthNormalization::marian}});
    auto* coverage = add(app, "--coverage", &Options::coverage_penalty,
                         "Strength of the coverage penalty, against words left out; 0: none", CLI::Range(0.0, 1e6));
    add_choice<attend::decode::Stop>(app, "--stop", &Options::stop,
                                     "When a search ends: exact, when nothing better can come; present, when nothing live is "
                                     "better as it stands; first, when as many as the beam have ended",
                                     {{"exact", attend::decode::Stop::exact},
                                      {"present", attend::decode::Stop::present_length},
                                      {"first", attend::decode::Stop::first}});
    add(app, "--max-tokens", &Options::max_length, "The most tokens of a translation; 0: twice the source's and 10 more",
        CLI::Range(0, 1 << 16));
    add(app, "--min-tokens", &Options::min_length, "The fewest tokens of a translation", CLI::Range(0, 1 << 16));
    add(app, "--no-repeat-ngram", &Options::no_repeat_ngram, "No so many tokens in a row come twice; 0: they may",
        CLI::Range(0, 1 << 16));
    auto* never = app.add_option("--suppress", options.banned_text, "A word or phrase that never comes; may be given again");
    never->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->allow_extra_args(false)->type_name("TEXT")->group(group);
    given_.push_back({never, [](const Options& from, Options& to) {
                        to.banned_text.insert(to.banned_text.end(), from.banned_text.begin(), from.banned_text.end());
                      }});
    add(app, "--repetition-penalty", &Options::repetition_penalty,
        "Above 1, tokens that a translation has already come less often; 1: no penalty", CLI::Range(1e-6, 1e6));
    add(app, "--unknown-penalty", &Options::unknown_penalty,
        "What the log-probability of the unknown token is lowered by, where --unknown lets it come", CLI::Range(0.0, 1e6));
    add_forced_end(app);
    add(app, "--beam-groups", &Options::beam_groups, "Groups of the beam that are to find different translations",
        CLI::Range(1, 1000));
    add(app, "--diversity-penalty", &Options::diversity_penalty, "By how much: off for each group before with the same token",
        CLI::Range(0.0, 1e6));
    add_required(app);
    add_choice<attend::decode::Unknown>(app, "--unknown", &Options::unknown,
                                        "The token for unknown words: suppress it, allow it, or replace it by the source word "
                                        "that it attends to",
                                        {{"suppress", attend::decode::Unknown::suppress},
                                         {"allow", attend::decode::Unknown::allow},
                                         {"replace", attend::decode::Unknown::replace}});
    add_sampling(app, beam, coverage);
  }

  /// `base`, with what the command line says in its place: for a model that brings a search of its own.
  [[nodiscard]] Options over(Options base) const {
    for (const auto& [option, copy] : given_)
      if (option->count() > 0) copy(options, base);
    return base;
  }

 private:
  static constexpr const char* group = "Search";

  /// A beam in place of a model's wish to be sampled, too.
  CLI::Option* add_beam(CLI::App& app) {
    auto* beam = app.add_option_function<attend::index_t>(
        "--beam", [this](attend::index_t size) { options.beam = size; }, "Beam size; 1: greedy");
    beam->check(CLI::Range(1, 1000))->default_str(std::to_string(options.beam))->group(group);
    given_.push_back({beam, [](const Options& from, Options& to) {
                        to.beam = from.beam;
                        if (!to.sample) return;
                        const Options plain;
                        to.sample = false;
                        to.temperature = plain.temperature, to.top_k = plain.top_k, to.top_p = plain.top_p;
                        to.min_p = plain.min_p, to.seed = plain.seed;
                      }});
    return beam;
  }
  /// Sampling in place of a model's wish to be searched, too.
  void add_sampling(CLI::App& app, CLI::Option* beam, CLI::Option* coverage) {
    auto* sample = app.add_flag("--sample", options.sample, "Draw translations at random instead of searching the best");
    sample->excludes(beam)->excludes(coverage)->group(group);
    for (const char* of_beams : {"--beam-groups", "--diversity-penalty", "--stop"}) sample->excludes(of_beams);
    given_.push_back({sample, [](const Options& from, Options& to) {
                        to.sample = from.sample;
                        to.beam = {}, to.coverage_penalty = 0;
                        to.beam_groups = 1, to.diversity_penalty = 0;
                      }});
    add(app, "--temperature", &Options::temperature, "Of sampling and of beam search; below 1 sharpens", CLI::Range(1e-6, 1e6));
    add(app, "--top-k", &Options::top_k, "Sample among the k most probable tokens; 0: all", CLI::Range(0, 1 << 24))
        ->needs(sample);
    add(app, "--top-p", &Options::top_p, "Sample among the most probable tokens of this share", CLI::Range(0.0, 1.0))
        ->needs(sample);
    add(app, "--min-p", &Options::min_p, "Sample among tokens at least this share as probable as the most probable; 0: all",
        CLI::Range(0.0, 1.0))
        ->needs(sample);
    add(app, "--seed", &Options::seed, "Of sampling")->needs(sample);
  }

  template <class M, class... Check>
  CLI::Option* add(CLI::App& app, const char* name, M Options::*member, const char* text, const Check&... check) {
    auto* option = app.add_option(name, options.*member, text);
    (option->check(check), ...);
    option->capture_default_str()->group(group);
    given_.push_back({option, [member](const Options& from, Options& to) { to.*member = from.*member; }});
    return option;
  }
  void add_required(CLI::App& app) {
    auto* required = app.add_option("--required", required_, "A word or phrase that every translation has; may be given again");
    required->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->allow_extra_args(false)->type_name("TEXT")->group(group);
    given_.push_back({required, [this](const Options&, Options& to) {
                        to.required = [words = required_](std::string_view) { return words; };
                      }});
  }
  void add_forced_end(CLI::App& app) {
    auto* forced = app.add_flag("--force-end", options.force_end, "At the length limit the end follows, whatever the model says");
    given_.push_back({forced, [](const Options& from, Options& to) {
                        to.force_end = from.force_end;
                        to.keep_unfinished = false;  // nothing is unfinished then
                      }});
    auto* scored = app.add_flag("--score-forced-end", options.score_forced_end,
                                "With --force-end: it counts as the model rates it there, not as certain");
    given_.push_back({scored, [](const Options& from, Options& to) { to.score_forced_end = from.score_forced_end; }});
    forced->group(group);
    scored->group(group)->needs(forced);
  }
  template <class M>
  void add_choice(CLI::App& app, const char* name, M Options::*member, const char* text,
                  const std::vector<std::pair<std::string, M>>& choices) {
    std::string names, preset;
    for (const auto& [word, value] : choices) {
      names += (names.empty() ? "" : ",") + word;
      if (value == options.*member) preset = word;
    }
    auto* option = app.add_option_function<std::string>(
        name,
        [this, member, choices](const std::string& word) {
          for (const auto& [known, value] : choices)
            if (word == known) options.*member = value;
        },
        text);
    std::vector<std::string> words;
    for (const auto& choice : choices) words.push_back(choice.first);
    option->check(CLI::IsMember(words))->default_str(preset)->group(group);
    given_.push_back({option, [member](const Options& from, Options& to) { to.*member = from.*member; }});
  }

  std::vector<std::string> required_;
  // Each option, and how it is copied.
  std::vector<std::pair<const CLI::Option*, std::function<void(const Options&, Options&)>>> given_;
};

}  // namespace translate
