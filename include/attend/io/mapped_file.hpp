#pragma once

#include <sys/mman.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/vfs.h>
#endif

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
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
  ~Mapping() { ::munmap(at, size); }
};

/// Whether a file may be another machine's, or a program's that answers for it. There a file that somebody replaces or removes is
/// gone for all but them, and a mapping of it ends the process.
inline bool is_remote([[maybe_unused]] int descriptor) {
#if defined(__linux__)
  // NFS, SMB in three kinds, FUSE (as sshfs), 9P, AFS, Ceph; source: statfs(2).
  constexpr std::array<std::uint32_t, 8> remote{0x6969,     0x517B,     0xFF534D42, 0xFE534D42,
                                                0x65735546, 0x01021997, 0x5346414F, 0x00C36400};
  struct statfs system {};
  return ::fstatfs(descriptor, &system) == 0 &&
         std::find(remote.begin(), remote.end(), static_cast<std::uint32_t>(system.f_type)) != remote.end();
#else
  return false;
#endif
}

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
    void* at = ::mmap(nullptr, file.size(), PROT_READ, MAP_SHARED, file.descriptor(), 0);
    if (at == MAP_FAILED) detail::throw_errno("map", file.path());
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
  if (size == 0 || begin > file.size() || size > file.size() - begin || detail::is_remote(file.descriptor())) return {};
  const std::size_t page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)), before = begin % page;
  int flags = MAP_PRIVATE;
#if defined(MAP_NORESERVE)
  flags |= MAP_NORESERVE;  // pages that nobody writes to need no memory but the file
#endif
  void* at = ::mmap(nullptr, before + size, PROT_READ | PROT_WRITE, flags, file.descriptor(), static_cast<off_t>(begin - before));
  if (at == MAP_FAILED) return {};
  return {static_cast<std::byte*>(at) + before, size, std::make_shared<const detail::Mapping>(at, before + size)};
}

}  // namespace attend::io
