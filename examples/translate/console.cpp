#include "console.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cwchar>
#include <filesystem>
#include <utility>

#if defined(_WIN32)
#include <fcntl.h>
#include <io.h>

#include "attend/core/windows.hpp"

// In this order.
#include <psapi.h>
#include <shellapi.h>
#else
#include <sys/resource.h>
#include <unistd.h>
#endif

#if defined(_WIN32) && defined(__GNUC__) && !defined(__clang__)

/// GCC's std::filesystem takes the bytes of a name for characters of the C library's locale, which cannot be UTF-8 with every C
/// library of Windows, and gives names back in UTF-8. The linker puts this in place of the function that it calls for the first
/// (`--wrap=mbrtowc`). A character beyond the first plane is two units: `state` has the second until it is asked for.
extern "C" std::size_t __wrap_mbrtowc(wchar_t* to, const char* from, std::size_t size, std::mbstate_t* state) {
  constexpr auto invalid = static_cast<std::size_t>(-1), incomplete = static_cast<std::size_t>(-2);
  if (from == nullptr) return 0;
  if (size == 0) return incomplete;
  if (state != nullptr && *state != 0) {
    *to = static_cast<wchar_t>(std::exchange(*state, 0));
    return 1;
  }
  const auto lead = static_cast<unsigned char>(*from);
  const std::size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (size < length) return incomplete;
  std::array<wchar_t, 2> units{};
  const int count = ::MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, from, static_cast<int>(length), units.data(), 2);
  if (count == 0 || (count == 2 && state == nullptr)) {
    errno = EILSEQ;
    return invalid;
  }
  if (to != nullptr) *to = units[0];
  if (count == 2) *state = units[1];
  return units[0] == 0 ? 0 : length - static_cast<std::size_t>(count - 1);
}

#endif

namespace translate {

#if defined(_WIN32)

std::vector<std::string> begin_program(int argc, char** argv) {
  for (std::FILE* stream : {stdin, stdout, stderr}) (void)::_setmode(::_fileno(stream), _O_BINARY);  // the same bytes everywhere
  static const UINT before = ::GetConsoleOutputCP();  // of the window, which outlives this program
  if (::SetConsoleOutputCP(CP_UTF8)) std::atexit([] { ::SetConsoleOutputCP(before); });
  int count = 0;
  wchar_t** const words = ::CommandLineToArgvW(::GetCommandLineW(), &count);
  if (words == nullptr) return {argv + std::min(argc, 1), argv + argc};
  std::vector<std::string> converted;
  for (int i = 1; i < count; ++i) {
    const std::u8string word = std::filesystem::path(words[i]).u8string();
    converted.emplace_back(word.begin(), word.end());
  }
  ::LocalFree(words);
  return converted;
}
void outlive_readers() {}
bool is_conversation() { return ::_isatty(::_fileno(stdin)) != 0 && ::_isatty(::_fileno(stdout)) != 0; }
double peak_memory() {
  PROCESS_MEMORY_COUNTERS counters{};
  counters.cb = sizeof counters;
  if (!::K32GetProcessMemoryInfo(::GetCurrentProcess(), &counters, sizeof counters)) return 0;
  return static_cast<double>(counters.PeakWorkingSetSize);
}

#else

std::vector<std::string> begin_program(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_DFL);  // `translate run | head` ends quietly
  std::signal(SIGXFSZ, SIG_IGN);  // a file over the limit is an error like a full disk
  return {argv + std::min(argc, 1), argv + argc};
}
void outlive_readers() { std::signal(SIGPIPE, SIG_IGN); }
bool is_conversation() { return ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1; }
double peak_memory() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
#if defined(__APPLE__)
  return static_cast<double>(usage.ru_maxrss);
#else
  return static_cast<double>(usage.ru_maxrss) * 1024;
#endif
}

#endif

}  // namespace translate
