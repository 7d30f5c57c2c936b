#pragma once

#include <sys/resource.h>

#include <chrono>
#include <exception>
#include <fstream>
#include <iostream>
#include <string>

#include "attend/core/error.hpp"
#include "attend/io/json.hpp"

/// What the parts of `attend_compare` have in common: one request a line comes in as JSON, one answer a line goes out.
namespace compare {

using attend::io::Json;

/// Real time and the processor time of all threads since it was made, in seconds.
class Stopwatch {
 public:
  [[nodiscard]] double real() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }
  [[nodiscard]] double processor() const { return processor_now() - begin_processor_; }
  /// Both, each divided by `times`.
  [[nodiscard]] Json per(double times) const { return {{"real", real() / times}, {"cpu", processor() / times}}; }

 private:
  using Clock = std::chrono::steady_clock;
  static double processor_now() {
    rusage use{};
    getrusage(RUSAGE_SELF, &use);
    const auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec); };
    return seconds(use.ru_utime) + seconds(use.ru_stime);
  }
  Clock::time_point begin_ = Clock::now();
  double begin_processor_ = processor_now();
};

/// A line of /proc/self/status in bytes: `VmRSS:`, what is resident now, `VmHWM:`, the most there has been. 0 elsewhere.
/// (`ru_maxrss` begins with what the parent process had.)
inline double resident(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (word == key) {
      double kilobytes = 0;
      status >> kilobytes;
      return kilobytes * 1024;
    }
  return 0;
}

/// Says that it is ready, then answers requests until the input ends.
template <class F>
void serve(const Json& ready, F&& answer) {
  std::cout << ready << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    const Json request = Json::parse(line);
    std::cout << answer(request) << std::endl;
  }
}

[[noreturn]] inline void unknown(const Json& request) {
  throw attend::ValueError("attend_compare: unknown request " + request.dump());
}

}  // namespace compare
