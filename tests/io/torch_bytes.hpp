#pragma once

#include <cstdint>
#include <string>
#include <string_view>

/// The lowest `bytes` bytes of a number, the lowest first.
inline std::string little(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text.push_back(i < 8 ? static_cast<char>(value >> 8 * i & 0xff) : '\0');
  return text;
}

/// What torch.save would write of a pickle that needs no storage.
inline std::string torch_archive(std::string_view pickle) {
  const std::string name = "x/data.pkl", sizes = little(0, 4) + little(pickle.size(), 4) + little(pickle.size(), 4);
  const std::string common = little(0, 8) + sizes + little(name.size(), 2);
  std::string bytes = "PK\x03\x04" + little(20, 2) + common + little(0, 2) + name;
  bytes += pickle;
  const std::size_t begin = bytes.size();
  bytes += "PK\x01\x02" + little(20, 2) + little(20, 2) + common + little(0, 16) + name;
  const std::size_t size = bytes.size() - begin;
  return bytes + "PK\x05\x06" + little(0, 4) + little(1, 2) + little(1, 2) + little(size, 4) + little(begin, 4) + little(0, 2);
}
