#pragma once

#include "attend/io/system.hpp"

#if !defined(_WIN32)

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__linux__)
#include <sys/vfs.h>
#endif

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

/// attend/io/system.hpp for POSIX; it says what each function does.

namespace attend::detail::system {

inline int open(const std::filesystem::path& path, Open how) {
  constexpr std::array<int, 8> flags{O_RDONLY,
                                     O_RDONLY | O_NONBLOCK,
                                     O_RDONLY | O_NONBLOCK | O_NOFOLLOW,
                                     O_WRONLY | O_CREAT | O_EXCL,
                                     O_WRONLY | O_CREAT | O_APPEND,
                                     O_WRONLY | O_CREAT | O_APPEND | O_EXCL,
                                     O_RDWR | O_CREAT,
                                     O_RDWR | O_CREAT | O_NOFOLLOW};
  return ::open(path.c_str(), flags[static_cast<std::size_t>(how)] | O_CLOEXEC, 0666);
}
inline bool close(int file) { return ::close(file) == 0; }

/// Calls until no signal comes in between.
template <class Call>
std::ptrdiff_t uninterrupted(Call call) {
  std::ptrdiff_t n;
  do n = call();
  while (n < 0 && errno == EINTR);
  return n;
}
inline std::ptrdiff_t read(int file, void* to, std::size_t size) {
  return uninterrupted([&] { return ::read(file, to, std::min(size, most_at_once)); });
}
inline std::ptrdiff_t read_at(int file, void* to, std::size_t size, std::size_t offset) {
  return uninterrupted([&] { return ::pread(file, to, std::min(size, most_at_once), static_cast<off_t>(offset)); });
}
inline bool answers(int file) {
  pollfd input{file, POLLIN, 0};
  return ::poll(&input, 1, 0) > 0;
}
inline std::ptrdiff_t write(int file, const void* from, std::size_t size) {
  return uninterrupted([&] { return ::write(file, from, std::min(size, most_at_once)); });
}
inline bool truncate(int file, std::size_t size) {
  return ::ftruncate(file, static_cast<off_t>(size)) == 0 && ::lseek(file, 0, SEEK_END) >= 0;
}
inline bool sync(int file) {
#if defined(F_FULLFSYNC)  // macOS, whose fsync leaves it in the disk's own memory
  if (::fcntl(file, F_FULLFSYNC) == 0) return true;
#endif
  return ::fsync(file) == 0 || errno == EINVAL;
}
inline int open_folder(const std::filesystem::path& folder) { return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }
inline bool sync_folder(const std::filesystem::path& folder) {
  const int file = open_folder(folder);
  if (file < 0) return false;
  const bool synced = ::fsync(file) == 0 || errno == EINVAL || errno == ENOTSUP;
  const int error = errno;
  ::close(file);
  errno = error;
  return synced;
}

inline Status described(const struct stat& status) {
  return {.kind = S_ISREG(status.st_mode)   ? Kind::file
                  : S_ISDIR(status.st_mode) ? Kind::folder
                                            : Kind::other,
          .size = static_cast<std::size_t>(status.st_size),
          .device = static_cast<std::uint64_t>(status.st_dev),
          .number = static_cast<std::uint64_t>(status.st_ino),
          .permissions = status.st_mode & 07777u};
}
inline std::optional<Status> status(int file) {
  struct stat found {};
  return ::fstat(file, &found) == 0 ? std::optional(described(found)) : std::nullopt;
}
inline std::optional<Status> status(const std::filesystem::path& path) {
  struct stat found {};
  return ::stat(path.c_str(), &found) == 0 ? std::optional(described(found)) : std::nullopt;
}
inline std::optional<Status> status_here(const std::filesystem::path& path) {
  struct stat found {};
  return ::lstat(path.c_str(), &found) == 0 ? std::optional(described(found)) : std::nullopt;
}
inline bool is_there(const std::filesystem::path& path) { return ::access(path.c_str(), F_OK) == 0; }
inline bool is_writable(const std::filesystem::path& path) { return ::access(path.c_str(), W_OK) == 0; }
inline void permit(int file, const Status& as) { (void)!::fchmod(file, static_cast<mode_t>(as.permissions)); }

inline bool rename(const std::filesystem::path& from, const std::filesystem::path& to) {
  return ::rename(from.c_str(), to.c_str()) == 0;
}
inline bool remove(const std::filesystem::path& path) { return ::unlink(path.c_str()) == 0; }
inline bool make_private_folder(const std::filesystem::path& path) { return ::mkdir(path.c_str(), 0700) == 0; }
inline bool remove_folder(const std::filesystem::path& path) { return ::rmdir(path.c_str()) == 0; }

inline bool lock(int file, Lock kind) {
  return uninterrupted([&] { return ::flock(file, (kind == Lock::shared ? LOCK_SH : LOCK_EX) | LOCK_NB); }) == 0;
}
inline void unlock(int file) { ::flock(file, LOCK_UN); }
inline int make_own_folder(const std::filesystem::path& folder) {
  if (::mkdir(folder.c_str(), 0777) != 0) return -1;
  const int file = open_folder(folder);
  if (file >= 0) lock(file, Lock::exclusive);
  return file;
}
inline bool is_left_behind(const std::filesystem::path& folder) {
  const int file = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  const bool free = file >= 0 && lock(file, Lock::exclusive);
  if (file >= 0) ::close(file);
  return free;
}

inline void* map(int file, std::size_t offset, std::size_t size) {
  void* const at = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file, static_cast<off_t>(offset));
  return at == MAP_FAILED ? nullptr : at;
}
inline void* map_privately(int file, std::size_t offset, std::size_t size) {
  int flags = MAP_PRIVATE;
#if defined(MAP_NORESERVE)
  flags |= MAP_NORESERVE;  // pages that nobody writes to need no memory but the file
#endif
  void* const at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, flags, file, static_cast<off_t>(offset));
  return at == MAP_FAILED ? nullptr : at;
}
inline void unmap(void* pages, std::size_t size) { ::munmap(pages, size); }
inline std::size_t mapping_unit() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

inline bool is_remote([[maybe_unused]] int file) {
#if defined(__linux__)
  // NFS, SMB in three kinds, FUSE (as sshfs), 9P, AFS, Ceph; source: statfs(2).
  constexpr std::array<std::uint32_t, 8> remote{0x6969,     0x517B,     0xFF534D42, 0xFE534D42,
                                                0x65735546, 0x01021997, 0x5346414F, 0x00C36400};
  struct statfs found {};
  return ::fstatfs(file, &found) == 0 &&
         std::find(remote.begin(), remote.end(), static_cast<std::uint32_t>(found.f_type)) != remote.end();
#else
  return false;
#endif
}

inline long process() { return static_cast<long>(::getpid()); }
inline std::string host() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

}  // namespace attend::detail::system

#endif
