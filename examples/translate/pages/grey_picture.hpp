#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace report {

/// Bytes as base64. Source: RFC 4648, section 4.
inline std::string base64(std::string_view bytes) {
  static constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t three = 0;
    for (std::size_t k = 0; k < 3; ++k)
      three = three << 8 | (at + k < bytes.size() ? static_cast<unsigned char>(bytes[at + k]) : 0u);
    for (std::size_t k = 0; k < 4; ++k) text += at + k <= bytes.size() ? digits[three >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

/// A grey picture as a PNG file. Its rows stand in it uncompressed, so that a script of a few lines can read them back.
/// Source: Portable Network Graphics, second edition, W3C 2003; RFC 1950 and 1951 for the stored blocks.
class GreyPicture {
 public:
  /// `depth`: bits of a pixel, 8 or 16.
  GreyPicture(std::uint32_t width, std::uint32_t height, int depth) : width_(width), height_(height), depth_(depth) {
    rows_.reserve(static_cast<std::size_t>(height) * (1 + static_cast<std::size_t>(width) * static_cast<std::size_t>(depth / 8)));
  }

  /// The next pixel, row by row: 0 black to 1 white.
  void add(double grey) {
    if (column_ == 0) rows_ += '\0';  // no filter
    const auto value = static_cast<std::uint32_t>(grey * (depth_ == 16 ? 65535.0 : 255.0) + 0.5);
    if (depth_ == 16) rows_ += static_cast<char>(value >> 8);
    rows_ += static_cast<char>(value & 0xFF);
    column_ = (column_ + 1) % width_;
  }

  [[nodiscard]] std::string png() const {
    std::string header = big_endian(width_) + big_endian(height_);
    header += static_cast<char>(depth_);
    header.append(4, '\0');  // grey; the only compression, filters and order there are
    return "\x89PNG\r\n\x1A\n" + chunk("IHDR", header) + chunk("IDAT", stored()) + chunk("IEND", "");
  }

 private:
  static std::string big_endian(std::uint32_t value) {
    return {static_cast<char>(value >> 24), static_cast<char>(value >> 16 & 0xFF), static_cast<char>(value >> 8 & 0xFF),
            static_cast<char>(value & 0xFF)};
  }
  static std::string chunk(std::string_view type, std::string_view bytes) {
    const std::string body = std::string(type) + std::string(bytes);
    return big_endian(static_cast<std::uint32_t>(bytes.size())) + body + big_endian(crc(body));
  }
  static std::uint32_t crc(std::string_view bytes) {
    static constexpr auto table = [] {
      std::array<std::uint32_t, 256> t{};
      for (std::uint32_t i = 0; i < 256; ++i) {
        std::uint32_t c = i;
        for (int k = 0; k < 8; ++k) c = (c & 1) != 0 ? 0xEDB88320u ^ c >> 1 : c >> 1;
        t[i] = c;
      }
      return t;
    }();
    std::uint32_t c = 0xFFFFFFFFu;
    for (const char byte : bytes) c = table[(c ^ static_cast<unsigned char>(byte)) & 0xFF] ^ c >> 8;
    return ~c;
  }
  /// The rows as a zlib stream of stored blocks.
  [[nodiscard]] std::string stored() const {
    constexpr std::size_t most = 65535;
    std::string out = "\x78\x01";
    std::uint32_t a = 1, b = 0;  // Adler-32
    for (std::size_t at = 0; at < rows_.size() || at == 0; at += most) {
      const std::string_view block = std::string_view(rows_).substr(at, most);
      const auto n = static_cast<std::uint32_t>(block.size());
      out += static_cast<char>(at + most >= rows_.size());
      for (const std::uint32_t size : {n, ~n}) {
        out += static_cast<char>(size & 0xFF);
        out += static_cast<char>(size >> 8 & 0xFF);
      }
      out += block;
      for (const char byte : block) {
        a = (a + static_cast<unsigned char>(byte)) % 65521;
        b = (b + a) % 65521;
      }
    }
    return out + big_endian(b << 16 | a);
  }

  std::uint32_t width_, height_, column_ = 0;
  int depth_;
  std::string rows_;  // each after a byte that names its filter
};

}  // namespace report
