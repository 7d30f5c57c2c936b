// What training writes for others to look at: TensorBoard's event files and the curve as CSV.

#include <cmath>
#include <fstream>
#include <sstream>

#include "../catch.hpp"
#include "../io/limited_file_size.hpp"
#include "event_file.hpp"
#include "toy.hpp"

using namespace attend;
using namespace attend::train;
using Catch::Matchers::ContainsSubstring;

namespace {

std::vector<std::filesystem::path> event_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> list;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    CHECK_THAT(entry.path().filename().string(), ContainsSubstring("events.out.tfevents."));
    list.push_back(entry.path());
  }
  std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.filename() < b.filename(); });
  return list;
}

std::vector<std::vector<std::string>> rows(const std::filesystem::path& csv) {
  std::ifstream in(csv);
  std::vector<std::vector<std::string>> list;
  for (std::string line; std::getline(in, line);) {
    std::vector<std::string> cells{""};
    for (const char c : line)
      if (c == ',') cells.emplace_back();
      else cells.back() += c;
    list.push_back(cells);
  }
  return list;
}

/// A run of some thirty steps with validations and translations.
FitOptions logged(const std::filesystem::path& folder) {
  auto options = toy::options(0);
  options.max_steps = 30;
  options.curve_every = 4;
  options.validation = toy::corpus(6, 2);
  options.validate_every = 10;
  options.translate = [](const std::vector<std::string>& sources) { return sources; };
  options.csv = folder / "new" / "curve.csv";
  options.tensorboard = folder / "board";
  return options;
}

}  // namespace

TEST_CASE("TensorBoard: what is written is read back by another reader", "[train]") {
  const TemporaryFolder folder;
  std::string name;
  {
    TensorBoard board(folder.path() / "a" / "b", 300);
    board.scalars(301, {{"train/loss", 4.25}, {"train/gradient_norm", std::nan("")}, {"x", -1e300}});
    CHECK(events::read(board.path()).size() == 3);  // at once, not when it is closed
    board.text(1 << 20, "samples", std::string(300, 'x') + "\xC3\xA9");
    name = board.path().filename().string();
    CHECK_THAT(name, ContainsSubstring(".tfevents."));
    TensorBoard second(folder.path() / "a" / "b");
    CHECK(second.path() != board.path());
  }
  const auto list = events::read(folder.path() / "a" / "b" / name);
  REQUIRE(list.size() == 4);
  CHECK(list[0].version == "brain.Event:2");
  CHECK(list[1].start);
  CHECK(list[1].step == 301);  // what others have from here on is forgotten
  CHECK(list[2].step == 301);
  CHECK(list[2].scalars == std::map<std::string, float>{{"train/loss", 4.25f}, {"x", -std::numeric_limits<float>::infinity()}});
  CHECK(list[3].step == 1 << 20);
  CHECK(list[3].texts.at("samples") == std::string(300, 'x') + "\xC3\xA9");
  for (std::size_t i = 1; i < list.size(); ++i) CHECK(list[i].time >= list[i - 1].time);
  CHECK(list[0].time > 1.6e9);
}

TEST_CASE("fit: the curve and the validations come to TensorBoard and to the CSV", "[train]") {
  const TemporaryFolder folder;
  const auto options = logged(folder.path());
  auto model = toy::model();
  const auto report = fit(model, toy::corpus(100), toy::Letters(), options);
  REQUIRE(report.warnings.size() == 1);  // of the corpus, which is small
  CHECK_THAT(report.warnings[0], ContainsSubstring("only 100 pairs"));

  const auto files = event_files(options.tensorboard);
  REQUIRE(files.size() == 1);
  std::map<std::string, std::map<std::int64_t, float>> curves;
  std::size_t texts = 0;
  for (const auto& e : events::read(files[0])) {
    for (const auto& [tag, value] : e.scalars) curves[tag][e.step] = value;
    for (const auto& [tag, text] : e.texts) {
      ++texts;
      CHECK(tag == "validation/translations");
      CHECK_THAT(text, ContainsSubstring("| " + options.validation[0].source + " | " + options.validation[0].source + " | " +
                                         options.validation[0].target + " |\n"));
    }
  }
  CHECK(texts == 3);
  REQUIRE(curves["train/loss"].size() == 7);
  for (std::size_t i = 0; i < 7; ++i) {
    const auto& point = report.curve[i];
    CHECK(curves["train/loss"].at(point.step) == static_cast<float>(point.loss));
    CHECK(curves["train/learning_rate"].at(point.step) == static_cast<float>(point.learning_rate));
    CHECK(curves["train/gradient_norm"].at(point.step) == static_cast<float>(point.gradient_norm));
    CHECK(curves["train/tokens_per_second"].at(point.step) > 0);
  }
  REQUIRE(curves["validation/loss"].size() == 3);
  for (const auto& point : report.validations) {
    CHECK(curves["validation/loss"].at(point.step) == static_cast<float>(point.loss));
    CHECK(curves["validation/bleu"].at(point.step) == static_cast<float>(point.bleu));
  }

  const auto table = rows(options.csv);
  REQUIRE(table.size() == 1 + 7 + 3);
  std::ostringstream head;
  for (const auto& cell : table[0]) head << cell << ' ';
  CHECK(
      head.str() ==
      "step epoch seconds tokens train_loss learning_rate gradient_norm tokens_per_second validation_loss validation_bleu best ");
  std::string steps;
  for (std::size_t i = 1; i < table.size(); ++i) {
    CHECK(table[i].size() == table[0].size());
    steps += table[i][0] + (table[i][4].empty() ? "v " : " ");
  }
  CHECK(steps == "4 8 10v 12 16 20 20v 24 28 30v ");
  CHECK(std::stod(table[1][4]) == report.curve[0].loss);
  CHECK(std::stod(table[1][6]) == report.curve[0].gradient_norm);
  CHECK(std::stod(table[3][8]) == report.validations[0].loss);
  CHECK(table[3][10] == "1");
}

