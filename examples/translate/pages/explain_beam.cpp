// A beam search as a tree: a column for each step, in it what the step looked at, best first.

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "attend/core/shape.hpp"
#include "explain.hpp"
#include "markup.hpp"

namespace report {
namespace {

using attend::decode::BeamCandidate;
using attend::decode::Fate;

/// Beyond this many continuations, those that were dropped are counted and not drawn.
constexpr std::size_t most_drawn = 4'000;

class Tree {
 public:
  explicit Tree(const Explanation& data) : beam_(data.beam), pieces_(data.beam_pieces), searched_(data.searched) {
    check();
    for (std::size_t i = 0; i < beam_.size(); ++i) {
      const auto step = static_cast<std::size_t>(beam_[i].step);
      if (steps_.size() <= step) steps_.resize(step + 1);
      steps_[step].push_back(i);
    }
    on_best_.resize(beam_.size());
    for (std::size_t n = 0; n < data.translations.size(); ++n) trace(data.translations[n], n);
    all_drawn_ = beam_.size() <= most_drawn;
    place();
  }

  [[nodiscard]] std::string svg() const {
    std::string edges, strong, nodes;
    for (std::size_t i = 0; i < beam_.size(); ++i) {
      if (!drawn(i)) continue;
      (on_best_[i] ? strong : edges) += edge(i);
      nodes += node(i);
    }
    std::string heads;
    for (std::size_t s = 0; s < steps_.size(); ++s)
      heads +=
          "<text x=\"" + fixed(x(s) + wide / 2, 0) + "\" y=\"16\" class=\"step\">step " + std::to_string(s + 1) + "</text>\n";
    const double w = x(steps_.size()) - gap + 14;
    return "<svg class=\"tree\" viewBox=\"0 0 " + fixed(w, 0) + ' ' + fixed(height_, 0) + "\" width=\"" + fixed(w, 0) +
           "\" height=\"" + fixed(height_, 0) + "\" role=\"img\" aria-label=\"" +
           (searched_ ? "The beam search, step by step" : "The translation among what the model thought of") + "\">\n" + heads +
           edges + strong + "<g class=\"node live root\"><rect x=\"8\" y=\"" + fixed(top, 0) + "\" width=\"52\" height=\"" +
           fixed(tall, 0) + "\" rx=\"8\"/><text x=\"34\" y=\"" + fixed(top + 24, 0) +
           "\" class=\"mark middle\">begin</text></g>\n" + nodes + "</svg>\n";
  }

  [[nodiscard]] std::string table() const {
    std::string html =
        "<details><summary>The same as a table</summary>\n<div class=\"scroll\"><table>\n<thead><tr><th>step</th><th>after</th>"
        "<th>token</th><th>id</th><th class=\"number\">log-probability</th><th class=\"number\">sum</th>"
        "<th class=\"number\">score</th><th></th></tr></thead>\n<tbody>\n";
    for (const auto& step : steps_)
      for (const std::size_t i : step) {
        const BeamCandidate& c = beam_[i];
        html += std::string(on_best_[i] ? "<tr class=\"best\">" : "<tr>") + "<td>" + std::to_string(c.step + 1) +
                "</td><td><bdi>" + escaped(shortened_start(prefix(i))) + "</bdi></td><td><bdi>" + escaped(label(pieces_[i])) +
                "</bdi></td><td>" + std::to_string(pieces_[i].id) + "</td><td class=\"number\">" +
                with_minus(c.log_probability, 3) + "</td><td class=\"number\">" + with_minus(c.total, 3) +
                "</td><td class=\"number\">" + with_minus(c.score, 3) + "</td><td>" + fate(i) + "</td></tr>\n";
      }
    return html + "</tbody>\n</table></div>\n</details>\n";
  }

  [[nodiscard]] bool all_drawn() const { return all_drawn_; }
  [[nodiscard]] std::size_t steps() const { return steps_.size(); }

 private:
  // The drawing's own units, which are pixels.
  static constexpr double top = 30, wide = 116, gap = 40, tall = 38, low = 20, between = 6, first = 96;

  static double x(std::size_t step) { return first + static_cast<double>(step) * (wide + gap); }

