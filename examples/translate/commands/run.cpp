// translate run: translates lines.

#include <CLI/CLI.hpp>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "any_translator.hpp"
#include "commands.hpp"
#include "flags/search_flags.hpp"
#include "line_work.hpp"
#include "output.hpp"

namespace translate {

namespace {

using namespace attend;

struct RunCommand {
  ModelsFlags models;
  SearchFlags search;
  LineFlags lines;
  std::string format = "text", prefix, long_input = "refuse";
  index_t alternatives = 0, alignment_layer = -1;
  bool with_prefix = false, split_sentences = false, alignments = false, stream = false, beam_given = false;

  /// The options that do not concern the search alone.
  void adjust(decode::TranslatorOptions& o) const {
    if (long_input == "split") o.long_input = decode::LongInput::split;
    o.split_sentences = split_sentences;
    o.alignments = alignments;
    o.alignment_layer = alignment_layer;
    check_value(!o.required || !(split_sentences || long_input == "split"), "run",
                "--required is for whole lines, --split-sentences and --long-input split translate parts of them");
    if (!stream) return;
    if (!beam_given) o.beam = 1;
    check_value(o.n_best == 1, "run", "--stream prints one translation a line, --n-best asks for ", o.n_best);
    check_value(o.unknown != decode::Unknown::replace, "run",
                "--stream prints each word as it comes, --unknown replace changes words afterwards");
  }
};

/// Prints a translation as it grows, word by word.
class Typewriter {
 public:
  /// Shows the translation so far, up to its last space: what comes before that will not change.
  bool show(const decode::TranslatedToken& token) {
    const std::size_t end = token.text.rfind(' ');
    if (end != std::string_view::npos) print(token.text.substr(0, end));
    return true;
  }
  /// The whole of it.
  void finish(const std::string& text) {
    print(text);
    write_out("\n");
    printed_.clear();
  }

 private:
  void print(std::string_view text) {
    if (!text.starts_with(printed_) || text.size() == printed_.size()) return;
    write_out(std::string(text.substr(printed_.size())));
    printed_ = text;
  }
  std::string printed_;
};

/// Translates lines, and gives the best translation of each; or, for n-best lists and alternatives, all as
/// `line number, tab, score, tab, translation`; or a JSON object for each line.
class LineTranslator {
 public:
  LineTranslator(const RunCommand& flags, const ModelsFlags& models) : flags_(flags) {
    translator_ = make_translator(models, flags.search, [&](decode::TranslatorOptions& o) {
      flags.adjust(o);
      lists_ = o.n_best > 1 || flags.alternatives > 0;
      if (flags.stream) o.on_token = [this](const decode::TranslatedToken& token) { return typewriter_.show(token); };
    });
  }
  LineTranslator(const LineTranslator&) = delete;

  /// A line at fault costs no other its translation.
  LineResults operator()(const Lines& lines) {
    LineResults results;
    for (std::size_t first = 0, last; first < lines.lines.size(); first = last) {
      for (last = first; last < lines.lines.size() && lines.lines[last].fault.empty();) ++last;
      const auto good = std::span(lines.lines).subspan(first, last - first);
      translate_each(good, lines.before + first, results);
      if (last == lines.lines.size()) break;
      leave_out(lines.before + last + 1, "", "it " + lines.lines[last].fault, results);
      ++last;
    }
    return results;
  }

 private:
  using Good = std::span<const Lines::Line>;

