#pragma once

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "attend/io/file.hpp"

namespace attend::io {

/// The right to write into a folder, which only one holder has at a time, here or in another process: two trainings into one
/// folder would take each other's checkpoints for their own. It is a lock on the file `.attend-lock` in the folder; the
/// file goes away with the lock. The system frees the lock of a process that is killed; the file that stays behind then means
/// nothing. On a file system without locks nobody is kept out.
class FolderLock {
 public:
  /// Makes the folder and its parents if they are missing. Throws IoError if another has the lock (it does not wait), and
  /// for what the system refuses.
  explicit FolderLock(std::filesystem::path folder) : folder_(std::move(folder)) {
    try {
      while (!take()) continue;
    } catch (...) {
      if (made_) detail::system::remove_folder(folder_);
      throw;
    }
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  /// Removes the file, and also the folder if it was made for this lock and is still empty.
  ~FolderLock() {
    detail::system::remove(file());
    fd_ = detail::Descriptor();
    if (made_) detail::system::remove_folder(folder_);
  }

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

 private:
  [[nodiscard]] std::filesystem::path file() const { return folder_ / ".attend-lock"; }

  /// Locks the file; false if its last holder has removed it, or the folder with it, in between.
  bool take() {
    std::error_code error;
    if (std::filesystem::create_directories(folder_, error)) {
      made_ = true;
      detail::sync_folder("write", detail::folder_of(folder_));
    }
    if (error) detail::throw_errno("write", folder_, error.value());
    fd_ = detail::Descriptor(detail::system::open(file(), detail::system::Open::update_here));
    if (!fd_ && errno == ENOENT) return false;
    if (!fd_) detail::throw_errno("write", file());
    if (!detail::system::lock(fd_.get(), detail::system::Lock::exclusive)) {
      if (errno == EWOULDBLOCK)
        throw IoError("write: ", folder_.string(),
                      " is in use: another training or averaging writes there; wait for it to end, or choose another folder");
      return true;
    }
    const auto held = detail::system::status(fd_.get());
    if (!held) detail::throw_errno("write", file());
    const auto there = detail::system::status(file());
    return there && there->is(*held);
  }

  std::filesystem::path folder_;
  detail::Descriptor fd_;
  bool made_ = false;  // whether the folder was made for this lock
};

}  // namespace attend::io