TEST_CASE("fit: a run that goes on continues both, and no step stands there twice", "[train]") {
  const TemporaryFolder folder, whole_folder;
  auto options = logged(folder.path()), whole_options = logged(whole_folder.path());
  auto whole = toy::model();
  fit(whole, toy::corpus(100), toy::Letters(), whole_options);

  options.output = folder.path() / "run";
  options.checkpoint_every = 7;
  options.checkpoint_seconds = 0;
  options.on_step = [&](const CurvePoint& point) {
    if (point.step != 18) return;
    // What a process that is killed then leaves behind; an exception would leave a checkpoint of this step.
    std::filesystem::copy(options.output, folder.path() / "killed", std::filesystem::copy_options::recursive);
    throw std::runtime_error("crash");
  };
  auto crashed = toy::model(), resumed = toy::model();
  CHECK_THROWS_WITH(fit(crashed, toy::corpus(100), toy::Letters(), options), "crash");
  CHECK(rows(options.csv).back()[0] == "16");
  options.on_step = {};
  options.output = folder.path() / "killed";
  options.resume = true;
  fit(resumed, toy::corpus(100), toy::Letters(), options);

  const auto got = rows(options.csv), expected = rows(whole_options.csv);
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    for (const std::size_t column : {0, 1, 3, 4, 5, 6, 8, 9, 10}) CHECK(got[i][column] == expected[i][column]);

  const auto files = event_files(options.tensorboard);
  REQUIRE(files.size() == 2);
  const auto second = events::read(files[1]);
  REQUIRE(second.size() > 3);
  CHECK(second[1].start);
  CHECK(second[1].step == 15);  // the checkpoint is that of step 14
  CHECK(second[2].step == 16);

  options.resume = false;
  options.output.clear();
  CHECK_THROWS_WITH(fit(resumed, toy::corpus(100), toy::Letters(), options), ContainsSubstring("curve.csv is there already"));
  options.overwrite = true;
  options.max_steps = 4;
  fit(resumed, toy::corpus(100), toy::Letters(), options);
  CHECK(rows(options.csv).size() == 3);  // with the validation at the end
}

TEST_CASE("the curve never takes the place of a file that is none", "[train]") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "pairs.tsv";
  io::write_file_atomically(path, "a house\tuna casa\n");
  CHECK_THROWS_WITH(CurveCsv(path, {}, {}),
                    ContainsSubstring("pairs.tsv is no curve") && ContainsSubstring("`a house\tuna casa`"));
  CHECK(io::read_file(path) == "a house\tuna casa\n");
  io::write_file_atomically(path, "");
  { const CurveCsv csv(path, {}, {}); }
  { const CurveCsv again(path, {}, {}); }
  CHECK(io::read_file(path) == CurveCsv::header);
}

#if !defined(_WIN32)
TEST_CASE("fit: what cannot be written costs a warning and nothing of the training", "[train]") {
  const TemporaryFolder folder;
  auto plain_options = logged(folder.path());
  plain_options.csv.clear(), plain_options.tensorboard.clear();
  auto plain = toy::model();
  fit(plain, toy::corpus(100), toy::Letters(), plain_options);

  // From the start: a file stands where the folder should be.
  std::ofstream(folder.path() / "file") << "no folder";
  auto options = logged(folder.path() / "file");
  std::FILE* log = std::tmpfile();
  options.progress = {.mode = ProgressMode::lines, .stream = log};
  auto model = toy::model();
  auto report = fit(model, toy::corpus(100), toy::Letters(), options);
  CHECK(toy::weights(model) == toy::weights(plain));
  REQUIRE(report.warnings.size() == 3);
  CHECK_THAT(report.warnings[0], ContainsSubstring("curve.csv") && ContainsSubstring("training goes on without it"));
  CHECK_THAT(report.warnings[1], ContainsSubstring("board"));
  CHECK_THAT(report.warnings[2], ContainsSubstring("only 100 pairs"));
  std::string said(static_cast<std::size_t>(std::ftell(log)), ' ');
  std::rewind(log);
  CHECK(std::fread(said.data(), 1, said.size(), log) == said.size());
  std::fclose(log);
  CHECK(said.find("warning: ") != std::string::npos);
  CHECK(said.find("curve.csv") == said.rfind("curve.csv"));  // once

  // From some step on: the disk is full.
  options = logged(folder.path());
  std::optional<LimitedFileSize> full;
  options.on_step = [&](const CurvePoint& point) {
    if (point.step == 14) full.emplace(10);
  };
  model = toy::model();
  report = fit(model, toy::corpus(100), toy::Letters(), options);
  full.reset();
  CHECK(toy::weights(model) == toy::weights(plain));
  CHECK(report.warnings.size() == 3);
  CHECK(rows(options.csv).back()[0] == "12");
}
#endif
