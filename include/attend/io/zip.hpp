#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attend/core/error.hpp"
#include "attend/core/printable.hpp"
#include "attend/io/file.hpp"

/// Where the files of a zip archive lie, for archives that store without compression, as torch.save writes them. Source: PKWARE's
/// APPNOTE.TXT, sections 4.3 to 4.5 (zip64 in 4.3.14, 4.3.15 and 4.5.3).

namespace attend::io {

/// A file in an archive: its name, and which bytes of the archive are its own.
struct ZipEntry {
  std::string name;
  std::size_t begin = 0, size = 0;
};

}  // namespace attend::io

namespace attend::detail {

/// The little-endian number at `at` of `bytes`; 0 where it does not lie within them, which callers have checked.
template <class N>
N little_endian(std::string_view bytes, std::size_t at) {
  N value = 0;
  if (at <= bytes.size() && sizeof(N) <= bytes.size() - at) std::memcpy(&value, bytes.data() + at, sizeof(N));
  return value;
}

/// Reads the directory of an archive. `where` begins every message.
class ZipReader {
 public:
  ZipReader(const io::InputFile& file, const std::string& where) : file_(file), where_(where) {}

  std::vector<io::ZipEntry> entries() {
    const Directory directory = find_directory();
    const std::string bytes = read(directory.begin, directory.size, "directory");
    std::vector<io::ZipEntry> list;
    for (std::size_t at = 0; list.size() < directory.entries;) {
      constexpr std::size_t fixed = 46;
      if (bytes.size() - at < fixed || little_endian<std::uint32_t>(bytes, at) != 0x02014b50)
        fail("whose directory ends after " + std::to_string(list.size()) + " of its " + std::to_string(directory.entries) +
             " files");
      const std::size_t name = little_endian<std::uint16_t>(bytes, at + 28), extra = little_endian<std::uint16_t>(bytes, at + 30),
                        comment = little_endian<std::uint16_t>(bytes, at + 32);
      if (bytes.size() - at - fixed < name + extra + comment) fail("whose directory is cut off");
      list.push_back(entry(std::string_view(bytes).substr(at, fixed + name + extra), name));
      at += fixed + name + extra + comment;
    }
    std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    const auto twice =
        std::adjacent_find(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.name == b.name; });
    if (twice != list.end()) fail("that has " + printable(twice->name) + " twice");
    return list;
  }

 private:
  struct Directory {
    std::uint64_t begin = 0, size = 0, entries = 0;
  };

  [[noreturn]] void fail(const std::string& what) const { throw FormatError(where_, "is a zip archive ", what); }

  /// Bytes of the archive, which are there.
  [[nodiscard]] std::string read(std::uint64_t begin, std::uint64_t size, const char* what) const {
    if (begin > file_.size() || size > file_.size() - begin)
      fail(std::string("that is cut off: its ") + what + " would lie at " + std::to_string(begin) + ", " + std::to_string(size) +
           " bytes, and it has " + std::to_string(file_.size()));
    std::string bytes(static_cast<std::size_t>(size), '\0');
    file_.read_at(static_cast<std::size_t>(begin), std::as_writable_bytes(std::span<char>(bytes)));
    return bytes;
  }

  [[nodiscard]] Directory find_directory() const {
    constexpr std::size_t fixed = 22, longest_comment = 0xFFFF, locator_size = 20, wide_size = 56;
    const std::size_t tail_size = std::min(file_.size(), fixed + longest_comment);
    const std::string tail = read(file_.size() - tail_size, tail_size, "end");
    std::size_t at = tail.rfind("PK\x05\x06");
    while (at != tail.npos &&
           (tail.size() - at < fixed || little_endian<std::uint16_t>(tail, at + 20) != tail.size() - at - fixed))
      at = at == 0 ? tail.npos : tail.rfind("PK\x05\x06", at - 1);
    if (at == tail.npos) fail("without an end (cut off?)");
    Directory found{.begin = little_endian<std::uint32_t>(tail, at + 16),
                    .size = little_endian<std::uint32_t>(tail, at + 12),
                    .entries = little_endian<std::uint16_t>(tail, at + 10)};
    const std::size_t end = file_.size() - tail_size + at;
    if ((found.begin == 0xFFFFFFFF || found.size == 0xFFFFFFFF || found.entries == 0xFFFF) && end >= locator_size) {
      const std::string locator = read(end - locator_size, locator_size, "zip64 locator");
      if (little_endian<std::uint32_t>(locator, 0) != 0x07064b50) fail("without the zip64 locator that it needs");
      const std::string wide = read(little_endian<std::uint64_t>(locator, 8), wide_size, "zip64 end");
      if (little_endian<std::uint32_t>(wide, 0) != 0x06064b50) fail("whose zip64 locator leads nowhere");
      found = {.begin = little_endian<std::uint64_t>(wide, 48),
               .size = little_endian<std::uint64_t>(wide, 40),
               .entries = little_endian<std::uint64_t>(wide, 32)};
    }
    return found;
  }

  /// One file, from its part of the directory. Where its bytes begin is said only at the file itself.
  [[nodiscard]] io::ZipEntry entry(std::string_view part, std::size_t name_size) const {
    constexpr std::size_t fixed = 46, local_fixed = 30;
    io::ZipEntry entry{.name = std::string(part.substr(fixed, name_size))};
    const auto of = [&] { return " file " + printable(entry.name); };
    const auto flags = little_endian<std::uint16_t>(part, 8), method = little_endian<std::uint16_t>(part, 10);
    if ((flags & 1) != 0) fail("with an encrypted" + of());
    if (method != 0) fail("with a compressed" + of() + ", expected files that are stored as they are");
    std::uint64_t stored = little_endian<std::uint32_t>(part, 20), size = little_endian<std::uint32_t>(part, 24),
                  begin = little_endian<std::uint32_t>(part, 42);
    std::string_view extra = part.substr(fixed + name_size);
    while (extra.size() >= 4) {
      const auto id = little_endian<std::uint16_t>(extra, 0);
      const std::size_t length = little_endian<std::uint16_t>(extra, 2);
      if (length > extra.size() - 4) break;
      std::string_view wide = extra.substr(4, length);
      if (id == 1)  // zip64: those of the numbers that do not fit into 32 bits, in this order
        for (std::uint64_t* number : {&size, &stored, &begin})
          if (*number == 0xFFFFFFFF && wide.size() >= 8) {
            *number = little_endian<std::uint64_t>(wide, 0);
            wide.remove_prefix(8);
          }
      extra.remove_prefix(4 + length);
    }
    if (stored != size)
      fail("with a" + of() + " that is stored in " + std::to_string(stored) + " bytes and has " + std::to_string(size));
    const std::string local = read(begin, local_fixed, "file");
    if (little_endian<std::uint32_t>(local, 0) != 0x04034b50) fail("whose directory does not lead to its" + of());
    entry.begin = begin + local_fixed + little_endian<std::uint16_t>(local, 26) + little_endian<std::uint16_t>(local, 28);
    entry.size = size;
    if (entry.begin > file_.size() || entry.size > file_.size() - entry.begin) fail("that is cut off within its" + of());
    return entry;
  }

  const io::InputFile& file_;
  const std::string& where_;
};

}  // namespace attend::detail

namespace attend::io {

/// The files of an archive, in the order of their names. They lie within it, but checksums are not compared: that would read all
/// of it. Throws FormatError for what is no such archive, is cut off, encrypted or compressed, or has a name twice; IoError.
inline std::vector<ZipEntry> zip_entries(const InputFile& file, const std::string& where) {
  return detail::ZipReader(file, where).entries();
}

}  // namespace attend::io
