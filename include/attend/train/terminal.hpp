#pragma once

#include <cstdio>
#include <cstdlib>
#include <string_view>

#if defined(_WIN32)
#include <io.h>
#else
#include <sys/ioctl.h>
#include <unistd.h>
#endif

#include "attend/core/windows.hpp"

namespace attend::train::detail {

/// Whether a stream is shown to somebody, on a terminal that understands control characters.
inline bool is_terminal(std::FILE* stream) {
  const char* const term = std::getenv("TERM");
  if (term != nullptr && std::string_view(term) == "dumb") return false;
#if defined(_WIN32)
  constexpr DWORD understands = 4;  // ENABLE_VIRTUAL_TERMINAL_PROCESSING
  HANDLE const console = reinterpret_cast<HANDLE>(::_get_osfhandle(::_fileno(stream)));
  DWORD mode = 0;
  return ::GetConsoleMode(console, &mode) && ::SetConsoleMode(console, mode | understands);
#else
  return ::isatty(::fileno(stream)) == 1;
#endif
}

/// Its columns; 80 if it does not say.
inline int terminal_width(std::FILE* stream) {
#if defined(_WIN32)
  CONSOLE_SCREEN_BUFFER_INFO info{};
  if (::GetConsoleScreenBufferInfo(reinterpret_cast<HANDLE>(::_get_osfhandle(::_fileno(stream))), &info))
    return info.srWindow.Right - info.srWindow.Left + 1;
#else
  winsize size{};
  if (::ioctl(::fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
#endif
  return 80;
}

}  // namespace attend::train::detail
