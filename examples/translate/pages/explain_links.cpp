// Source and translation as two rows of pieces, and between them lines for where each piece of the translation looked.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "explain.hpp"
#include "markup.hpp"

namespace report {
namespace {

constexpr double letters = 15, tall = 30, apart = 130, least = 0.06;

/// A row of pieces, those of a word side by side.
struct Row {
  std::vector<double> left, width;
  double total = 0;

  explicit Row(const std::vector<Piece>& pieces) {
    for (const Piece& piece : pieces) {
      const bool word = begins_word(piece);
      if (!left.empty()) total += word ? 12 : 2;
      left.push_back(total);
      width.push_back(std::max(26.0, std::ceil(text_width(fitted(label(piece), 14)) * letters + 14)));
      total += width.back();
    }
    if (is_right_to_left(pieces))
      for (std::size_t i = 0; i < left.size(); ++i) left[i] = total - left[i] - width[i];
  }
  [[nodiscard]] double middle(std::size_t i) const { return left[i] + width[i] / 2; }
};

std::string chips(const std::vector<Piece>& pieces, const Row& row, double shift, double y) {
  std::string svg;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const bool mark = pieces[i].kind == PieceKind::begin || pieces[i].kind == PieceKind::end;
    svg += "<rect x=\"" + fixed(shift + row.left[i], 1) + "\" y=\"" + fixed(y, 0) + "\" width=\"" + fixed(row.width[i], 1) +
           "\" height=\"" + fixed(tall, 0) + "\" rx=\"6\"/><text x=\"" + fixed(shift + row.middle(i), 1) + "\" y=\"" +
           fixed(y + 20, 0) + "\"" + (mark ? " class=\"mark\">" : ">") + escaped(fitted(label(pieces[i]), 14)) + "</text>\n";
  }
  return svg;
}

}  // namespace

std::string links_html(const Explanation& data) {
  const auto cross =
      std::find_if(data.attention.begin(), data.attention.end(), [](const auto& kind) { return kind.name == "cross"; });
  if (cross == data.attention.end() || cross->weights.empty() || cross->down.empty() || cross->across.empty()) return {};
  const std::vector<float> weights = mean_of(cross->weights.back());
  const Row source(cross->across), target(cross->down);
  const double wide = std::max(source.total, target.total), margin = 4;
  const double source_shift = margin + (wide - source.total) / 2, target_shift = margin + (wide - target.total) / 2;
  const double upper = margin + tall, lower = upper + apart, bend = apart * 0.45;
  std::string lines;
  for (std::size_t t = 0; t < cross->down.size(); ++t)
    for (std::size_t s = 0; s < cross->across.size(); ++s) {
      const auto weight = static_cast<double>(weights[t * cross->across.size() + s]);
      if (!(weight >= least)) continue;
      const double x1 = source_shift + source.middle(s), x2 = target_shift + target.middle(t);
      lines += "<path d=\"M" + fixed(x1, 1) + ' ' + fixed(upper, 0) + 'C' + fixed(x1, 1) + ' ' + fixed(upper + bend, 0) + ' ' +
               fixed(x2, 1) + ' ' + fixed(lower - bend, 0) + ' ' + fixed(x2, 1) + ' ' + fixed(lower, 0) + "\" stroke-opacity=\"" +
               fixed(std::min(weight, 1.0), 2) + "\" stroke-width=\"" + fixed(1 + 6 * std::min(weight, 1.0), 1) + "\"><title>" +
               escaped(label(cross->down[t])) + " → " + escaped(label(cross->across[s])) + ": " + fixed(weight, 3) +
               "</title></path>\n";
    }
  const double w = wide + 2 * margin, h = lower + tall + margin;
  return "<div class=\"card scroll links\" tabindex=\"0\" role=\"group\" aria-label=\"Source and translation, linked\">\n<svg "
         "viewBox=\"0 0 " +
         fixed(w, 0) + ' ' + fixed(h, 0) + "\" width=\"" + fixed(w, 0) + "\" height=\"" + fixed(h, 0) +
         "\" role=\"img\" aria-label=\"Where each piece of the translation looked in the source\">\n<g class=\"threads\">" +
         lines + "</g>\n" + chips(cross->across, source, source_shift, margin) + chips(cross->down, target, target_shift, lower) +
         "</svg>\n</div>\n<p class=\"small\">Above the source, below the translation. Lines show where the model looked while it "
         "wrote each piece: cross-attention of the last layer, mean over its heads, from " +
         fixed(least, 2) + " on; the more weight, the thicker and deeper.</p>\n";
}

}  // namespace report
