// Every head of every layer as a small picture, and each of them large on request.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "attend/core/shape.hpp"
#include "explain.hpp"
#include "grey_picture.hpp"
#include "markup.hpp"

namespace report {
namespace {

/// Beyond `most_exact` weights on a page they are stored with 8 bits; beyond `most_heads`, only those of the means are.
constexpr std::size_t most_exact = 750'000, most_heads = 5'000'000;
/// Up to so many weights, each of them is a note of its own in the large picture; beyond, the page's script finds them.
constexpr std::size_t most_noted = 12'000, most_noted_in_one = 2'500;

using Weights = std::vector<float>;

void check(const AttentionKind& kind) {
  const std::size_t expected = kind.down.size() * kind.across.size();
  for (const auto& heads : kind.weights) {
    attend::check_value(!heads.empty(), "explain", kind.title, " has a layer without heads");
    for (const Weights& head : heads)
      attend::check_value(head.size() == expected, "explain", kind.title, " has a head of ", head.size(), " weights, expected ",
                          expected);
  }
}

double bounded(float weight) { return std::isfinite(weight) ? std::clamp(static_cast<double>(weight), 0.0, 1.0) : 0.0; }

/// One kind of attention on the page, in the units of its large picture.
class Maps {
 public:
  Maps(const AttentionKind& kind, int depth, bool with_heads, bool noted)
      : kind_(kind), depth_(depth), with_heads_(with_heads), noted_(noted) {
    most_ = static_cast<double>(std::max(kind.down.size(), kind.across.size()));
    cell_ = std::clamp(std::floor(540 / std::max(most_, 1.0)), 12.0, 34.0);
    letters_ = std::min(13.0, cell_ - 1);
    left_ = std::ceil(longest(kind.down) * letters_ + 14);
    top_ = std::ceil(longest(kind.across) * letters_ * slope + 16);
  }

  [[nodiscard]] std::string html() const {
    const std::string title = escaped(kind_.title);
    std::string page = "<h3 class=\"kind-title\">" + title + "</h3>\n<p>" + escaped(kind_.note) + "</p>\n";
    if (kind_.weights.empty() || kind_.down.empty() || kind_.across.empty()) return page;
    std::size_t columns = 1;
    if (with_heads_)
      for (const auto& heads : kind_.weights) columns = std::max(columns, heads.size() + 1);
    std::string thumbs = "<fieldset class=\"thumbs\" style=\"--columns:" + std::to_string(columns) +
                         ";--shape:" + fixed(across(), 0) + '/' + fixed(down(), 0) + "\">\n<legend class=\"unseen\">" + title +
                         ": layer and head</legend>\n<span class=\"corner\">layer</span>";
    for (std::size_t h = 1; h < columns; ++h) thumbs += "<span class=\"head\">" + head_name(h) + "</span>";
    thumbs += "<span class=\"head\">mean</span>\n";
    std::string larges = "<div class=\"larges\">\n";
    for (std::size_t l = 0; l < kind_.weights.size(); ++l) {
      thumbs += "<span class=\"layer\">" + std::to_string(l + 1) + "</span>";
      const auto& heads = kind_.weights[l];
      const std::string layer = "Layer " + std::to_string(l + 1);
      for (std::size_t h = 0; with_heads_ && h < heads.size(); ++h)
        add(layer + ", head " + std::to_string(h + 1), id(l, std::to_string(h + 1)), heads[h], false, thumbs, larges);
      for (std::size_t h = heads.size() + 1; with_heads_ && h < columns; ++h) thumbs += "<span></span>";
      const std::string mean = layer + ", mean of " + std::to_string(heads.size()) + (heads.size() == 1 ? " head" : " heads");
      add(mean, id(l, "mean"), mean_of(heads), l + 1 == kind_.weights.size(), thumbs, larges);
    }
    const bool stacked = width() > 640;
    return page + "<div class=\"card kind" + (stacked ? " stacked" : "") + (most_ > 40 ? " fine" : "") + "\">\n" + axes() +
           thumbs + "</fieldset>\n" + larges + "</div>\n</div>\n";
  }

 private:
  static constexpr double slope = 0.71;  // what is looked at leans at 45 degrees

