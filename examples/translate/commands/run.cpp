// translate run: translates lines.

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "commands.hpp"
#include "line_translator.hpp"
#include "line_work.hpp"

namespace translate {

namespace {

using namespace attend;

struct RunCommand : TranslateFlags {
  ModelsFlags models;
  LineFlags lines;
};

void run(const CLI::App& command, const RunCommand& flags) {
  work_on_lines(command, flags.lines, flags.models, [&](const ModelsFlags& models) { return line_translator(flags, models); });
}

void add_text_flags(CLI::App& app, RunCommand& flags) {
  const std::string group = "Text";
  auto* split = flags.add_long_input(app, group, "leaves its line empty and ends with exit code 1");
  auto* prefix = app.add_option("--prefix", flags.prefix, "What every translation begins with");
  prefix->type_name("TEXT")->group(group);
  app.add_flag("--with-prefix", flags.with_prefix, "Lines are `source, tab, what its translation begins with`")
      ->excludes(prefix)
      ->group(group);
  auto* alternatives = app.add_option("--alternatives", flags.alternatives,
                                      "After the prefix, so many of the most probable next tokens, each with the best "
                                      "translation that goes on so");
  alternatives->check(CLI::Range(1, 1000))->group(group)->excludes(split)->excludes("--n-best")->excludes("--sample");
  app.add_flag("--alignments", flags.alignments, "With each translation a column `0-0 1-2`: its words, source-target, from 0 on")
      ->group(group);
  app.add_option("--alignment-layer", flags.alignment_layer,
                 "The decoder layer whose attention aligns, from 0 on; -1: the last but one")
      ->check(CLI::Range(-1, 1000))
      ->capture_default_str()
      ->group(group);
  auto* format =
      app.add_option("--format", flags.format,
                     "text: a line for a line, tabs where there are columns. json: an object for a line, with the tokens and "
                     "their log-probabilities");
  format->check(CLI::IsMember({"text", "json"}))->capture_default_str()->group(group);
  app.add_flag("--stream", flags.stream, "Print each word as it comes; greedy, or with --sample")
      ->excludes(format)
      ->excludes(alternatives)
      ->excludes("--alignments")
      ->excludes("--out")
      ->group(group);
}

}  // namespace

void add_run(CLI::App& app) {
  auto* command = app.add_subcommand("run", "Translate standard input, or a file, a line for a line");
  auto flags = std::make_shared<RunCommand>();
  flags->models.add_to(*command);
  flags->lines.add_to(*command, "translated");
  flags->search.add_to(*command);
  command->add_option("--shortlist", flags->models.shortlist, "Tokens that may come, as `translate shortlist` writes them")
      ->type_name("FILE")
      ->group("Search");
  add_text_flags(*command, *flags);
  command->callback([flags, command] {
    flags->beam_given = command->get_option("--beam")->count() > 0;
    if (flags->stream) flags->lines.for_one_process = "--stream";
    run(*command, *flags);
  });
}

}  // namespace translate
