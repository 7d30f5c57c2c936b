#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include "attend/core/types.hpp"
#include "attend/train/terminal.hpp"

/// What training shows while it runs: a bar on a terminal, plain lines elsewhere.
namespace attend::train {

/// How progress is shown.
enum class ProgressMode {
  automatic,  ///< a bar if the stream is a terminal, else lines
  bar,        ///< redrawn in place
  lines,      ///< one now and then, without control characters: for log files
  off,
};

/// How and how often progress is shown.
struct ProgressOptions {
  ProgressMode mode = ProgressMode::automatic;
  std::FILE* stream = stderr;
  double line_seconds = 10;  ///< from one line to the next
  double bar_seconds = 0.1;  ///< from one drawing of the bar to the next
  int width = 0;             ///< columns of the bar; 0: those of the terminal
};

/// Where training stands.
struct ProgressState {
  index_t step = 0, steps = 0;    ///< updates done, and to do (0: not known)
  index_t epoch = 1, epochs = 0;  ///< the one under way, from 1, and to do (0: not known)
  double fraction = -1;           ///< of the whole run, 0 to 1; negative if not known
  double loss = 0;
  double learning_rate = 0;
  double tokens_per_second = 0;  ///< target tokens
  double seconds_left = -1;      ///< negative if not known
};

namespace detail {

/// snprintf into a string.
template <class... Values>
std::string formatted(const char* format, Values... values) {
  std::array<char, 128> buffer{};
  const int n = std::snprintf(buffer.data(), buffer.size(), format, values...);
  return std::string(buffer.data(), std::clamp(n, 0, static_cast<int>(buffer.size()) - 1));
}

}  // namespace detail

/// `45s`, `3:20`, `2:05:00`; `3d 04:10` from a day on.
inline std::string duration_text(double seconds) {
  if (!(seconds >= 0 && seconds < 1e9)) return "?";
  const auto s = static_cast<long long>(seconds + 0.5);
  if (s < 60) return detail::formatted("%llds", s);
  if (s < 3600) return detail::formatted("%lld:%02lld", s / 60, s % 60);
  if (s < 86400) return detail::formatted("%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
  return detail::formatted("%lldd %02lld:%02lld", s / 86400, s / 3600 % 24, s / 60 % 60);
}

/// `950`, `12.3k`, `4.56M`.
inline std::string count_text(double count) {
  if (!(count >= 0 && count < 1e15)) return "?";
  if (count < 999.5) return detail::formatted("%.0f", count);
  if (count < 999.5e3) return detail::formatted("%.1fk", count / 1e3);
  if (count < 999.5e6) return detail::formatted("%.2fM", count / 1e6);
  return detail::formatted("%.2fG", count / 1e9);
}

/// `step 120/2500  epoch 2/10  loss 4.321  5.2k tokens/s  lr 3.0e-04  3:20 left`.
inline std::string progress_text(const ProgressState& s) {
  const auto of = [](index_t part, index_t whole) {
    return std::to_string(part) + (whole > 0 ? "/" + std::to_string(whole) : std::string());
  };
  std::string text = "step " + of(s.step, s.steps) + "  epoch " + of(s.epoch, s.epochs) +
                     detail::formatted("  loss %.3f  ", s.loss) + count_text(s.tokens_per_second) +
                     detail::formatted(" tokens/s  lr %.1e", s.learning_rate);
  if (s.seconds_left >= 0) text += "  " + duration_text(s.seconds_left) + " left";
  return text;
}

/// ` 42% [########........] step 120/2500 ...`, at most `width` columns: the bar takes what the text leaves, and is left out if
/// that is too little; what is still too long is cut.
inline std::string progress_bar_text(const ProgressState& s, int width) {
  std::string text = progress_text(s);
  if (s.fraction >= 0) {
    const double done = std::clamp(s.fraction, 0.0, 1.0);
    const std::string percent = detail::formatted("%3d%% ", static_cast<int>(done * 100));
    const int room = width - static_cast<int>(percent.size() + text.size()) - 3;
    if (room >= 5) {
      const int bar = std::min(room, 40), filled = static_cast<int>(done * bar);
      text = "[" + std::string(filled, '#') + std::string(bar - filled, '.') + "] " + text;
    }
    text = percent + text;
  }
  if (static_cast<int>(text.size()) > width) text.resize(std::max(width, 0));
  return text;
}

/// How fast a count grows: over the last half to whole minute, or since the start if that is less.
class Speed {
 public:
  /// Begins at `count` and the time `now`, in seconds.
  Speed(double now, double count) : older_{now, count}, newer_{older_} {}
  /// The growth a second, `count` being reached at the time `now`.
  double update(double now, double count) {
    if (now - newer_.time >= window) older_ = std::exchange(newer_, {now, count});
    return now > older_.time ? (count - older_.count) / (now - older_.time) : 0;
  }

 private:
  static constexpr double window = 30;
  struct Point {
    double time, count;
  };
  Point older_, newer_;
};

/// Shows the state of a long job on a stream.
class Progress {
 public:
  /// On a null stream nothing is shown.
  explicit Progress(const ProgressOptions& options = {}) : o_(options) {
    if (o_.stream == nullptr) o_.mode = ProgressMode::off;
    if (o_.mode == ProgressMode::automatic) o_.mode = detail::is_terminal(o_.stream) ? ProgressMode::bar : ProgressMode::lines;
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { end_bar(); }

  /// Shows the state at time `now`, in seconds, if it is time to.
  void update(double now, const ProgressState& state) {
    if (o_.mode == ProgressMode::off) return;
    if (now < next_) return;
    next_ = now + (o_.mode == ProgressMode::bar ? o_.bar_seconds : o_.line_seconds);
    if (o_.mode == ProgressMode::lines) {
      print(progress_text(state) + "\n");
    } else {
      // One column less than there are, since some terminals go to the next line after the last.
      print("\r" + progress_bar_text(state, (o_.width > 0 ? o_.width : detail::terminal_width(o_.stream)) - 1) + "\x1b[K");
      bar_shown_ = true;
    }
  }
  /// A line of its own, above the bar.
  void message(std::string_view text) {
    if (o_.mode == ProgressMode::off) return;
    print((bar_shown_ ? "\r\x1b[K" : "") + std::string(text) + "\n");
    bar_shown_ = false;
    if (o_.mode == ProgressMode::bar) next_ = 0;
  }
  /// Leaves the bar as it is, with the cursor on the next line.
  void end_bar() {
    if (bar_shown_) print("\n");
    bar_shown_ = false;
  }

 private:
  void print(const std::string& text) {
    std::fputs(text.c_str(), o_.stream);
    std::fflush(o_.stream);
  }

  ProgressOptions o_;
  double next_ = 0;
  bool bar_shown_ = false;
};

}  // namespace attend::train
