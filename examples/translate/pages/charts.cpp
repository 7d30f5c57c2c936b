#include "charts.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "attend/text/utf8.hpp"
#include "markup.hpp"

namespace report {
namespace {

std::string number(double value) { return fixed(value, 1); }

/// Round values from just below `low` to just above `high`, 1, 2 or 5 times a power of ten apart.
struct Ticks {
  double first = 0, step = 1;
  int count = 2, decimals = 0;

  Ticks(double low, double high, int wanted) {
    if (!(high - low > 1e-12 * std::max(std::abs(low), std::abs(high)) && high - low > 1e-100)) {  // a single value
      const double around = std::max(3.0, 0.1 * std::abs(low));
      high = low + around;
      if (low != 0) low -= around;
    }
    const double rough = (high - low) / wanted, power = std::pow(10.0, std::floor(std::log10(rough)));
    const double mantissa = rough / power;
    step = power * (mantissa <= 1 ? 1 : mantissa <= 2 ? 2 : mantissa <= 5 ? 5 : 10);
    first = std::floor(low / step + 1e-9) * step;
    count = static_cast<int>(std::ceil((high - first) / step - 1e-9)) + 1;
    decimals = std::clamp(static_cast<int>(-std::floor(std::log10(step) + 1e-9)), 0, 12);
  }
  [[nodiscard]] double at(int i) const { return first + i * step; }
  [[nodiscard]] double last() const { return at(count - 1); }
  [[nodiscard]] std::string text(int i) const {
    const double value = std::abs(at(i)) < 1e-6 * step ? 0 : at(i);
    const double size = std::max(std::abs(first), std::abs(last()));
    if (size >= 1e7 || size < 1e-3) return value == 0 ? "0" : general(value, 3);
    return decimals == 0 ? grouped(std::llround(value)) : fixed(value, decimals);
  }
};

/// At most `most` points: each the mean of as many neighbours.
std::vector<ChartPoint> drawable(const Series& series, std::size_t most = 400) {
  std::vector<ChartPoint> points;
  for (const ChartPoint& point : series.points) {
    if (std::abs(point.x) < 1e100 && std::abs(point.y) < 1e100) points.push_back(point);
  }
  if (points.size() <= most) return points;
  std::vector<ChartPoint> means;
  for (std::size_t i = 0; i < most; ++i) {
    const std::size_t begin = i * points.size() / most, end = (i + 1) * points.size() / most;
    ChartPoint mean = points[end - 1];
    mean.y = 0;
    for (std::size_t k = begin; k < end; ++k) mean.y += points[k].y / static_cast<double>(end - begin);
    means.push_back(mean);
  }
  return means;
}

std::string text_at(double x, double y, const char* style, const std::string& words) {
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" class=\"" + style + "\">" + escaped(words) + "</text>\n";
}

std::string line(double x1, double y1, double x2, double y2, const char* style) {
  return "<line x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" + number(x2) + "\" y2=\"" + number(y2) +
         "\" class=\"" + style + "\"/>\n";
}

std::string open_svg(double w, double h, const std::string& style, const std::string& label) {
  return "<svg viewBox=\"0 0 " + number(w) + ' ' + number(h) + "\" class=\"" + style + "\" role=\"img\" aria-label=\"" +
         escaped(label) + "\">\n";
}

}  // namespace

std::string line_chart(const ChartAxes& axes, const std::vector<Series>& series) {
  // The drawing's own units; the page scales it.
  constexpr double height = 300, left = 62, right = 24, top = 40, bottom = 52;
  std::vector<std::vector<ChartPoint>> lines;
  double x_low = std::numeric_limits<double>::infinity(), x_high = -x_low, y_low = x_low, y_high = -x_low;
  for (const Series& each : series) {
    lines.push_back(drawable(each));
    for (const ChartPoint& point : lines.back()) {
      x_low = std::min(x_low, point.x), x_high = std::max(x_high, point.x);
      y_low = std::min(y_low, point.y), y_high = std::max(y_high, point.y);
    }
  }
  std::string svg = open_svg(axes.width, height, "chart", axes.title);
  svg += text_at(left, 18, "chart-title", axes.title);
  if (!(x_high >= x_low)) return svg + text_at(axes.width / 2, height / 2, "empty", "nothing was recorded") + "</svg>\n";

  if (x_low > 0 && x_low < 0.2 * x_high) x_low = 0;
  if (axes.y_from_zero) y_low = std::min(y_low, 0.0);
  const Ticks x_ticks(x_low, x_high, static_cast<int>(axes.width / 90)), y_ticks(y_low, y_high, 5);
  const double plot_right = axes.width - right, plot_bottom = height - bottom;
  const auto to_x = [&](double x) { return left + (x - x_ticks.first) / (x_ticks.last() - x_ticks.first) * (plot_right - left); };
  const auto to_y = [&](double y) {
    return plot_bottom - (y - y_ticks.first) / (y_ticks.last() - y_ticks.first) * (plot_bottom - top);
  };

  for (int i = 0; i < y_ticks.count; ++i) {
    const double y = to_y(y_ticks.at(i));
    svg += line(left, y, plot_right, y, i == 0 ? "axis" : "grid");
    svg += text_at(left - 8, y + 4, "tick y", y_ticks.text(i));
  }
  for (int i = 0; i < x_ticks.count; ++i) {
    const double x = to_x(x_ticks.at(i));
    svg += line(x, plot_bottom, x, plot_bottom + 5, "axis");
    svg += text_at(x, plot_bottom + 19, "tick x", x_ticks.text(i));
  }
  svg += text_at((left + plot_right) / 2, height - 12, "label", axes.x_label);
  svg += "<text transform=\"translate(14 " + number((top + plot_bottom) / 2) + ") rotate(-90)\" class=\"label\">" +
         escaped(axes.y_label) + "</text>\n";

  for (std::size_t s = 0; s < series.size(); ++s) {
    const std::vector<ChartPoint>& points = lines[s];
    if (points.empty()) continue;
    std::string path;
    for (const ChartPoint& point : points)
      path += (path.empty() ? "" : " ") + number(to_x(point.x)) + ',' + number(to_y(point.y));
    svg += "<polyline points=\"" + path + "\" class=\"line " + series[s].style + "\"/>\n";
    const bool dots = series[s].dots || points.size() == 1;
    for (const ChartPoint& point : points) {
      svg += "<circle cx=\"" + number(to_x(point.x)) + "\" cy=\"" + number(to_y(point.y)) + "\" r=\"" + (dots ? "3.5" : "5") +
             "\" class=\"" + (dots ? "dot " : "touch ") + series[s].style + "\"><title>" + escaped(point.note) +
             "</title></circle>\n";
    }
    if (series[s].dots) svg += text_at(to_x(points.back().x), to_y(points.back().y) - 9, "last", general(points.back().y, 3));
  }

  double x = plot_right;  // the legend, from the right
  if (series.size() > 1) {
    for (std::size_t s = series.size(); s-- > 0;) {
      x -= 7.0 * static_cast<double>(attend::text::count_code_points(series[s].name)) + 34;
      svg += "<line x1=\"" + number(x) + "\" y1=\"14\" x2=\"" + number(x + 18) + "\" y2=\"14\" class=\"line " + series[s].style +
             "\"/>\n";
      if (series[s].dots)
        svg += "<circle cx=\"" + number(x + 9) + "\" cy=\"14\" r=\"3.5\" class=\"dot " + series[s].style + "\"/>\n";
      svg += text_at(x + 24, 18, "legend", series[s].name);
    }
  }
  return svg + "</svg>\n";
}

std::string heat_map(const AttentionMap& map) {
  const auto longest = [](const std::vector<std::string>& pieces) {
    attend::index_t most = 1;
    for (const std::string& piece : pieces) most = std::max(most, attend::text::count_code_points(piece));
    return static_cast<double>(most);
  };
  const double cell = 30, letter = 7.6, slope = 0.71;  // the source pieces lean at 45 degrees
  const auto across = static_cast<double>(map.source.size()), down = static_cast<double>(map.target.size());
  const double x0 = longest(map.target) * letter + 16, lean = longest(map.source) * letter * slope + 18;
  const double w = x0 + across * cell + std::max(8.0, lean - cell / 2), h = lean + down * cell + 4;

  std::string svg = open_svg(w, h, "heat", map.title);
  svg.insert(svg.size() - 2, " style=\"max-width:" + number(w) + "px\"");
  svg += "<rect x=\"" + number(x0) + "\" y=\"" + number(lean) + "\" width=\"" + number(across * cell) + "\" height=\"" +
         number(down * cell) + "\" rx=\"4\" class=\"ground\"/>\n";
  for (std::size_t s = 0; s < map.source.size(); ++s) {
    svg += "<text transform=\"translate(" + number(x0 + (static_cast<double>(s) + 0.6) * cell) + ' ' + number(lean - 8) +
           ") rotate(-45)\" class=\"piece\">" + escaped(map.source[s]) + "</text>\n";
  }
  for (std::size_t t = 0; t < map.target.size(); ++t) {
    const double y = lean + static_cast<double>(t) * cell;
    svg += text_at(x0 - 8, y + cell / 2 + 4, "piece end", map.target[t]);
    for (std::size_t s = 0; s < map.source.size(); ++s) {
      const float weight = map.weights[t][s];
      const double depth = std::isfinite(weight) ? std::clamp(static_cast<double>(weight), 0.0, 1.0) : 0.0;
      svg += "<rect x=\"" + number(x0 + static_cast<double>(s) * cell + 1) + "\" y=\"" + number(y + 1) + "\" width=\"" +
             number(cell - 2) + "\" height=\"" + number(cell - 2) + "\" rx=\"3\" class=\"cell\" fill-opacity=\"" +
             fixed(depth, 3) + "\"><title>" + escaped(map.target[t]) + " → " + escaped(map.source[s]) + ": " +
             (std::isfinite(weight) ? fixed(static_cast<double>(weight), 3) : "not a number") + "</title></rect>\n";
    }
  }
  return svg + "</svg>\n";
}

}  // namespace report
