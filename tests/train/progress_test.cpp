#include "attend/train/progress.hpp"

#include <limits>

#include "../catch.hpp"

using namespace attend;
using namespace attend::train;

namespace {

const ProgressState state{.step = 120,
                          .steps = 2500,
                          .epoch = 2,
                          .epochs = 10,
                          .fraction = 0.48,
                          .loss = 4.3214,
                          .learning_rate = 3e-4,
                          .tokens_per_second = 5200,
                          .seconds_left = 200};

/// What `use` prints through a Progress.
template <class F>
std::string printed(ProgressMode mode, F&& use) {
  std::FILE* file = std::tmpfile();
  REQUIRE(file != nullptr);
  {
    Progress progress({.mode = mode, .stream = file, .line_seconds = 10, .bar_seconds = 1, .width = 60});
    use(progress);
  }
  std::string text(static_cast<std::size_t>(std::ftell(file)), '\0');
  std::rewind(file);
  CHECK(std::fread(text.data(), 1, text.size(), file) == text.size());
  std::fclose(file);
  return text;
}

}  // namespace

TEST_CASE("progress: durations and counts", "[train]") {
  CHECK(duration_text(0) == "0s");
  CHECK(duration_text(59.4) == "59s");
  CHECK(duration_text(59.6) == "1:00");
  CHECK(duration_text(200) == "3:20");
  CHECK(duration_text(7500) == "2:05:00");
  CHECK(duration_text(3 * 86400 + 4 * 3600 + 600) == "3d 04:10");
  CHECK(duration_text(-1) == "?");
  CHECK(duration_text(std::numeric_limits<double>::infinity()) == "?");
  CHECK(count_text(0) == "0");
  CHECK(count_text(999.6) == "1.0k");
  CHECK(count_text(12345) == "12.3k");
  CHECK(count_text(4560000) == "4.56M");
  CHECK(count_text(std::numeric_limits<double>::quiet_NaN()) == "?");
}

TEST_CASE("progress: the text of a state", "[train]") {
  CHECK(progress_text(state) == "step 120/2500  epoch 2/10  loss 4.321  5.2k tokens/s  lr 3.0e-04  3:20 left");
  CHECK(progress_text({.step = 7, .epoch = 1, .loss = 1}) == "step 7  epoch 1  loss 1.000  0 tokens/s  lr 0.0e+00");
}

TEST_CASE("progress: the bar takes the room that there is and never more", "[train]") {
  const std::string text = progress_text(state);
  CHECK(progress_bar_text(state, 200) == " 48% [###################.....................] " + text);
  CHECK(progress_bar_text(state, static_cast<int>(text.size()) + 18) == " 48% [####......] " + text);
  CHECK(progress_bar_text(state, static_cast<int>(text.size()) + 5) == " 48% " + text);
  for (int width = 0; width < 200; ++width) REQUIRE(static_cast<int>(progress_bar_text(state, width).size()) <= width);
  CHECK(progress_bar_text({.step = 1}, 80).front() == 's');
}

TEST_CASE("progress: a log file gets plain lines now and then", "[train]") {
  const std::string text = printed(ProgressMode::automatic, [](Progress& progress) {
    for (int second = 0; second <= 25; ++second) progress.update(second, state);
    progress.message("saved");
  });
  const std::string line = progress_text(state) + "\n";
  CHECK(text == line + line + line + "saved\n");
}

TEST_CASE("progress: a bar is redrawn in place, and messages stand above it", "[train]") {
  const std::string text = printed(ProgressMode::bar, [](Progress& progress) {
    progress.update(0, state);
    progress.update(0.5, state);
    progress.message("saved");
    progress.update(0.6, state);
  });
  const std::string bar = "\r" + progress_bar_text(state, 59) + "\x1b[K";
  CHECK(text == bar + "\r\x1b[Ksaved\n" + bar + "\n");
}

TEST_CASE("progress: off is silent", "[train]") {
  CHECK(printed(ProgressMode::off, [](Progress& progress) {
          progress.update(0, state);
          progress.message("saved");
        }).empty());
}

TEST_CASE("Speed: since the start at first, later over the last minute", "[train]") {
  Speed speed(100, 1000);
  CHECK(speed.update(100, 1000) == 0);
  CHECK(speed.update(110, 2000) == Approx(100));
  double rate = 0;
  for (int second = 111; second <= 200; ++second) rate = speed.update(second, 2000 + 10.0 * (second - 110));
  CHECK(rate == Approx(10));
}