  void check() const {
    attend::check_value(pieces_.size() == beam_.size(), "explain", "the beam has ", beam_.size(), " candidates and ",
                        pieces_.size(), " pieces");
    for (std::size_t i = 0; i < beam_.size(); ++i) {
      const BeamCandidate& c = beam_[i];
      const bool starts = c.parent < 0 && c.step == 0;
      const bool follows =
          c.parent >= 0 && static_cast<std::size_t>(c.parent) < i && attend::nth(beam_, c.parent).step + 1 == c.step;
      attend::check_value(starts || follows, "explain", "candidate ", i, " of step ", c.step, " has the parent ", c.parent,
                          ", which is not of the step before");
    }
  }

  /// Marks the path of a translation, if the search took all of it.
  void trace(const ScoredTranslation& translation, std::size_t rank) {
    std::map<std::pair<attend::index_t, std::int64_t>, std::size_t> next;
    for (std::size_t i = 0; i < beam_.size(); ++i) next.emplace(std::pair{beam_[i].parent, pieces_[i].id}, i);
    std::vector<std::size_t> way;
    attend::index_t at = -1;
    for (const Piece& piece : translation.pieces) {
      const auto found = next.find({at, piece.id});
      if (found == next.end()) return;
      way.push_back(found->second);
      at = static_cast<attend::index_t>(found->second);
    }
    if (way.empty()) return;
    ranks_.emplace(way.back(), rank + 1);
    if (rank == 0)
      for (const std::size_t i : way) on_best_[i] = true;
  }

  [[nodiscard]] bool small(std::size_t i) const { return beam_[i].fate == Fate::dropped && !on_best_[i]; }
  [[nodiscard]] bool drawn(std::size_t i) const { return all_drawn_ || !small(i); }

  void place() {
    y_.resize(beam_.size());
    height_ = top + tall;
    for (const auto& step : steps_) {
      double y = top;
      for (const std::size_t i : step) {
        if (!drawn(i)) continue;
        y_[i] = y;
        y += (small(i) ? low : tall) + between;
      }
      height_ = std::max(height_, y);
    }
    height_ += 4;
  }

  [[nodiscard]] std::string prefix(std::size_t i) const {
    std::string text;
    for (auto at = beam_[i].parent; at >= 0; at = attend::nth(beam_, at).parent)
      text = label(attend::nth(pieces_, at)) + (text.empty() ? "" : " ") + text;
    return text.empty() ? "begin" : text;
  }
  /// The end of a long prefix: what comes before is like the lines above.
  static std::string shortened_start(const std::string& text) {
    const auto points = attend::text::decode_utf8(text);
    return points.size() <= 40 ? text : "…" + attend::text::encode_utf8(points.substr(points.size() - 39));
  }

  [[nodiscard]] std::string fate(std::size_t i) const {
    const auto rank = ranks_.find(i);
    const std::string listed = rank == ranks_.end() ? "" : ", number " + std::to_string(rank->second) + " of the list";
    switch (beam_[i].fate) {
      case Fate::live:
        return (searched_ ? "live" : "said") + listed;
      case Fate::ended:
        return (searched_ ? "ended" : "said") + listed;
      case Fate::dropped:
        break;
    }
    return searched_ ? "dropped" : "alternative";
  }

  [[nodiscard]] double middle(std::size_t i) const { return y_[i] + (small(i) ? low : tall) / 2; }

  [[nodiscard]] std::string edge(std::size_t i) const {
    const BeamCandidate& c = beam_[i];
    const auto parent = static_cast<std::size_t>(c.parent);
    const double x1 = c.parent < 0 ? 60 : x(static_cast<std::size_t>(c.step) - 1) + wide, x2 = x(c.step);
    const double y1 = c.parent < 0 ? top + tall / 2 : middle(parent), y2 = middle(i), bend = (x1 + x2) / 2;
    return "<path id=\"e" + std::to_string(i) + "\" class=\"edge " +
           (on_best_[i] ? "best"
            : small(i)  ? "dropped"
                        : "live") +
           "\" d=\"M" + fixed(x1, 0) + ' ' + fixed(y1, 0) + 'C' + fixed(bend, 0) + ' ' + fixed(y1, 0) + ' ' + fixed(bend, 0) +
           ' ' + fixed(y2, 0) + ' ' + fixed(x2, 0) + ' ' + fixed(y2, 0) + "\"/>\n";
  }

