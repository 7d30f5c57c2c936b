#include "report.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "attend/core/error.hpp"
#include "attend/io/file.hpp"
#include "charts.hpp"
#include "markup.hpp"
#include "report_style.hpp"

namespace report {
namespace {

std::string head(const ReportData& data) {
  std::string page = "<h1>" + escaped(data.title) + "</h1>\n";
  if (!data.subtitle.empty()) page += "<p>" + escaped(data.subtitle) + "</p>\n";
  page += "<div class=\"tiles\">\n";
  if (!std::isnan(data.bleu)) page += tile(fixed(data.bleu, 1), "BLEU on " + grouped(data.test_pairs) + " test pairs", " first");
  page += tile(grouped(data.parameters), "parameters");
  page += tile(grouped(data.train_pairs), "training pairs");
  if (!std::isnan(data.seconds)) page += tile(duration(data.seconds), "training time");
  if (std::isfinite(data.tokens_per_second)) {
    page += tile(grouped(std::llround(std::clamp(data.tokens_per_second, 0.0, 1e15))), "target tokens per second");
  }
  page += "</div>\n<div class=\"card\"><dl>\n";
  const auto row = [&](const std::string& name, const std::string& value) {
    page += "<div><dt>" + escaped(name) + "</dt><dd>" + escaped(value) + "</dd></div>\n";
  };
  for (const Setting& setting : data.settings) row(setting.name, setting.value);
  row("validation pairs", grouped(data.validation_pairs));
  row("test pairs", grouped(data.test_pairs));
  return page + "</dl></div>\n";
}

std::string charts(const ReportData& data) {
  Series train{.name = "training", .style = "a"}, rate{.name = "learning rate", .style = "a"};
  for (const CurvePoint& point : data.curve) {
    const std::string note =
        "step " + grouped(point.step) + ", " + duration(point.seconds) + ", " + grouped(point.tokens) + " tokens: ";
    const auto x = static_cast<double>(point.step);
    train.points.push_back({x, point.train_loss, note + "loss " + fixed(point.train_loss, 3)});
    rate.points.push_back({x, point.learning_rate, note + "learning rate " + general(point.learning_rate, 3)});
  }
  Series held_out{.name = "validation", .style = "b", .dots = true}, bleu{.name = "BLEU", .style = "b", .dots = true};
  for (const ValidationPoint& point : data.validations) {
    const std::string note = "step " + grouped(point.step) + ", " + duration(point.seconds) + ": ";
    held_out.points.push_back({static_cast<double>(point.step), point.loss, note + "loss " + fixed(point.loss, 3)});
    bleu.points.push_back({point.seconds, point.bleu, note + "BLEU " + fixed(point.bleu, 2)});
  }
  return "<h2>How it learnt</h2>\n<p>The loss is the mean per target token; training counts label smoothing in, validation does "
         "not. Rest the mouse on a line for its numbers.</p>\n<div class=\"charts\">\n<div class=\"card wide\">" +
         line_chart({.title = "Loss", .x_label = "step", .y_label = "loss per token", .y_from_zero = true, .width = 1000},
                    {train, held_out}) +
         "</div>\n<div class=\"card\">" +
         line_chart({.title = "Validation BLEU", .x_label = "seconds of training", .y_from_zero = true}, {bleu}) +
         "</div>\n<div class=\"card\">" + line_chart({.title = "Learning rate", .x_label = "step", .y_from_zero = true}, {rate}) +
         "</div>\n</div>\n";
}

void check(const AttentionMap& map) {
  const auto fail = [&](const std::string& what, std::size_t has, std::size_t expected) {
    throw attend::ValueError("report: attention map \"", map.title, "\" has ", has, what, ", expected ", expected);
  };
  if (map.weights.size() != map.target.size()) fail(" rows of weights", map.weights.size(), map.target.size());
  for (const std::vector<float>& row : map.weights) {
    if (row.size() != map.source.size()) fail(" weights in a row", row.size(), map.source.size());
  }
}

std::string attention(const std::vector<AttentionMap>& maps) {
  if (maps.empty()) return {};
  std::string page =
      "<h2>Where it looks</h2>\n<p>Cross-attention: for each piece of the translation (down), how much weight the pieces of the "
      "source "
      "(across) had. ▁ begins a word.</p>\n<div class=\"maps\">\n";
  for (const AttentionMap& map : maps) {
    check(map);
    page += "<figure class=\"card\"><h3>" + escaped(map.title) + "</h3>\n" + heat_map(map) + "</figure>\n";
  }
  return page + "</div>\n<div class=\"scale\">0 <i></i> 1</div>\n";
}

const char* verdict(bool right) { return right ? "right" : "wrong"; }

std::string progress(const std::vector<Progress>& samples) {
  if (samples.empty()) return {};
  std::string page = "<h2>What it said while it learnt</h2>\n<p>Sentences it was not trained on.</p>\n";
  for (const Progress& sample : samples) {
    page += "<div class=\"card sample\">\n<p lang=\"\"><span>source</span> " + escaped(sample.source) +
            "</p>\n<p lang=\"\"><span>reference</span> " + escaped(sample.reference) +
            "</p>\n<table>\n<thead><tr><th class=\"number\">step</th><th>output</th><th></th></tr></thead>\n<tbody>\n";
    for (const Progress::Output& output : sample.outputs) {
      const bool right = output.text == sample.reference;
      page += std::string(right ? "<tr class=\"right\">" : "<tr>") + "<td class=\"number\">" + grouped(output.step) +
              "</td><td class=\"output\">" + escaped(output.text) + "</td><td class=\"mark\">" + (right ? "✓" : "") +
              "</td></tr>\n";
    }
    page += "</tbody>\n</table>\n</div>\n";
  }
  return page;
}

std::string translations(const std::vector<Translation>& samples) {
  if (samples.empty()) return {};
  const auto right = [](const Translation& each) { return each.output == each.reference; };
  const auto hits = std::count_if(samples.begin(), samples.end(), right);
  std::string page =
      "<h2>What it says now</h2>\n<p>" + grouped(hits) + " of these " + grouped(static_cast<std::int64_t>(samples.size())) +
      " are the reference to the letter.</p>\n<div class=\"card scroll\">\n<table>\n<thead><tr><th></th><th>source</th>"
      "<th>reference</th><th>output</th></tr></thead>\n<tbody>\n";
  for (const Translation& each : samples) {
    page += std::string("<tr class=\"") + verdict(right(each)) + "\"><td class=\"mark\" title=\"" + verdict(right(each)) + "\">" +
            (right(each) ? "✓" : "✗") + "</td><td>" + escaped(each.source) + "</td><td>" + escaped(each.reference) +
            "</td><td class=\"output\">" + escaped(each.output) + "</td></tr>\n";
  }
  return page + "</tbody>\n</table>\n</div>\n";
}

}  // namespace

std::string html(const ReportData& data) {
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
         "content=\"width=device-width, initial-scale=1\">\n<title>" +
         escaped(data.title) + "</title>\n<style>" + style + "</style>\n</head>\n<body>\n<main>\n" + head(data) + charts(data) +
         attention(data.attention) + progress(data.progress) + translations(data.translations) +
         "<footer>Written by attend.</footer>\n</main>\n</body>\n</html>\n";
}

void write_report(const std::filesystem::path& path, const ReportData& data) {
  attend::io::write_file_atomically(path, html(data));
}

}  // namespace report
