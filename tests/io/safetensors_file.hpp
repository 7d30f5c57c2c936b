#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "attend/io/file.hpp"

/// The bytes of a safetensors file whose header says that it has `length` bytes.
inline std::string safetensors_bytes(std::uint64_t length, std::string_view header, std::string_view data) {
  std::string bytes(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(length >> 8 * i & 0xff);
  return bytes.append(header).append(data);
}
inline std::string safetensors_bytes(std::string_view header, std::string_view data = {}) {
  return safetensors_bytes(header.size(), header, data);
}