  [[nodiscard]] std::string node(std::size_t i) const {
    const BeamCandidate& c = beam_[i];
    const double left = x(c.step), y = y_[i];
    const auto text = [&](double at, double down, const std::string& style, const std::string& words) {
      return "<text x=\"" + fixed(left + at, 0) + "\" y=\"" + fixed(y + down, 0) + "\" class=\"" + style + "\">" +
             escaped(words) + "</text>";
    };
    const Piece& piece = pieces_[i];
    const std::string mark = piece.kind == PieceKind::end ? " mark" : "";
    std::string style = c.fate == Fate::dropped ? "dropped" : c.fate == Fate::ended ? "ended" : "live";
    if (on_best_[i]) style += " best";
    std::string svg = "<g class=\"node " + style + "\" data-node=\"" + std::to_string(i) + "\" data-parent=\"" +
                      std::to_string(c.parent) + "\"><title>" + escaped(prefix(i)) + " → " + escaped(label(piece)) + " (token " +
                      std::to_string(piece.id) + ")\nprobability " + fixed(100 * std::exp(c.log_probability), 1) +
                      " %, log-probability " + with_minus(c.log_probability, 3) + "\nsum " + with_minus(c.total, 3) + ", score " +
                      with_minus(c.score, 3) + "\n" + fate(i) + "</title>";
    if (small(i)) {
      svg += "<rect x=\"" + fixed(left, 0) + "\" y=\"" + fixed(y, 0) + "\" width=\"" + fixed(wide, 0) + "\" height=\"" +
             fixed(low, 0) + "\" rx=\"4\"/>";
      return svg + text(8, 14, "piece" + mark, fitted(label(piece), 5)) +
             text(wide - 8, 14, "score", with_minus(shown_score(c), 2)) + "</g>\n";
    }
    svg += "<rect x=\"" + fixed(left, 0) + "\" y=\"" + fixed(y, 0) + "\" width=\"" + fixed(wide, 0) + "\" height=\"" +
           fixed(tall, 0) + "\" rx=\"" + (c.fate == Fate::ended ? "19" : "8") + "\"/>";
    const bool ended = c.fate == Fate::ended;
    svg += text(ended ? 16 : 9, 16, "piece" + mark, fitted(label(piece), ended ? 6.5 : 7.5));
    svg += text(ended ? 16 : 9, 31, "score", with_minus(shown_score(c), 2));
    svg += text(wide - (ended ? 16 : 9), 31, "chance", percent(c.log_probability));
    if (const auto rank = ranks_.find(i); rank != ranks_.end() && searched_)
      svg += "<circle cx=\"" + fixed(left + wide - 8, 0) + "\" cy=\"" + fixed(y + 4, 0) + "\" r=\"9\"/>" +
             text(wide - 8, 8, "rank", std::to_string(rank->second));
    return svg + "</g>\n";
  }
  [[nodiscard]] double shown_score(const BeamCandidate& c) const { return searched_ ? c.score : c.log_probability; }
  static std::string percent(double log_probability) {
    const double p = 100 * std::exp(log_probability);
    return p >= 99.5 ? "100 %" : p < 1 ? "< 1 %" : fixed(p, 0) + " %";
  }

  const std::vector<BeamCandidate>& beam_;
  const std::vector<Piece>& pieces_;
  bool searched_, all_drawn_ = true;
  std::vector<std::vector<std::size_t>> steps_;  // the candidates of each
  std::vector<bool> on_best_;                    // is the candidate part of the best translation?
  std::map<std::size_t, std::size_t> ranks_;     // of the candidates that end a translation of the list
  std::vector<double> y_;
  double height_ = 0;
};

}  // namespace

std::string beam_html(const Explanation& data) {
  if (data.beam.empty()) return {};
  const Tree tree(data);
  std::string page;
  if (data.searched) {
    page =
        "<h2>How it searched</h2>\n<p>Each column is a step of the beam search: the most probable ways to go on, the best on "
        "top. "
        "A box names the piece, its score so far (the sum of log-probabilities, normalised by the length) and the probability of "
        "that piece. The thick line is the way to the best translation; round boxes have ended, and their numbers are those "
        "of the list above; the pale ones without a box were dropped.</p>\n";
  } else {
    page =
        "<h2>What else it thought of</h2>\n<p>Each column is a step: the piece that was said, in the box, among those that the "
        "model found most probable at that place, the best on top, with their log-probabilities.</p>\n";
  }
  if (!tree.all_drawn()) page += "<p><b>The beam is large: what was dropped is only in the table.</b></p>\n";
  page += "<div class=\"card scroll beam\" tabindex=\"0\" role=\"group\" aria-label=\"The search, " +
          std::to_string(tree.steps()) + " steps\">\n" + tree.svg() + "</div>\n";
  return page + tree.table();
}

}  // namespace report
