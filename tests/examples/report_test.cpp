#include "../../examples/translate/pages/report.hpp"

#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "../../examples/translate/pages/charts.hpp"
#include "../../examples/translate/pages/markup.hpp"
#include "attend/core/error.hpp"
#include "attend/io/file.hpp"
#include "catch.hpp"
#include "page.hpp"
#include "temporary_folder.hpp"

namespace {

using namespace report;

ReportData sample() {
  ReportData data;
  data.title = "A demonstration";
  data.settings = {{"layers", "2 + 2"}, {"dropout", "0.1"}};
  data.parameters = 1234567;
  data.train_pairs = 19000;
  data.test_pairs = 500;
  data.seconds = 72;
  data.tokens_per_second = 21890.4;
  data.bleu = 96.54;
  for (int step = 1; step <= 50; ++step) {
    data.curve.push_back(
        {.step = step, .seconds = step * 0.5, .tokens = step * 1000, .train_loss = 5.0 / step, .learning_rate = 1e-3});
  }
  data.validations = {{.step = 25, .seconds = 12, .loss = 1.5, .bleu = 40},
                      {.step = 50, .seconds = 25, .loss = 0.5, .bleu = 96.5}};
  data.attention = {
      {.source = {"▁a", "b", "c"}, .target = {"▁x", "y"}, .weights = {{0.25F, 0.5F, 0.25F}, {0, 0, 1}}, .title = "Layer 1"}};
  data.progress = {{.source = "Hello.", .reference = "Hola.", .outputs = {{10, "La."}, {50, "Hola."}}}};
  data.translations = {{"Yes.", "Sí.", "Sí."}, {"No.", "No.", "Sí."}};
  return data;
}

}  // namespace

TEST_CASE("report: shows what it was given", "[report]") {
  const std::string page = html(sample());
  CHECK(page.rfind("<!DOCTYPE html>\n<html lang=\"en\">", 0) == 0);
  for (const char* part : {"<title>A demonstration</title>", "1,234,567", "19,000", "1 min 12 s", "21,890", "96.5", "2 + 2",
                           "0.1", "BLEU on 500 test pairs", "1 of these 2", "step 25, 12 s: BLEU 40.00", "learning rate 0.001"}) {
    INFO(part);
    CHECK(has(page, part));
  }
  CHECK(count(page, "<svg ") == 4);
  CHECK(count(page, "<tr class=\"wrong\">") == 1);
  CHECK(count(page, "<tr class=\"right\">") == 2);
}

TEST_CASE("report: is one whole page that fetches and runs nothing", "[report]") {
  const std::string page = html(sample());
  CHECK(unbalanced(page) == "");
  for (const char* part : {"<script", "http:", "https:", "src=", "href=", "url(", "@import"}) CHECK_FALSE(has(page, part));
  CHECK(has(page, "prefers-color-scheme: dark"));
}

TEST_CASE("report: text cannot become markup, nor bytes that are not UTF-8 spoil the page", "[report]") {
  ReportData data = sample();
  const std::string evil = "<script>alert('1')</script> & \"\xff\x01";
  const std::string tame = "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt; &amp; &quot;\uFFFD\uFFFD";
  data.title = data.subtitle = evil;
  data.settings.push_back({evil, evil});
  data.attention[0].title = data.attention[0].source[0] = data.attention[0].target[0] = evil;
  data.progress.push_back({evil, evil, {{1, evil}}});
  data.translations.push_back({evil, evil, "?"});
  const std::string page = html(data);
  CHECK_FALSE(has(page, "<script"));
  CHECK_FALSE(has(page, "\xff"));
  CHECK(has(page, "<title>" + tame + "</title>"));
  CHECK(count(page, tame) >= 12);
  CHECK(unbalanced(page) == "");
}

TEST_CASE("report: leaves out what is not known", "[report]") {
  const std::string page = html(ReportData{});
  CHECK(unbalanced(page) == "");
  CHECK(count(page, "nothing was recorded") == 3);
  CHECK_FALSE(has(page, "nan"));
  CHECK_FALSE(has(page, "Where it looks"));
}

