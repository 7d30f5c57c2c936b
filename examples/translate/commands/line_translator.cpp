#include "line_translator.hpp"

#include <algorithm>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "attend/text/utf8.hpp"
#include "attend/translate/alignment.hpp"
#include "output.hpp"

namespace translate {

namespace {

using namespace attend;

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
/// `line number, tab, score, tab, translation`; or a JSON object for each line; or pairs.
class LineTranslator {
 public:
  LineTranslator(const TranslateFlags& flags, const ModelsFlags& models) : flags_(flags) {
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
      // Where there is no memory for a line as short as most are, there is none for the others either.
      const bool long_line = lines[i].text.size() > 1000;
      const auto fault = fault_in([&] { results.text += translate(lines.subspan(i, 1), before + i); }, long_line);
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
    for (std::size_t i = 0; flags_.choose && i < lists.size(); ++i) flags_.choose(before + i, lists[i]);
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
    else if (flags_.format == "pairs") results.text += text::collapse_spaces(source) + "\t\n";  // which reading counts as empty
    else if (!lists_) results.text += "\n";
  }
  /// The library's message about a line that is too long, with the option that helps.
  [[nodiscard]] std::string with_option(const std::string& fault) const {
    return flags_.alternatives == 0 && fault.ends_with("; split it") ? fault + ", as --long-input split does" : fault;
  }
  /// Calls f and returns what is wrong with the lines that it translates, empty if nothing is. Exceptions about anything else are
  /// passed on, as about memory unless the lines may be to blame for it.
  template <class F>
  static std::string fault_in(F&& f, bool blame_for_memory = true) {
    try {
      f();
      return {};
    } catch (const ValueError& e) {  // too long, most often
      return e.what();
    } catch (const IndexError& e) {
      return e.what();
    } catch (const MemoryError& e) {
      if (!blame_for_memory) throw;
      return e.what();
    } catch (const std::bad_alloc&) {
      if (!blame_for_memory) throw;
      return "out of memory";
    }
  }

  [[nodiscard]] std::string text_of(std::size_t number, const std::string& source,
                                    const std::vector<decode::Translation>& list) const {
    if (flags_.format == "json") return json_line(number, source, list, *translator_, flags_.alignments);
    if (flags_.format == "pairs") return pairs_of(source, list);
    std::string out;
    for (const auto& translation : list) {
      if (lists_) out += std::to_string(number) + formatted("\t%.4f\t", translation.score);
      out += translation.text;
      if (flags_.alignments) out += '\t' + decode::to_pharaoh(translation.alignment);
      out += '\n';
    }
    return out;
  }

  /// White space becomes plain spaces, so that no translation can break its line. Those that then read alike come once.
  static std::string pairs_of(const std::string& source, const std::vector<decode::Translation>& list) {
    std::vector<std::string> texts;
    std::string out;
    for (const auto& translation : list) {
      auto text = text::collapse_spaces(translation.text);
      if (std::find(texts.begin(), texts.end(), text) != texts.end()) continue;
      out += text::collapse_spaces(source) + '\t' + text + '\n';
      texts.push_back(std::move(text));
    }
    return out;
  }

  const TranslateFlags& flags_;
  bool lists_ = false;
  Typewriter typewriter_;
  std::unique_ptr<AnyTranslator> translator_;
};

}  // namespace

std::function<LineResults(const Lines&)> line_translator(const TranslateFlags& flags, const ModelsFlags& models) {
  const auto translate = std::make_shared<LineTranslator>(flags, models);
  return [translate](const Lines& lines) { return (*translate)(lines); };
}

}  // namespace translate
