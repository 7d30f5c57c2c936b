#pragma once

#include <string>
#include <vector>

#include "report.hpp"

/// Drawings as inline SVG. Their colours are CSS variables of the page, so that they follow its light or dark scheme.
namespace report {

struct ChartPoint {
  double x = 0, y = 0;
  std::string note = {};  ///< shown when the mouse rests on the point
};

struct Series {
  std::string name = {};
  std::string style = {};  ///< CSS class that colours it: "a", "b"
  std::vector<ChartPoint> points = {};
  bool dots = false;  ///< marks every point and writes the last value beside it
};

struct ChartAxes {
  std::string title = {}, x_label = {}, y_label = {};  ///< the title names what has no y_label
  bool y_from_zero = false;
  double width = 490;  ///< in units of which the height has 300; letters are 13 high
};

/// Lines over a common x axis, with grid, ticks, labels and a legend. Points that are not finite, or beyond 1e100, are left out;
/// a series that is longer than the drawing has room for is thinned to the means of its neighbours.
std::string line_chart(const ChartAxes& axes, const std::vector<Series>& series);

/// Source pieces across, target pieces down, weight as depth of colour.
std::string heat_map(const AttentionMap& map);

}  // namespace report
