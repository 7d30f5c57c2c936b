#pragma once

#include <array>
#include <charconv>
#include <concepts>
#include <string>
#include <string_view>
#include <system_error>

#if defined(_LIBCPP_VERSION) && _LIBCPP_VERSION < 200000
#include <cerrno>
#include <clocale>
#include <cmath>
#include <cstdlib>
#include <utility>
#if defined(__APPLE__) || defined(__FreeBSD__)
#include <xlocale.h>
#endif
#endif

namespace attend {

namespace detail {

/// Writes the shortest text of a number from `begin` on, and returns its end.
template <class N>
char* write_number(N value, char* begin, char* end) {
  return std::to_chars(begin, end, value).ptr;
}

/// Reads a number as std::from_chars does, but for `nan(...)`.
template <class N>
std::from_chars_result read_number(const char* begin, const char* end, N& value) {
#if defined(_LIBCPP_VERSION) && _LIBCPP_VERSION < 200000  // which reads whole numbers alone
  if constexpr (std::floating_point<N>) {
    static const locale_t c_locale = ::newlocale(LC_ALL_MASK, "C", nullptr);
    const std::string text(begin, end);
    const std::size_t length = text.find_first_not_of("0123456789.eEinfatyINFATY+-");  // no 0x1p3
    if (length == 0 || text[0] == '+') return {begin, std::errc::invalid_argument};
    const std::string number = text.substr(0, length);
    char* stop = nullptr;
    const int before = std::exchange(errno, 0);
    N parsed;
    if constexpr (sizeof(N) == sizeof(float)) parsed = ::strtof_l(number.c_str(), &stop, c_locale);
    else parsed = static_cast<N>(::strtod_l(number.c_str(), &stop, c_locale));
    const bool beyond = std::exchange(errno, before) == ERANGE && (parsed == 0 || std::isinf(parsed));
    const char* const at = begin + (stop - number.c_str());
    if (at == begin) return {begin, std::errc::invalid_argument};
    if (beyond) return {at, std::errc::result_out_of_range};
    value = parsed;
    return {at, std::errc()};
  } else
#endif
    return std::from_chars(begin, end, value);
}

}  // namespace detail

/// The shortest text that `parse_number` reads back as the same number, whatever the locale.
template <class N>
std::string number_text(N value) {
  std::array<char, 40> buffer{};
  return std::string(buffer.data(), detail::write_number(value, buffer.data(), buffer.data() + buffer.size()));
}

/// Reads a number that fills the whole text. False if there is none, or one that `N` cannot hold; `value` then stays as it was.
template <class N>
bool parse_number(std::string_view text, N& value) {
  N parsed{};
  const char* end = text.data() + text.size();
  const auto result = detail::read_number(text.data(), end, parsed);
  if (result.ec != std::errc() || result.ptr != end) return false;
  value = parsed;
  return true;
}

}  // namespace attend
