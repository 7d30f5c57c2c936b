#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "any_translator.hpp"
#include "attend/core/error.hpp"
#include "attend/translate/translator_options.hpp"
#include "flags/search_flags.hpp"
#include "line_work.hpp"

namespace translate {

/// How lines are translated, and what is printed of it.
struct TranslateFlags {
  SearchFlags search;
  /// `text`, `json`, or `pairs`: each source with its translations, a pair a line, as corpora are read.
  std::string format = "text";
  std::string prefix, long_input = "refuse";
  attend::index_t alternatives = 0, alignment_layer = -1;
  bool with_prefix = false, split_sentences = false, alignments = false, stream = false, beam_given = false;
  const std::uint64_t* seed = nullptr;  ///< of sampling, if the search has no flag for it
  /// Keeps of the translations of a line, whose number in the input is given, from 0, those that are wanted; all without it.
  std::function<void(std::size_t, std::vector<attend::decode::Translation>&)> choose;

  /// `--split-sentences`, which it gives, and `--long-input`; `refused` says what becomes of a line that is refused.
  CLI::Option* add_long_input(CLI::App& app, const std::string& group, const std::string& refused) {
    auto* split = app.add_flag("--split-sentences", split_sentences,
                               "Translate the sentences of a line each by itself, as models are trained to");
    split->group(group);
    app.add_option("--long-input", long_input,
                   "A line with more tokens than the model takes: refuse it, which " + refused +
                       "; or split it at sentences, clauses, spaces")
        ->check(CLI::IsMember({"refuse", "split"}))
        ->capture_default_str()
        ->group(group);
    return split;
  }
  /// The options that do not concern the search alone.
  void adjust(attend::decode::TranslatorOptions& o) const {
    if (long_input == "split") o.long_input = attend::decode::LongInput::split;
    o.split_sentences = split_sentences;
    o.alignments = alignments;
    o.alignment_layer = alignment_layer;
    if (seed != nullptr && o.sample) o.seed = *seed;
    using attend::check_value;
    if (choose && o.n_best == 1 && !o.sample) o.n_best = o.beam;
    check_value(!choose || o.n_best > 1, "distill",
                "--interpolate chooses among translations of a sentence, and this search gives one: see --beam and --n-best");
    check_value(!o.required || !(split_sentences || long_input == "split"), "run",
                "--required is for whole lines, --split-sentences and --long-input split translate parts of them");
    if (!stream) return;
    if (!beam_given) o.beam = 1;
    check_value(o.n_best == 1, "run", "--stream prints one translation a line, --n-best asks for ", o.n_best);
    check_value(o.unknown != attend::decode::Unknown::replace, "run",
                "--stream prints each word as it comes, --unknown replace changes words afterwards");
  }
};

/// Loads the models and gives what translates lines with them, for `work_on_lines`. A line at fault costs no other its
/// translation. `flags` must outlive it. Throws as `make_translator`.
std::function<LineResults(const Lines&)> line_translator(const TranslateFlags& flags, const ModelsFlags& models);

}  // namespace translate
