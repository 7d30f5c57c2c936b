#pragma once

#include <algorithm>
#include <array>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attend/io/file.hpp"
#include "temporary_folder.hpp"
#if defined(_WIN32)
#include "process_windows.hpp"
#else
#include "process_posix.hpp"
#endif

/// The program `translate`, run as a shell would, with two threads unless ATTEND_THREADS says how many. What it writes to
/// standard error goes to a file.
class Program {
 public:
  /// Its input is what `write` gives it, or that file. `launcher`: the words of a command that starts it, if there is one.
  explicit Program(const std::vector<std::string>& arguments, const std::string& input = {},
                   const std::vector<std::string>& launcher = {})
      : process_(words(arguments, launcher), input, folder_ / "errors") {}

  void write(std::string_view text) const { process_.write(text); }
  void close_input() { process_.close_input(); }
  void close_output() { process_.close_output(); }
  /// The next line of standard output with its end; what there is if it does not come within a minute.
  std::string line() {
    std::size_t end;
    while ((end = read_.find('\n')) == std::string::npos && more()) continue;
    const std::string line = read_.substr(0, end == std::string::npos ? end : end + 1);
    read_.erase(0, line.size());
    return line;
  }
  /// The rest of standard output.
  std::string rest() {
    while (more()) continue;
    return std::exchange(read_, {});
  }
  /// Waits until standard error has that text; false if the program ends first.
  bool says(std::string_view text) {
    while (errors().find(text) == std::string::npos) {
      if (!runs()) return errors().find(text) != std::string::npos;
      Process::pause();
    }
    return true;
  }
  [[nodiscard]] bool runs() const { return process_.runs(); }
  void signal(int number) const { process_.signal(number); }
  /// Waits for the end: the exit code, or 128 and the signal's number.
  int wait() { return process_.wait(); }
  [[nodiscard]] std::string errors() const {
    const auto path = folder_ / "errors";
    return std::filesystem::exists(path) ? attend::io::read_file(path) : "";
  }

 private:
  static std::vector<std::string> words(const std::vector<std::string>& arguments, std::vector<std::string> all) {
    all.emplace_back(ATTEND_TRANSLATE);
    if (std::getenv("ATTEND_THREADS") == nullptr) all.insert(all.end(), {"--threads", "2"});
    all.insert(all.end(), arguments.begin(), arguments.end());
    return all;
  }
  bool more() {
    std::array<char, 4096> block{};
    const std::size_t n = process_.read(block.data(), block.size());
    read_.append(block.data(), n);
    return n > 0;
  }

  TemporaryFolder folder_;
  Process process_;
  std::string read_;
};

/// What became of a run.
struct Outcome {
  int code = 0;
  std::string output, errors;

  /// Lines of standard error.
  [[nodiscard]] auto complaints() const { return std::count(errors.begin(), errors.end(), '\n'); }
};

/// Runs the program to its end, with that text as its input.
inline Outcome run(const std::vector<std::string>& arguments, std::string_view input = "") {
  Program program(arguments);
  if (!input.empty()) program.write(input);
  program.close_input();
  std::string output = program.rest();
  const int code = program.wait();
  return {code, std::move(output), program.errors()};
}

/// The same with what stands in a file as its input, which may be more than a pipe holds.
inline Outcome run_on_file(const std::vector<std::string>& arguments, const std::string& input) {
  Program program(arguments, input);
  program.close_input();
  std::string output = program.rest();
  const int code = program.wait();
  return {code, std::move(output), program.errors()};
}
