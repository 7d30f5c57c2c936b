#pragma once

#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attend/core/windows.hpp"

// What Windows has of those that tests send.
#if !defined(SIGKILL)
#define SIGKILL 9
#define SIGUSR1 10
#endif

/// Sets a variable of the environment for the programs that are started after it; empty: removes it.
inline void set_variable(const char* name, const char* value) { ::_putenv_s(name, value); }

/// A program, whose input and output are pipes and whose errors go to a file.
class Process {
 public:
  /// Its input is what `write` gives it, or that file.
  Process(const std::vector<std::string>& words, const std::string& input, const std::filesystem::path& errors) {
    SECURITY_ATTRIBUTES inherited{sizeof(SECURITY_ATTRIBUTES), nullptr, TRUE};
    HANDLE in = nullptr, out = nullptr;
    if (!::CreatePipe(&in, &in_, &inherited, 1 << 16) || !::CreatePipe(&out_, &out, &inherited, 1 << 16))
      throw std::runtime_error("no pipe");
    ::SetHandleInformation(in_, HANDLE_FLAG_INHERIT, 0), ::SetHandleInformation(out_, HANDLE_FLAG_INHERIT, 0);
    constexpr DWORD shared = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
    if (!input.empty()) {
      ::CloseHandle(in);
      in = ::CreateFileW(std::filesystem::path(input).c_str(), GENERIC_READ, shared, &inherited, OPEN_EXISTING, 0, nullptr);
    }
    HANDLE const err = ::CreateFileW(errors.c_str(), FILE_APPEND_DATA, shared, &inherited, OPEN_ALWAYS, 0, nullptr);
    STARTUPINFOW start{};
    start.cb = sizeof start;
    start.dwFlags = STARTF_USESTDHANDLES;
    start.hStdInput = in, start.hStdOutput = out, start.hStdError = err;
    std::wstring line;
    for (const auto& word : words) line += (line.empty() ? L"" : L" ") + quoted(std::filesystem::path(word).wstring());
    PROCESS_INFORMATION process{};
    const bool begun = ::CreateProcessW(nullptr, line.data(), nullptr, nullptr, TRUE, CREATE_NEW_PROCESS_GROUP, nullptr, nullptr,
                                        &start, &process) != 0;
    ::CloseHandle(in), ::CloseHandle(out), ::CloseHandle(err);
    if (!begun) throw std::runtime_error("no process");
    ::CloseHandle(process.hThread);
    process_ = process.hProcess, id_ = process.dwProcessId;
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() {
    if (process_ != nullptr) {
      ::TerminateProcess(process_, 1);
      ::WaitForSingleObject(process_, INFINITE);
      ::CloseHandle(process_);
    }
    close_input(), close_output();
  }

  void write(std::string_view text) const {
    DWORD n = 0;
    if (!::WriteFile(in_, text.data(), static_cast<DWORD>(text.size()), &n, nullptr) || n != text.size())
      throw std::runtime_error("no reader");
  }
  void close_input() { close(in_); }
  void close_output() { close(out_); }
  /// Bytes of its output; none at its end, or if there are none within a minute.
  std::size_t read(char* to, std::size_t size) const {
    for (int turn = 0; turn < 60'000; ++turn) {
      DWORD n = 0, waiting = 0;
      if (!::PeekNamedPipe(out_, nullptr, 0, nullptr, &waiting, nullptr)) return 0;
      if (waiting > 0) return ::ReadFile(out_, to, static_cast<DWORD>(size), &n, nullptr) ? n : 0;
      ::Sleep(1);
    }
    return 0;
  }
  static void pause() { ::Sleep(1); }
  [[nodiscard]] bool runs() const { return ::WaitForSingleObject(process_, 0) == WAIT_TIMEOUT; }
  void signal(int number) const {
    if (number == SIGKILL) ::TerminateProcess(process_, 128 + SIGKILL);
    else ::GenerateConsoleCtrlEvent(CTRL_BREAK_EVENT, id_);
  }
  /// Waits for the end: the exit code.
  int wait() {
    DWORD code = 0;
    ::WaitForSingleObject(process_, INFINITE);
    ::GetExitCodeProcess(process_, &code);
    ::CloseHandle(std::exchange(process_, nullptr));
    return static_cast<int>(code);
  }

 private:
  static void close(HANDLE& handle) {
    if (handle != nullptr) ::CloseHandle(std::exchange(handle, nullptr));
  }
  /// As CommandLineToArgvW takes it apart.
  static std::wstring quoted(const std::wstring& word) {
    std::wstring text = L"\"";
    std::size_t slashes = 0;
    for (const wchar_t c : word) {
      if (c == L'"') text.append(slashes + 1, L'\\');
      slashes = c == L'\\' ? slashes + 1 : 0;
      text += c;
    }
    return text.append(slashes, L'\\') + L"\"";
  }

  HANDLE process_ = nullptr, in_ = nullptr, out_ = nullptr;
  DWORD id_ = 0;
};
