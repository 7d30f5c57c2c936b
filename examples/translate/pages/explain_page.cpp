// The page of `translate explain`: the sentence in pieces, the list of translations, and what the other files draw.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "attend/core/shape.hpp"
#include "attend/io/file.hpp"
#include "explain.hpp"
#include "explain_style.hpp"
#include "markup.hpp"
#include "report_style.hpp"

namespace report {
namespace {

const char* style_of(PieceKind kind) {
  switch (kind) {
    case PieceKind::byte:
      return " byte";
    case PieceKind::unk:
      return " unknown";
    case PieceKind::begin:
    case PieceKind::end:
      return " mark";
    case PieceKind::text:
      break;
  }
  return "";
}

void check(const Explanation& data) {
  for (const ScoredTranslation& each : data.translations)
    attend::check_value(each.pieces.size() == each.log_probabilities.size(), "explain", "a translation has ", each.pieces.size(),
                        " pieces and ", each.log_probabilities.size(), " log-probabilities");
}

std::string head(const Explanation& data) {
  std::string page =
      "<h1>How a sentence was translated</h1>\n<div class=\"card pair\">\n<p dir=\"auto\">" + escaped(data.source) + "</p>\n";
  if (data.translations.empty()) return page + "</div>\n";
  const ScoredTranslation& best = data.translations.front();
  page += "<p dir=\"auto\" class=\"answer\">" + (best.text.empty() ? "(nothing)" : escaped(best.text)) + "</p>\n</div>\n" +
          links_html(data);
  const auto tokens = static_cast<double>(std::max<std::size_t>(best.pieces.size(), 1));
  page +=
      "<div class=\"tiles\">\n" + tile(with_minus(best.score, 3), "score: log-probability, normalised by the length") +
      tile(with_minus(best.log_probability, 3), "log-probability of all its tokens") +
      tile(fixed(100 * std::exp(best.log_probability / tokens), 1) + " %", "probability per token, geometric mean") +
      tile(std::to_string(data.source_pieces.size()) + " → " + std::to_string(best.pieces.size()), "tokens, the end counted") +
      "</div>\n";
  if (data.settings.empty()) return page;
  page += "<div class=\"card\"><dl>\n";
  for (const Setting& setting : data.settings)
    page += "<div><dt>" + escaped(setting.name) + "</dt><dd>" + escaped(setting.value) + "</dd></div>\n";
  return page + "</dl></div>\n";
}

std::string numbered(const std::vector<Piece>& pieces) {
  std::vector<std::string> ids, notes;
  for (const Piece& piece : pieces) {
    ids.push_back(std::to_string(piece.id));
    notes.push_back(label(piece) + ", token " + ids.back() +
                    (piece.kind == PieceKind::unk ? ", which stands for all unknown" : ""));
  }
  return pieces_html(pieces, ids, notes);
}

std::string split(const Explanation& data) {
  std::string page =
      "<h2>In pieces</h2>\n<p>What the model reads and writes: subwords, each with its number in the vocabulary. Pieces that "
      "touch are one word; ▁ stands for the space before it.";
  const auto any = [&](PieceKind kind) {
    const auto is = [kind](const Piece& piece) { return piece.kind == kind; };
    return std::any_of(data.source_pieces.begin(), data.source_pieces.end(), is) ||
           std::any_of(data.translations.begin(), data.translations.end(),
                       [&](const auto& t) { return std::any_of(t.pieces.begin(), t.pieces.end(), is); });
  };
  if (any(PieceKind::byte)) page += " <span class=\"chip byte\">dashed</span> is a single byte of a character without a piece.";
  if (any(PieceKind::unk)) page += " <span class=\"chip unknown\">hatched</span> is what the vocabulary does not know.";
  page += "</p>\n<div class=\"card\">\n<h3>Source</h3>\n" + numbered(data.source_pieces);
  if (!data.translations.empty())
    page += std::string("<h3>") + (data.given ? "Given translation" : "Translation") + "</h3>\n" +
            numbered(data.translations.front().pieces);
  return page + "</div>\n";
}

std::string list(const Explanation& data) {
  if (data.translations.empty()) return {};
  std::string page = data.given                      ? "<h2>How likely it is</h2>\n<p>"
                     : data.translations.size() == 1 ? "<h2>How sure it was</h2>\n<p>"
                                                     : "<h2>The best translations</h2>\n<p>";
  page +=
      "Under each piece stands its log-probability given all before it; the bar is the probability, full at 1.</p>\n<ol "
      "class=\"list\">\n";
  for (std::size_t n = 0; n < data.translations.size(); ++n) {
    const ScoredTranslation& each = data.translations[n];
    std::vector<std::string> below, notes;
    for (std::size_t i = 0; i < each.pieces.size(); ++i) {
      const double p = std::exp(std::min(each.log_probabilities[i], 0.0));
      below.push_back("<i style=\"width:" + fixed(100 * p, 1) + "%\"></i>" + with_minus(each.log_probabilities[i], 2));
      notes.push_back(label(each.pieces[i]) + ": log-probability " + with_minus(each.log_probabilities[i], 4) + ", probability " +
                      fixed(100 * p, 2) + " %");
    }
    page += "<li class=\"card\"><div class=\"answer\"><b>" + std::to_string(n + 1) + "</b><span dir=\"auto\">" +
            escaped(each.text) + "</span></div>\n<div class=\"scores\">score <b>" + with_minus(each.score, 4) +
            "</b> · log-probability <b>" + with_minus(each.log_probability, 4) + "</b> · " + std::to_string(each.pieces.size()) +
            (each.pieces.size() == 1 ? " token" : " tokens") +
            (each.finished ? "" : " · <b>not finished</b>: cut off by the limit of its length") + "</div>\n" +
            pieces_html(each.pieces, below, notes) + "</li>\n";
  }
  return page + "</ol>\n";
}

}  // namespace

std::string label(const Piece& piece) {
  return piece.kind == PieceKind::begin ? "begin" : piece.kind == PieceKind::end ? "end" : piece.text;
}

bool begins_word(const Piece& piece) {
  return piece.text.rfind("▁", 0) == 0 || piece.kind == PieceKind::begin || piece.kind == PieceKind::end;
}

bool is_right_to_left(const std::vector<Piece>& pieces) {
  std::string text;
  for (const Piece& piece : pieces)
    if (piece.kind == PieceKind::text || (piece.kind == PieceKind::unk && piece.text != "<unk>")) text += piece.text;
  return is_right_to_left(text);
}

std::string pieces_html(const std::vector<Piece>& pieces, const std::vector<std::string>& below,
                        const std::vector<std::string>& notes) {
  std::string html = std::string("<div class=\"pieces\"") + (is_right_to_left(pieces) ? " dir=\"rtl\">" : ">");
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (i == 0 || begins_word(pieces[i])) html += i == 0 ? "\n<span class=\"word\">" : "</span>\n<span class=\"word\">";
    html += "<span class=\"chip" + std::string(style_of(pieces[i].kind)) + "\" title=\"" + escaped(notes[i]) + "\"><bdi>" +
            escaped(label(pieces[i])) + "</bdi><small>" + below[i] + "</small></span>";
  }
  return html + (pieces.empty() ? "</div>\n" : "</span>\n</div>\n");
}

std::string html(const Explanation& data) {
  check(data);
  const std::string attention = attention_html(data.attention);  // checks what the lines are drawn from
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
         "content=\"width=device-width, initial-scale=1\">\n<title>" +
         escaped(data.source) + "</title>\n<style>" + style + explain_style + "</style>\n</head>\n<body>\n<main>\n" + head(data) +
         split(data) + list(data) + beam_html(data) + attention + "<footer>Written by attend.</footer>\n</main>\n<script>" +
         explain_script + "</script>\n</body>\n</html>\n";
}

void write_explanation(const std::filesystem::path& path, const Explanation& explanation) {
  attend::io::write_file_atomically(path, html(explanation));
}

}  // namespace report
