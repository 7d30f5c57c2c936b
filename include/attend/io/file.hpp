#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <concepts>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "attend/core/error.hpp"
#include "attend/io/system.hpp"

/// Files read with a bound, and written so that a failure never costs the old contents.

namespace attend::detail {

/// Throws IoError `operation: path: No space left on device`.
[[noreturn]] inline void throw_errno(const char* operation, const std::filesystem::path& path, int error = errno) {
  throw IoError(operation, ": ", path.string(), ": ", std::generic_category().message(error));
}

/// An open file that closes itself.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) system::close(fd_);
  }
  [[nodiscard]] int get() const { return fd_; }
  /// Closes now and returns whether that went well: some file systems report a failed write only here.
  bool close() { return system::close(std::exchange(fd_, -1)); }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// The folder in which `path` stands; `.` for a bare name.
inline std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

/// Makes the names in `folder` survive a power cut. A file system that cannot sync a folder is no error.
inline void sync_folder(const char* operation, const std::filesystem::path& folder) {
  if (!system::sync_folder(folder)) throw_errno(operation, folder);
}

/// The path of a name in UTF-8. (GCC for Windows would take each byte of a std::string for a character.)
inline std::filesystem::path path_of(std::string_view name) { return std::u8string(name.begin(), name.end()); }

/// A number that no other call in this process gets.
inline unsigned unique_number() {
  static std::atomic<unsigned> next{0};
  return next.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace attend::detail

namespace attend::io {

/// A regular file open for reading at any offset. Its reads are safe from several threads at once.
class InputFile {
 public:
  /// Throws IoError if the file is missing, unreadable, or not a regular file.
  explicit InputFile(std::filesystem::path path) : path_(std::move(path)) {
    using detail::system::Kind;
    fd_ = detail::Descriptor(detail::system::open(path_, detail::system::Open::read_now));
    if (!fd_) detail::throw_errno("read", path_);
    const auto status = detail::system::status(fd_.get());
    if (!status) detail::throw_errno("read", path_);
    if (status->kind != Kind::file)
      throw IoError("read: ", path_.string(), (status->kind == Kind::folder ? " is a folder" : " is a pipe or a device"),
                    ", expected a regular file");
    size_ = status->size;
  }

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Bytes in the file when it was opened.
  [[nodiscard]] std::size_t size() const { return size_; }

  /// For system calls; valid as long as this object lives.
  [[nodiscard]] int descriptor() const { return fd_.get(); }

  /// Fills `out` with the bytes from `offset` on. Throws IoError if the system refuses, FormatError if the file ends
  /// before `out` is full. (Reads, not a mapping: a file that somebody truncates then costs an exception, not the process.)
  void read_at(std::size_t offset, std::span<std::byte> out) const {
    const std::size_t wanted = out.size();
    while (!out.empty()) {
      const std::ptrdiff_t n = detail::system::read_at(fd_.get(), out.data(), out.size(), offset);
      if (n < 0) detail::throw_errno("read", path_);
      if (n == 0)
        throw FormatError("read: ", path_.string(), " ends at byte ", offset, ", expected ", wanted, " bytes from ",
                          offset + out.size() - wanted, " on");
      offset += n;
      out = out.subspan(n);
    }
  }

 private:
  std::filesystem::path path_;
  detail::Descriptor fd_;
  std::size_t size_ = 0;
};

/// The most bytes that `read_file` takes unless told otherwise.
inline constexpr std::size_t max_file_bytes = std::size_t{1} << 30;

/// The whole file as bytes; pipes are read to their end. Throws IoError if it cannot be read, FormatError if it has
/// more than `limit` bytes (so a wrong path cannot exhaust memory).
inline std::string read_file(const std::filesystem::path& path, std::size_t limit = max_file_bytes) {
  const detail::Descriptor fd(detail::system::open(path, detail::system::Open::read));
  if (!fd) detail::throw_errno("read", path);
  const auto status = detail::system::status(fd.get());
  if (!status) detail::throw_errno("read", path);
  const std::size_t expected = status->kind == detail::system::Kind::file ? status->size : 0;
  const auto check_limit = [&](std::size_t size) {
    if (size > limit) throw FormatError("read: ", path.string(), " has ", size, " bytes or more, expected at most ", limit);
  };
  check_limit(expected);
  std::string bytes;
  for (std::size_t filled = 0;;) {  // to the end, not to its size, of which pipes and files in /proc say nothing
    if (filled == bytes.size()) bytes.resize(filled == 0 ? std::max<std::size_t>(expected + 1, 4096) : filled * 2);
    const std::ptrdiff_t n = detail::system::read(fd.get(), bytes.data() + filled, bytes.size() - filled);
    if (n < 0) detail::throw_errno("read", path);
    filled += n;
    check_limit(filled);
    if (n == 0) {
      bytes.resize(filled);
      return bytes;
    }
  }
}

/// Where `write_file_atomically` lets its caller put bytes, front to back.
class FileSink {
 public:
  FileSink(int fd, const std::filesystem::path& path) : fd_(fd), path_(path) {}
  FileSink(const FileSink&) = delete;
  FileSink& operator=(const FileSink&) = delete;

  /// Appends. Throws IoError (a full disk, a quota, a size limit). Unbuffered: give it large pieces.
  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const std::ptrdiff_t n = detail::system::write(fd_, bytes.data(), bytes.size());
      if (n < 0) detail::throw_errno("write", path_);
      written_ += n;
      bytes = bytes.subspan(n);
    }
  }
  void write(std::string_view text) { write(std::as_bytes(std::span<const char>(text.data(), text.size()))); }
  /// Bytes so far.
  [[nodiscard]] std::size_t written() const { return written_; }

 private:
  int fd_;
  const std::filesystem::path& path_;
  std::size_t written_ = 0;
};

}  // namespace attend::io