  /// Together if that goes well, else one by one.
  void translate_each(Good lines, std::size_t before, LineResults& results) {
    if (!flags_.stream && lines.size() > 1 && fault_in([&] { results.text += translate(lines, before); }).empty()) return;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const auto fault = fault_in([&] { results.text += translate(lines.subspan(i, 1), before + i); });
      if (!fault.empty()) leave_out(before + i + 1, lines[i].text, with_option(fault), results);
    }
  }
  /// The lines that come after `before` others.
  std::string translate(Good lines, std::size_t before) {
    std::vector<std::string> sources, prefixes;
    for (const auto& line : lines) {
      const std::size_t tab = flags_.with_prefix ? line.text.find('\t') : std::string::npos;
      sources.push_back(line.text.substr(0, tab));
      prefixes.push_back(tab == std::string::npos ? flags_.prefix : line.text.substr(tab + 1));
    }
    std::string out;
    if (flags_.stream) {
      for (std::size_t i = 0; i < lines.size(); ++i)
        typewriter_.finish(translator_->translate({&sources[i], 1}, before + i, {&prefixes[i], 1}).front().front().text);
      return out;
    }
    AnyTranslator::Lists lists;
    if (flags_.alternatives == 0) lists = translator_->translate(sources, before, prefixes);
    else
      for (std::size_t i = 0; i < lines.size(); ++i)
        lists.push_back(translator_->alternatives(sources[i], prefixes[i], flags_.alternatives, before + i));
    for (std::size_t i = 0; i < lists.size(); ++i) out += text_of(before + i + 1, sources[i], lists[i]);
    return out;
  }

  /// In place of a translation: says why there is none, and keeps output and input line for line. In lists each line has its
  /// number, so there is nothing to print.
  void leave_out(std::size_t number, const std::string& source, const std::string& fault, LineResults& results) {
    results.messages.push_back("line " + std::to_string(number) + " has no translation: " + fault);
    results.faulty = true;
    if (flags_.stream) typewriter_.finish("");
    else if (flags_.format == "json") results.text += json_line(number, source, {}, *translator_, false, fault);
    else if (!lists_) results.text += "\n";
  }
  /// The library's message about a line that is too long, with the option that helps.
  [[nodiscard]] std::string with_option(const std::string& fault) const {
    return flags_.alternatives == 0 && fault.ends_with("; split it") ? fault + ", as --long-input split does" : fault;
  }
  /// Calls f and returns what is wrong with the lines that it translates, empty if nothing is. Exceptions about anything else are
  /// passed on.
  template <class F>
  static std::string fault_in(F&& f) {
    try {
      f();
      return {};
    } catch (const ValueError& e) {  // too long, most often
      return e.what();
    } catch (const IndexError& e) {
      return e.what();
    } catch (const MemoryError& e) {
      return e.what();
    } catch (const std::bad_alloc&) {
      return "out of memory";
    }
  }

  [[nodiscard]] std::string text_of(std::size_t number, const std::string& source,
                                    const std::vector<decode::Translation>& list) const {
    if (flags_.format == "json") return json_line(number, source, list, *translator_, flags_.alignments);
    std::string out;
    for (const auto& translation : list) {
      if (lists_) out += std::to_string(number) + number_text("\t%.4f\t", translation.score);
      out += translation.text;
      if (flags_.alignments) out += '\t' + decode::to_pharaoh(translation.alignment);
      out += '\n';
    }
    return out;
  }

  const RunCommand& flags_;
  bool lists_ = false;
  Typewriter typewriter_;
  std::unique_ptr<AnyTranslator> translator_;
};

void run(const CLI::App& command, const RunCommand& flags) {
  work_on_lines(command, flags.lines, flags.models, [&](const ModelsFlags& models) {
    const auto translate = std::make_shared<LineTranslator>(flags, models);
    return [translate](const Lines& lines) { return (*translate)(lines); };
  });
}

void add_text_flags(CLI::App& app, RunCommand& flags) {
  const std::string group = "Text";
  auto* split = app.add_flag("--split-sentences", flags.split_sentences,
                             "Translate the sentences of a line each by itself, as models are trained to");
  split->group(group);
  app.add_option(
         "--long-input", flags.long_input,
         "A line with more tokens than the model takes: refuse it, which leaves its line empty and ends with exit code 1; "
         "or split it at sentences, clauses, spaces")
      ->check(CLI::IsMember({"refuse", "split"}))
      ->capture_default_str()
      ->group(group);
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
