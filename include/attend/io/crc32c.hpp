#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace attend::detail {

/// For each byte, what remains of it divided by the polynomial: the checksum goes a byte at a time.
inline constexpr std::array<std::uint32_t, 256> crc32c_table = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t remainder = i;
    for (int bit = 0; bit < 8; ++bit) remainder = remainder >> 1 ^ ((remainder & 1) != 0 ? 0x82f63b78u : 0u);
    table[i] = remainder;
  }
  return table;
}();

}  // namespace attend::detail

namespace attend::io {

/// The CRC-32C checksum (Castagnoli's polynomial, bits reflected) of some bytes. Source: RFC 3720, section 12.1 and appendix B.4.
constexpr std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t remainder = 0xffffffff;
  for (const char c : bytes)
    remainder = remainder >> 8 ^ detail::crc32c_table[(remainder ^ static_cast<unsigned char>(c)) & 0xff];
  return ~remainder;
}

}  // namespace attend::io