  static double longest(const std::vector<Piece>& pieces) {
    double most = 1;
    for (const Piece& piece : pieces) most = std::max(most, text_width(shown(piece)));
    return most;
  }
  static std::string shown(const Piece& piece) { return fitted(label(piece), 11); }
  static std::string head_name(std::size_t h) { return (h == 1 ? "head " : "") + std::to_string(h); }
  [[nodiscard]] std::string id(std::size_t layer, const std::string& head) const {
    return kind_.name + '-' + std::to_string(layer + 1) + '-' + head;
  }
  [[nodiscard]] double across() const { return static_cast<double>(kind_.across.size()); }
  [[nodiscard]] double down() const { return static_cast<double>(kind_.down.size()); }
  [[nodiscard]] double width() const {
    const double overhang = text_width(shown(kind_.across.back())) * letters_ * slope;
    return left_ + across() * cell_ + std::max(6.0, overhang - cell_ / 2 + 8);
  }
  [[nodiscard]] double height() const { return top_ + down() * cell_ + 4; }

  /// The names along the sides and the gaps between the cells, which all large pictures of this kind share.
  [[nodiscard]] std::string axes() const {
    std::string svg = "<svg class=\"unseen\" aria-hidden=\"true\"><defs>\n<g id=\"" + kind_.name +
                      "-axes\" class=\"axes\" style=\"font-size:" + fixed(letters_, 1) + "px\">\n<g class=\"across\">";
    const auto text = [](const Piece& piece) {
      const bool mark = piece.kind == PieceKind::begin || piece.kind == PieceKind::end;
      return (mark ? " class=\"mark\">" : ">") + escaped(shown(piece)) + "</text>\n";
    };
    for (std::size_t k = 0; k < kind_.across.size(); ++k)
      svg += "<text transform=\"translate(" + fixed(left_ + (static_cast<double>(k) + 0.6) * cell_, 1) + ' ' +
             fixed(top_ - 7, 1) + ") rotate(-45)\"" + text(kind_.across[k]);
    svg += "</g>\n<g class=\"down\">";
    for (std::size_t q = 0; q < kind_.down.size(); ++q)
      svg += "<text x=\"" + fixed(left_ - 8, 1) + "\" y=\"" +
             fixed(top_ + (static_cast<double>(q) + 0.5) * cell_ + letters_ * 0.35, 1) + '"' + text(kind_.down[q]);
    svg += "</g>\n</g>\n<path id=\"" + kind_.name + "-gaps\" d=\"";
    for (std::size_t k = 0; k <= kind_.across.size(); ++k)
      svg += 'M' + fixed(left_ + static_cast<double>(k) * cell_, 0) + ' ' + fixed(top_, 0) + 'v' + fixed(down() * cell_, 0);
    for (std::size_t q = 0; q <= kind_.down.size(); ++q)
      svg += 'M' + fixed(left_, 0) + ' ' + fixed(top_ + static_cast<double>(q) * cell_, 0) + 'h' + fixed(across() * cell_, 0);
    return svg + "\"/>\n</defs></svg>\n";
  }

  /// One head: a picture to choose it by, and the large one with what it shares.
  void add(const std::string& name, const std::string& id, const Weights& weights, bool chosen, std::string& thumbs,
           std::string& larges) const {
    const std::string size = fixed(across(), 0) + ' ' + fixed(down(), 0);
    const std::string sides = " width=\"" + fixed(across(), 0) + "\" height=\"" + fixed(down(), 0) + "\"";
    GreyPicture picture(static_cast<std::uint32_t>(kind_.across.size()), static_cast<std::uint32_t>(kind_.down.size()), depth_);
    for (const float weight : weights) picture.add(std::sqrt(bounded(weight)));
    thumbs += "<label title=\"" + name + "\"><input type=\"radio\" name=\"" + kind_.name + "\" aria-label=\"" + name + "\"" +
              (chosen ? " checked" : "") + "><svg viewBox=\"0 0 " + size + "\" aria-hidden=\"true\"><rect" + sides +
              " class=\"ground\"/><image id=\"" + id + "\"" + sides +
              " preserveAspectRatio=\"none\" filter=\"url(#ink)\" href=\"data:image/png;base64," + base64(picture.png()) +
              "\"/></svg></label>\n";

    const std::string place = "translate(" + fixed(left_, 0) + ' ' + fixed(top_, 0) + ") scale(" + fixed(cell_, 0) + ")";
    larges += "<figure class=\"large\"><figcaption><b>" + name + "</b> <output></output></figcaption>\n<svg viewBox=\"0 0 " +
              fixed(width(), 0) + ' ' + fixed(height(), 0) + "\" style=\"max-width:" + fixed(width() * 1.15, 0) +
              "px\" role=\"img\" aria-label=\"" + escaped(kind_.title) + ", " + name + "\" data-map=\"" + id + "\" data-kind=\"" +
              kind_.name + "\"><g transform=\"" + place + "\"><rect" + sides + " class=\"ground\"/><use href=\"#" + id +
              "\"/></g><use href=\"#" + kind_.name + "-gaps\" class=\"gaps\"/><use href=\"#" + kind_.name + "-axes\"/>\n";
    larges += "<g class=\"cells\" transform=\"" + place + "\">";
    if (noted_ || (chosen && weights.size() <= most_noted_in_one)) larges += notes(weights);
    larges += "</g></svg></figure>\n";
  }

