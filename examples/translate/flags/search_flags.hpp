#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attend/translate/translator_options.hpp"
#include "option_flags.hpp"

namespace translate {

/// The options of a search on the command line.
class SearchFlags {
 public:
  using Options = attend::decode::TranslatorOptions;

  /// Without `--seed` if the command has one of its own, which its sampling then takes.
  void add_to(CLI::App& app, bool has_seed = true) {
    flags_.add_to(app, group, true, has_seed ? std::vector<std::string>{} : std::vector<std::string>{"--seed"});
    auto* sample = flags_.option("--sample");
    for (const char* of_beams : {"--beam", "--coverage", "--beam-groups", "--diversity-penalty", "--stop"})
      sample->excludes(flags_.option(of_beams));
    for (const char* of_sampling : {"--top-k", "--top-p", "--min-p"}) flags_.option(of_sampling)->needs(sample);
    if (has_seed) flags_.option("--seed")->needs(sample);
    flags_.option("--score-forced-end")->needs(flags_.option("--force-end"));
    never_ = texts(app, "--suppress", "A word or phrase that never comes; may be given again", banned_);
    must_ = texts(app, "--required", "A word or phrase that every translation has; may be given again", required_);
  }

  /// `base`, with what the command line says in its place: for a model that brings a search of its own.
  [[nodiscard]] Options over(Options base) const {
    // Drops what a model asks for that would not go with what the command line asks for.
    if (flags_.has("--sample")) base.beam = {}, base.coverage_penalty = 0, base.beam_groups = 1, base.diversity_penalty = 0;
    if (flags_.has("--beam") && base.sample) {
      const Options plain;
      base.sample = false;
      base.temperature = plain.temperature, base.top_k = plain.top_k, base.top_p = plain.top_p;
      base.min_p = plain.min_p, base.seed = plain.seed;
    }
    if (flags_.has("--force-end")) base.keep_unfinished = false;  // nothing is unfinished then
    base = flags_.over(std::move(base));
    if (never_ && never_->count() > 0) base.banned_text.insert(base.banned_text.end(), banned_.begin(), banned_.end());
    if (must_ && must_->count() > 0) base.required = [words = required_](std::string_view) { return words; };
    return base;
  }

 private:
  static constexpr const char* group = "Search";

  static CLI::Option* texts(CLI::App& app, const char* name, const char* text, std::vector<std::string>& to) {
    return app.add_option(name, to, text)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->allow_extra_args(false)
        ->type_name("TEXT")
        ->group(group);
  }

  OptionFlags<Options> flags_;
  std::vector<std::string> banned_, required_;
  CLI::Option *never_ = nullptr, *must_ = nullptr;
};

}  // namespace translate