namespace attend::detail {

/// A new file `path.tmp-PID-N` beside `path`, which `commit` syncs and renames over it. Without `commit` it is removed.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::filesystem::path& path) : path_(path) {
    std::error_code error;
    if (std::filesystem::is_symlink(path, error)) {  // replace what the link points at, and keep the link
      path_ = std::filesystem::weakly_canonical(path, error);
      if (error) throw_errno("write", path, error.value());
    }
    const auto old = system::status(path_);
    if (!old && errno != ENOENT) throw_errno("write", path_);
    if (old && old->kind != system::Kind::file)  // a rename would put a file where the device or the pipe was
      throw IoError("write: ", path_.string(), (old->kind == system::Kind::folder ? " is a folder" : " is a pipe or a device"),
                    ", expected a regular file or none");
    if (old && !system::is_writable(path_)) throw_errno("write", path_);  // write-protected: rename would not care
    do {
      temporary_ = path_;
      temporary_ += ".tmp-" + std::to_string(system::process()) + "-" + std::to_string(unique_number());
      fd_ = Descriptor(system::open(temporary_, system::Open::create));
    } while (!fd_ && errno == EEXIST);  // left behind by a process that was killed and had our number
    if (!fd_) throw_errno("write", path_);
    if (old) system::permit(fd_.get(), *old);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    fd_ = Descriptor();
    if (!committed_) system::remove(temporary_);
  }

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  void commit() {
    if (!system::sync(fd_.get())) throw_errno("write", path_);
    if (!fd_.close()) throw_errno("write", path_);
    if (!system::rename(temporary_, path_)) throw_errno("write", path_);
    committed_ = true;
    sync_folder("write", folder_of(path_));
  }

 private:
  std::filesystem::path path_, temporary_;
  Descriptor fd_;
  bool committed_ = false;
};

}  // namespace attend::detail

namespace attend::io {

/// Throws FormatError if a file that begins so is what Git LFS leaves in place of a large one; `where` begins the message.
inline void check_no_pointer(std::string_view begin, const std::string& where) {
  if (begin.starts_with("version "))
    throw FormatError(where, "is a pointer of Git LFS and not the file itself, which `git lfs pull` fetches");
}

/// Writes a file so that `path` holds, at any moment and after any crash, either all of its old contents or all of the new.
/// `writer(FileSink&)` puts the bytes into `path.tmp-PID-N` in the same folder, which is then synced and renamed over `path`, and
/// the folder synced. If anything fails, be it by an exception of `writer`, the temporary is removed, the old file is as it was,
/// and the exception is passed on: IoError for what the system refuses (no such folder, no permission, disk full). Only a process
/// that is killed leaves its temporary behind.
template <std::invocable<FileSink&> Writer>
void write_file_atomically(const std::filesystem::path& path, Writer&& writer) {
  detail::TemporaryFile file(path);
  FileSink sink(file.fd(), file.path());
  std::forward<Writer>(writer)(sink);
  file.commit();
}

/// The same for contents that are at hand.
inline void write_file_atomically(const std::filesystem::path& path, std::string_view contents) {
  write_file_atomically(path, [&](FileSink& sink) { sink.write(contents); });
}

}  // namespace attend::io