  [[nodiscard]] std::string notes(const Weights& weights) const {
    std::string svg = "\n";
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const std::size_t q = i / kind_.across.size(), k = i % kind_.across.size();
      svg += "<path d=\"M" + std::to_string(k) + ' ' + std::to_string(q) + "h1v1h-1z\"><title>" + escaped(label(kind_.down[q])) +
             " → " + escaped(label(kind_.across[k])) + ": " +
             (std::isfinite(weights[i]) ? fixed(static_cast<double>(weights[i]), 3) : "not a number") + "</title></path>\n";
    }
    return svg;
  }

  const AttentionKind& kind_;
  int depth_;
  bool with_heads_, noted_;
  double most_, cell_, letters_, left_, top_;
};

/// One rule for each place in a chooser: what is chosen there is shown large.
std::string rules(std::size_t most) {
  std::string css = "<style>\n";
  for (std::size_t i = 1; i <= most; ++i)
    css += ".kind:has(label:nth-of-type(" + std::to_string(i) + ")>:checked) .large:nth-of-type(" + std::to_string(i) +
           "){display:block}\n";
  return css + "</style>\n";
}

}  // namespace

std::vector<float> mean_of(const std::vector<std::vector<float>>& heads) {
  std::vector<float> mean(heads.front().size());
  for (const std::vector<float>& head : heads)
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += head[i] / static_cast<float>(heads.size());
  return mean;
}

std::string attention_html(const std::vector<AttentionKind>& kinds) {
  std::size_t all = 0, most = 0;
  for (const AttentionKind& kind : kinds) {
    check(kind);
    std::size_t maps = 0;
    for (const auto& heads : kind.weights) maps += heads.size() + 1;
    all += maps * kind.down.size() * kind.across.size();
    most = std::max(most, maps);
  }
  if (most == 0) return {};
  const bool with_heads = all <= most_heads;
  std::string page =
      "<h2>Where it looks</h2>\n<p>Each small picture is one head of attention: rows are layers, columns are heads, the last "
      "column is their mean. Choose one (arrow keys work) to see it large. Within a picture each row is one piece, and its "
      "weights add up to 1.</p>\n"
      "<svg class=\"unseen\" aria-hidden=\"true\"><filter id=\"ink\" x=\"0\" y=\"0\" width=\"1\" height=\"1\" "
      "color-interpolation-filters=\"sRGB\"><feColorMatrix type=\"luminanceToAlpha\" result=\"depth\"/><feFlood class=\"ink\"/>"
      "<feComposite operator=\"in\" in2=\"depth\"/></filter></svg>\n" +
      rules(most);
  if (!with_heads) page += "<p><b>These sentences are long: only the means over the heads are drawn.</b></p>\n";
  for (const AttentionKind& kind : kinds) page += Maps(kind, all <= most_exact ? 16 : 8, with_heads, all <= most_noted).html();
  page += "<div class=\"depth\" aria-hidden=\"true\"><i></i>";
  for (const double weight : {0.0, 0.1, 0.25, 0.5, 1.0})
    page += "<span style=\"left:" + fixed(100 * std::sqrt(weight), 1) + "%\">" + general(weight, 2) + "</span>";
  return page +
         "</div>\n<p class=\"small\">Colour deepens with the square root of the weight, so that small weights can be "
         "seen.</p>\n";
}

}  // namespace report
