#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "attend/io/file.hpp"
#include "temporary_folder.hpp"

/// The program `translate`, run as a shell would, with two threads unless ATTEND_THREADS says how many. What it writes to
/// standard error goes to a file.
class Program {
 public:
  /// Its input is what `write` gives it, or that file. `launcher`: the words of a command that starts it, if there is one.
  explicit Program(const std::vector<std::string>& arguments, const std::string& input = {},
                   const std::vector<std::string>& launcher = {}) {
    std::array<int, 2> in{}, out{};
    if (::pipe2(in.data(), O_CLOEXEC) != 0 || ::pipe2(out.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    std::vector<std::string> words = launcher;
    words.emplace_back(ATTEND_TRANSLATE);
    if (std::getenv("ATTEND_THREADS") == nullptr) words.insert(words.end(), {"--threads", "2"});
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (auto& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const std::string errors = (folder_ / "errors").string();
    pid_ = ::fork();
    if (pid_ < 0) throw std::runtime_error("no process");
    if (pid_ == 0) {
      const int err = ::open(errors.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666);
      ::dup2(input.empty() ? in[0] : ::open(input.c_str(), O_RDONLY), STDIN_FILENO);
      ::dup2(out[1], STDOUT_FILENO), ::dup2(err, STDERR_FILENO);
      ::execv(argv[0], argv.data());
      ::_exit(127);
    }
    ::close(in[0]), ::close(out[1]);
    in_ = in[1], out_ = out[0];
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    if (pid_ > 0) ::kill(pid_, SIGKILL), ::waitpid(pid_, nullptr, 0);
    close_input(), close_output();
  }

  void write(std::string_view text) const {
    if (::write(in_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) throw std::runtime_error("no reader");
  }
  void close_input() { close(in_); }
  void close_output() { close(out_); }
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
      ::poll(nullptr, 0, 1);
    }
    return true;
  }
  [[nodiscard]] bool runs() const {
    siginfo_t state{};
    return ::waitid(P_PID, static_cast<id_t>(pid_), &state, WEXITED | WNOHANG | WNOWAIT) == 0 && state.si_pid != pid_;
  }
  void signal(int number) const { ::kill(pid_, number); }
  /// Waits for the end: the exit code, or 128 and the signal's number.
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  [[nodiscard]] std::string errors() const {
    const auto path = folder_ / "errors";
    return std::filesystem::exists(path) ? attend::io::read_file(path) : "";
  }

 private:
  static void close(int& fd) {
    if (fd >= 0) ::close(std::exchange(fd, -1));
  }
  bool more() {
    pollfd output{out_, POLLIN, 0};
    if (::poll(&output, 1, 60'000) != 1) return false;
    std::array<char, 4096> block{};
    const ssize_t n = ::read(out_, block.data(), block.size());
    if (n > 0) read_.append(block.data(), static_cast<std::size_t>(n));
    return n > 0;
  }

  TemporaryFolder folder_;
  pid_t pid_ = -1;
  int in_ = -1, out_ = -1;
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
