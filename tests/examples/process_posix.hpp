#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Sets a variable of the environment for the programs that are started after it; empty: removes it.
inline void set_variable(const char* name, const char* value) {
  if (*value != '\0') ::setenv(name, value, 1);
  else ::unsetenv(name);
}

/// A program, whose input and output are pipes and whose errors go to a file.
class Process {
 public:
  /// Its input is what `write` gives it, or that file.
  Process(std::vector<std::string> words, const std::string& input, const std::filesystem::path& errors) {
    std::array<int, 2> in{}, out{};
    if (::pipe(in.data()) != 0 || ::pipe(out.data()) != 0) throw std::runtime_error("no pipe");
    for (const int end : {in[0], in[1], out[0], out[1]}) ::fcntl(end, F_SETFD, FD_CLOEXEC);
    std::vector<char*> argv;
    for (auto& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
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
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() {
    if (pid_ > 0) ::kill(pid_, SIGKILL), ::waitpid(pid_, nullptr, 0);
    close_input(), close_output();
  }

  void write(std::string_view text) const {
    if (::write(in_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) throw std::runtime_error("no reader");
  }
  void close_input() { close(in_); }
  void close_output() { close(out_); }
  /// Bytes of its output; none at its end, or if there are none within a minute.
  std::size_t read(char* to, std::size_t size) const {
    pollfd output{out_, POLLIN, 0};
    if (::poll(&output, 1, 60'000) != 1) return 0;
    const ssize_t n = ::read(out_, to, size);
    return n > 0 ? static_cast<std::size_t>(n) : 0;
  }
  static void pause() { ::poll(nullptr, 0, 1); }
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

 private:
  static void close(int& fd) {
    if (fd >= 0) ::close(std::exchange(fd, -1));
  }

  pid_t pid_ = -1;
  int in_ = -1, out_ = -1;
};