TEST_CASE("report: an attention map has a cell for each pair of pieces", "[report]") {
  AttentionMap map = sample().attention[0];
  const std::string svg = heat_map(map);
  CHECK(count(svg, "class=\"cell\"") == 6);
  CHECK(has(svg, "fill-opacity=\"0.500\"><title>▁x → b: 0.500</title>"));
  map.weights[0] = {2.0F, -1.0F, std::numeric_limits<float>::quiet_NaN()};
  const std::string odd = heat_map(map);
  CHECK(has(odd, "fill-opacity=\"1.000\"><title>▁x → ▁a: 2.000</title>"));
  CHECK(has(odd, "fill-opacity=\"0.000\"><title>▁x → c: not a number</title>"));
}

TEST_CASE("report: weights of another size than the pieces are refused", "[report]") {
  ReportData data = sample();
  data.attention[0].weights.pop_back();
  CHECK_THROWS_WITH(html(data), "report: attention map \"Layer 1\" has 1 rows of weights, expected 2");
  data = sample();
  data.attention[0].weights[1].push_back(0);
  CHECK_THROWS_AS(html(data), attend::ValueError);
}

TEST_CASE("charts: points lie where their values say", "[report]") {
  const ChartAxes axes{.title = "T", .x_label = "x", .y_from_zero = true};
  const std::string svg = line_chart(axes, {{.name = "s", .style = "a", .points = {{0, 0}, {10, 10}}}});
  CHECK(has(svg, "points=\"62.0,248.0 466.0,40.0\""));
  CHECK(has(svg, "class=\"tick x\">10</text>"));
  CHECK(has(svg, "class=\"tick y\">10</text>"));
}

TEST_CASE("charts: odd series are drawn as far as they can be", "[report]") {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const std::string some = line_chart({}, {{.points = {{0, 1}, {1, nan}, {2, inf}, {3, 1e300}, {4, 2}}}});
  CHECK(count(some, "<circle") == 2);
  CHECK_FALSE(has(some, "nan"));
  CHECK_FALSE(has(some, "inf"));
  CHECK(has(line_chart({}, {}), "nothing was recorded"));
  CHECK(has(line_chart({}, {{.points = {{nan, nan}}}}), "nothing was recorded"));
  for (const double value : {0.0, 1e-300, 1e-7, 5.0, 1e99, -3.0}) {
    const std::string one = line_chart({}, {{.points = {{value, value}}}});
    CHECK(count(one, "class=\"dot ") == 1);
    CHECK_FALSE(has(one, "nan"));
  }
  std::vector<ChartPoint> many(100'000);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = {static_cast<double>(i), 1.0};
  CHECK(count(line_chart({}, {{.points = many}}), "<circle") == 400);
}

TEST_CASE("markup: numbers and durations", "[report]") {
  CHECK(grouped(0) == "0");
  CHECK(grouped(999) == "999");
  CHECK(grouped(1000) == "1,000");
  CHECK(grouped(-1234567) == "-1,234,567");
  CHECK(grouped(-123) == "-123");
  CHECK(fixed(2.345, 1) == "2.3");
  CHECK(general(0.0005, 3) == "0.0005");
  CHECK(duration(3.21) == "3.2 s");
  CHECK(duration(9.96) == "10 s");
  CHECK(duration(59.6) == "1 min 0 s");
  CHECK(duration(7384) == "2 h 3 min");
  CHECK(duration(std::numeric_limits<double>::quiet_NaN()) == "0.0 s");
}

TEST_CASE("report: is written whole, over the one before, or not at all", "[report]") {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "report.html";
  write_report(path, ReportData{});
  write_report(path, sample());
  CHECK(attend::io::read_file(path) == html(sample()));
  ReportData broken = sample();
  broken.attention[0].weights.clear();
  CHECK_THROWS_AS(write_report(path, broken), attend::ValueError);
  CHECK(attend::io::read_file(path) == html(sample()));
  CHECK_THROWS_AS(write_report(folder / "none" / "report.html", sample()), attend::IoError);
}
