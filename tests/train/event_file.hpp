#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "attend/io/file.hpp"

/// A reader of TensorBoard's event files that shares nothing with what writes them.
namespace events {

/// The fields of a Protocol Buffers message in their order: number, and the bytes or the bits.
struct Field {
  std::uint64_t number = 0, bits = 0;
  std::string bytes;
};

inline std::uint64_t take_varint(std::string& in) {
  std::uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(in.at(0));
    in.erase(0, 1);
    value |= static_cast<std::uint64_t>(byte & 127) << shift;
    if (byte < 128) return value;
  }
}
inline std::string take(std::string& in, std::uint64_t count) {
  if (in.size() < count) throw std::runtime_error("the bytes end");
  std::string part = in.substr(0, count);
  in.erase(0, count);
  return part;
}
inline std::uint64_t little_endian(const std::string& bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i > 0; --i) value = value * 256 + static_cast<unsigned char>(bytes[i - 1]);
  return value;
}

inline std::vector<Field> fields(std::string in) {
  std::vector<Field> list;
  while (!in.empty()) {
    const std::uint64_t key = take_varint(in);
    Field f{key / 8, 0, {}};
    if (key % 8 == 0) f.bits = take_varint(in);
    else if (key % 8 == 1) f.bits = little_endian(take(in, 8));
    else if (key % 8 == 2) f.bytes = take(in, take_varint(in));
    else if (key % 8 == 5) f.bits = little_endian(take(in, 4));
    else throw std::runtime_error("an unknown kind of field");
    list.push_back(f);
  }
  return list;
}

/// Bit by bit, as the polynomial says.
inline std::uint32_t masked_checksum(const std::string& bytes) {
  std::uint32_t crc = ~0u;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int i = 0; i < 8; ++i) crc = (crc & 1) != 0 ? crc / 2 ^ 0x82f63b78u : crc / 2;
  }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

struct Event {
  double time = 0;
  std::int64_t step = 0;
  std::string version;
  bool start = false;                    // of a session
  std::map<std::string, float> scalars;  // by tag
  std::map<std::string, std::string> texts;
};

inline Event event(const std::string& bytes) {
  Event e;
  for (const Field& f : fields(bytes)) {
    if (f.number == 1) std::memcpy(&e.time, &f.bits, sizeof e.time);
    if (f.number == 2) e.step = static_cast<std::int64_t>(f.bits);
    if (f.number == 3) e.version = f.bytes;
    if (f.number == 7) e.start = fields(f.bytes).at(0).number == 1 && fields(f.bytes).at(0).bits == 1;
    if (f.number != 5) continue;
    for (const Field& value : fields(f.bytes)) {
      std::string tag;
      for (const Field& v : fields(value.bytes)) {
        if (v.number == 1) tag = v.bytes;
        if (v.number == 2) {
          const auto bits = static_cast<std::uint32_t>(v.bits);
          std::memcpy(&e.scalars[tag], &bits, sizeof bits);
        }
        if (v.number == 8)
          for (const Field& t : fields(v.bytes))
            if (t.number == 8) e.texts[tag] = t.bytes;
      }
    }
  }
  return e;
}

/// All events of a file. Throws if a length or a checksum is wrong.
inline std::vector<Event> read(const std::filesystem::path& path) {
  std::string in = attend::io::read_file(path);
  std::vector<Event> list;
  while (!in.empty()) {
    const std::string length = take(in, 8);
    if (little_endian(take(in, 4)) != masked_checksum(length)) throw std::runtime_error("the checksum of a length is wrong");
    const std::string data = take(in, little_endian(length));
    if (little_endian(take(in, 4)) != masked_checksum(data)) throw std::runtime_error("the checksum of a record is wrong");
    list.push_back(event(data));
  }
  return list;
}

}  // namespace events
