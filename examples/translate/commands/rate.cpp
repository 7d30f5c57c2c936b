// translate rate: how probable a model finds given translations, and which words belong together.

#include <CLI/CLI.hpp>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "any_translator.hpp"
#include "commands.hpp"
#include "line_work.hpp"
#include "output.hpp"

namespace translate {

namespace {

using namespace attend;

struct RateCommand {
  ModelsFlags models;
  std::string format = "text";
  index_t alignment_layer = -1;
  bool alignments = false;
  LineFlags lines;
};

/// Rates lines; a bad line ends the work, once those before it are rated.
class LineRater {
 public:
  LineRater(const RateCommand& flags, const ModelsFlags& models)
      : flags_(flags), translator_(make_translator(models, {}, [&](decode::TranslatorOptions& o) {
          o.alignments = flags.alignments;
          o.alignment_layer = flags.alignment_layer;
        })) {}

  LineResults operator()(const Lines& lines) const {
    LineResults results;
    std::vector<std::string> sources, targets;
    for (std::size_t i = 0; i < lines.lines.size() && results.error.empty(); ++i) {
      const auto& [text, fault] = lines.lines[i];
      const std::size_t tab = text.find('\t');
      const std::string line = "rate: line " + std::to_string(lines.before + i + 1);
      if (!fault.empty()) results.error = line + " " + fault;
      else if (tab == std::string::npos) results.error = line + " has no tab, expected `source<TAB>translation`";
      if (!results.error.empty()) break;
      sources.push_back(text.substr(0, tab));
      targets.push_back(text.substr(tab + 1, text.find('\t', tab + 1) - tab - 1));
    }
    try {
      results.text = rate(sources, targets, lines.before);
    } catch (const ValueError&) {  // a sentence is too long: one by one, up to that one
      try {
        for (std::size_t i = 0; i < sources.size(); ++i)
          results.text += rate({&sources[i], 1}, {&targets[i], 1}, lines.before + i);
      } catch (const ValueError& e) {
        results.error = e.what();
      }
    }
    return results;
  }

 private:
  using Texts = std::span<const std::string>;
  [[nodiscard]] std::string rate(Texts sources, Texts targets, std::size_t before) const {
    const auto rated = translator_->score(sources, targets, before);
    std::string out;
    for (std::size_t i = 0; i < rated.size(); ++i) {
      if (flags_.format == "json") {
        out += json_line(before + i + 1, sources[i], {rated[i]}, *translator_, flags_.alignments);
        continue;
      }
      out += formatted("%.4f\t", rated[i].log_probability) + std::to_string(rated[i].token_log_probabilities.size());
      if (flags_.alignments) out += '\t' + decode::to_pharaoh(rated[i].alignment);
      out += '\n';
    }
    return out;
  }

  const RateCommand& flags_;
  std::unique_ptr<AnyTranslator> translator_;
};

void rate(const CLI::App& command, const RateCommand& flags) {
  work_on_lines(command, flags.lines, flags.models, [&](const ModelsFlags& models) {
    return [rater = std::make_shared<LineRater>(flags, models)](const Lines& lines) { return (*rater)(lines); };
  });
}

}  // namespace

void add_rate(CLI::App& app) {
  auto* command =
      app.add_subcommand("rate", "Say how probable a model finds the translations in lines `source, tab, translation`");
  auto flags = std::make_shared<RateCommand>();
  flags->models.add_to(*command);
  flags->lines.add_to(*command, "rated");
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
  command->callback([flags, command] { rate(*command, *flags); });
}

}  // namespace translate
