#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "attend/core/memory.hpp"
#include "attend/io/file.hpp"

namespace attend::detail {

/// Whole pages of a file in memory, until it goes.
struct Mapping {
  void* at;
  std::size_t size;
  Mapping(void* begin, std::size_t bytes) : at(begin), size(bytes) {}
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() { system::unmap(at, size); }
};

}  // namespace attend::detail

namespace attend::io {

/// A file mapped into memory: the system reads what is looked at, and drops it again when memory is needed. Copies share one
/// mapping. For files that nobody changes meanwhile: if one is cut short, a look beyond its new end ends the process (SIGBUS).
class MappedFile {
 public:
  MappedFile() = default;
  /// Throws IoError if the system refuses.
  explicit MappedFile(const InputFile& file) {
    if (file.size() == 0) return;
    void* at = detail::system::map(file.descriptor(), 0, file.size());
    if (at == nullptr) detail::throw_errno("map", file.path());
    mapping_ = std::make_shared<const detail::Mapping>(at, file.size());
  }
  [[nodiscard]] std::span<const std::byte> bytes() const {
    return mapping_ ? std::span(static_cast<const std::byte*>(mapping_->at), mapping_->size) : std::span<const std::byte>();
  }

 private:
  std::shared_ptr<const detail::Mapping> mapping_;
};

/// `size` bytes of a file, from `begin` on, as memory of the program's own: what is written to it stays there, and the file is as
/// it was. Nothing is read before it is looked at. The file may be renamed, removed or replaced by another meanwhile; it must not
/// be overwritten or cut short in its place, see MappedFile. Null if the system refuses, the file does not have them, or it is on
/// another machine, whose files may go although they are in use.
inline MappedMemory map_privately(const InputFile& file, std::size_t begin, std::size_t size) {
  if (size == 0 || begin > file.size() || size > file.size() - begin || detail::system::is_remote(file.descriptor())) return {};
  const std::size_t before = begin % detail::system::mapping_unit();
  void* at = detail::system::map_privately(file.descriptor(), begin - before, before + size);
  if (at == nullptr) return {};
  return {static_cast<std::byte*>(at) + before, size, std::make_shared<const detail::Mapping>(at, before + size)};
}

}  // namespace attend::io
