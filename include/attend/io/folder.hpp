#pragma once

#include <poll.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <concepts>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "attend/io/file.hpp"

/// Folders of several files that belong together (a model: weights, configuration, tokenizer), replaced as one.
///
/// How: the new files are written into a hidden folder inside the folder and synced. Renaming that folder to `.attend-pending` is
/// the one moment at which the new files count; then each is renamed to its place. A crash before leaves the old files, a crash
/// after leaves `.attend-pending`, whose files take precedence over those of the same name outside: a `FolderReader` sees all of
/// the new ones, and finishes the renames if it may write; so does the next `write_folder_atomically`.
///
/// Why not exchange two whole folders in one rename: it would carry off the files that others keep in the folder, fails for
/// mount points, replaces symbolic links to folders, and is not offered by every file system.

namespace attend::detail {

/// Inside a folder: new files that count already and are not yet in their places.
inline constexpr const char* pending_name = ".attend-pending";
/// Those being written.
inline constexpr const char* staging_prefix = ".attend-new-";
/// In the pending ones: a list of the files that go.
inline constexpr const char* removal_list_name = ".attend-remove";

/// A lock on a folder among programs of this library: shared for readers, exclusive for the moment of replacing. Advisory and
/// bounded: after some seconds, or if the file system has no locks, the caller goes on without one, since a reader that hangs
/// must not cost a training run its checkpoint.
inline bool lock_folder(const Descriptor& fd, int kind, int patience_ms) {
  constexpr int pause_ms = 10;
  while (::flock(fd.get(), kind | LOCK_NB) != 0) {
    if ((errno != EWOULDBLOCK && errno != EINTR) || patience_ms <= 0) return false;
    ::poll(nullptr, 0, pause_ms);
    patience_ms -= pause_ms;
  }
  return true;
}
/// How long readers and writers wait for one another.
inline constexpr int lock_patience_ms = 5000;

/// The folder, opened to be locked. Throws IoError, which begins with `operation`, if it is none or cannot be opened.
inline Descriptor open_folder(const char* operation, const std::filesystem::path& folder) {
  Descriptor fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd && errno == ENOTDIR) throw IoError(operation, ": ", folder.string(), " is a file, expected a folder");
  if (!fd) throw_errno(operation, folder);
  return fd;
}

/// The names in a folder.
inline std::vector<std::string> names_in(const char* operation, const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    names.push_back(it->path().filename().string());
  if (error) throw_errno(operation, folder, error.value());
  return names;
}

/// Whether `name` names a file directly in a folder, and not one of this header's own.
inline bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find_first_of(std::string_view("/\n\0", 3)) == name.npos &&
         name.substr(0, 8) != ".attend-";
}

/// The names that a pending replacement takes away. All but plain names are skipped: a folder from elsewhere may hold anything.
inline std::vector<std::string> pending_removals(const std::filesystem::path& folder) {
  const std::filesystem::path list = folder / pending_name / removal_list_name;
  std::vector<std::string> names;
  if (::access(list.c_str(), F_OK) != 0) return names;
  const std::string text = io::read_file(list);
  for (std::size_t begin = 0, end = 0; (end = text.find('\n', begin)) != text.npos; begin = end + 1)
    if (const std::string name = text.substr(begin, end - begin); is_plain_name(name)) names.push_back(name);
  return names;
}

/// Carries out a replacement that was decided on, from any point at which it was interrupted.
inline void finish_pending(const std::filesystem::path& folder) {
  const std::filesystem::path pending = folder / pending_name;
  if (::access(pending.c_str(), F_OK) != 0) return;
  for (const std::string& name : names_in("write", pending))
    if (is_plain_name(name) && ::rename((pending / name).c_str(), (folder / name).c_str()) != 0)
      throw_errno("write", folder / name);
  for (const std::string& name : pending_removals(folder))
    if (::unlink((folder / name).c_str()) != 0 && errno != ENOENT && errno != EISDIR && errno != EPERM)
      throw_errno("write", folder / name);
  sync_folder("write", folder);
  if (::unlink((pending / removal_list_name).c_str()) != 0 && errno != ENOENT) throw_errno("write", pending);
  if (::rmdir(pending.c_str()) != 0) throw_errno("write", pending);
}

/// The hidden folder in which new files are written. Locked while its process lives, so that another process can recognise and
/// remove what a killed one left behind.
class StagingFolder {
 public:
  explicit StagingFolder(const std::filesystem::path& folder) {
    for (;;) {
      path_ = folder / (staging_prefix + std::to_string(::getpid()) + "-" + std::to_string(unique_number()));
      if (::mkdir(path_.c_str(), 0777) == 0) break;
      if (errno != EEXIST) throw_errno("write", folder);
    }
    fd_ = open_folder("write", path_);
    lock_folder(fd_, LOCK_EX, 0);
  }
  StagingFolder(const StagingFolder&) = delete;
  StagingFolder& operator=(const StagingFolder&) = delete;
  ~StagingFolder() {
    std::error_code ignored;
    if (!committed_) std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  /// The moment at which the new files count. What an interrupted replacement left is finished first.
  void commit(const std::filesystem::path& folder) {
    finish_pending(folder);
    if (::rename(path_.c_str(), (folder / pending_name).c_str()) != 0) throw_errno("write", folder);
    committed_ = true;
    sync_folder("write", folder);
    finish_pending(folder);
  }

  static void remove_stale(const std::filesystem::path& folder) {
    for (const std::string& name : names_in("write", folder)) {
      if (!name.starts_with(staging_prefix)) continue;
      const Descriptor fd(::open((folder / name).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
      std::error_code ignored;
      if (fd && lock_folder(fd, LOCK_EX, 0)) std::filesystem::remove_all(folder / name, ignored);
    }
  }

 private:
  std::filesystem::path path_;
  Descriptor fd_;
  bool committed_ = false;
};

/// Refuses a folder that stands where a file is to be put or taken away, and a write-protected file.
inline void check_replaceable(const std::filesystem::path& target) {
  struct stat status {};
  if (::lstat(target.c_str(), &status) != 0) {
    if (errno != ENOENT) throw_errno("write", target);
    return;
  }
  if (S_ISDIR(status.st_mode)) throw IoError("write: ", target.string(), " is a folder, expected a file or nothing");
  if (S_ISREG(status.st_mode) && ::access(target.c_str(), W_OK) != 0) throw_errno("write", target);
}

/// Syncs a file that the caller has staged.
inline void sync_staged_file(const std::filesystem::path& staged) {
  const Descriptor fd(::open(staged.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd) throw_errno("write", staged);
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) throw_errno("write", staged);
  if (!S_ISREG(status.st_mode) || !is_plain_name(staged.filename().string()))
    throw IoError("write: ", staged.string(), " was staged, expected plain files only");
  if (::fsync(fd.get()) != 0 && errno != EINVAL) throw_errno("write", staged);
}

}  // namespace attend::detail

namespace attend::io {

/// Options of `write_folder_atomically`.
struct FolderOptions {
  std::vector<std::string> remove = {};  ///< files to delete from the folder when the new ones take effect, if they exist
};

/// Puts files into `folder` (made if missing, its parents too) such that at any moment, and after any crash, a `FolderReader`
/// finds either none or all of them new. `writer(staging)` writes plain files into the folder `staging`; they are synced and put
/// in place of files of the same names. All other files, except those in `options.remove`, are left alone. If anything fails
/// before that (a full disk, an exception of `writer`), nothing has changed and the exception is passed on.
/// Throws IoError, ValueError for a name in `options.remove` that is a path.
template <std::invocable<const std::filesystem::path&> Writer>
void write_folder_atomically(const std::filesystem::path& folder, Writer&& writer, const FolderOptions& options = {}) {
  for (const std::string& name : options.remove)
    if (!detail::is_plain_name(name)) throw ValueError("write: cannot remove '", name, "', expected the plain name of a file");
  std::error_code error;
  const bool is_new = std::filesystem::create_directories(folder, error);
  if (error) detail::throw_errno("write", folder, error.value());
  try {
    if (is_new) detail::sync_folder("write", detail::folder_of(folder));
    const detail::Descriptor lock = detail::open_folder("write", folder);
    detail::lock_folder(lock, LOCK_EX, detail::lock_patience_ms);
    detail::StagingFolder::remove_stale(folder);
    detail::StagingFolder staging(folder);
    ::flock(lock.get(), LOCK_UN);  // reading goes on while the files are written

    std::forward<Writer>(writer)(staging.path());

    const std::vector<std::string> names = detail::names_in("write", staging.path());
    for (const std::string& name : names) {
      detail::sync_staged_file(staging.path() / name);
      detail::check_replaceable(folder / name);
    }
    std::string removals;
    for (const std::string& name : options.remove) {
      if (std::find(names.begin(), names.end(), name) != names.end()) continue;
      detail::check_replaceable(folder / name);
      removals += name + "\n";
    }
    if (!removals.empty()) write_file_atomically(staging.path() / detail::removal_list_name, removals);
    detail::sync_folder("write", staging.path());

    detail::lock_folder(lock, LOCK_EX, detail::lock_patience_ms);
    staging.commit(folder);
  } catch (...) {
    if (is_new) ::rmdir(folder.c_str());  // does nothing unless it is still empty
    throw;
  }
}

/// A folder open for reading. While it lives, no `write_folder_atomically` replaces files in it (for some seconds: see
/// `lock_folder`), so that all that is read belongs together: keep it until everything is loaded.
class FolderReader {
 public:
  /// Finishes an interrupted replacement if it may. Throws IoError if there is no such folder.
  explicit FolderReader(std::filesystem::path folder) : folder_(std::move(folder)), lock_(detail::open_folder("read", folder_)) {
    if (::access((folder_ / detail::pending_name).c_str(), F_OK) == 0 && detail::lock_folder(lock_, LOCK_EX, 0)) {
      try {
        detail::finish_pending(folder_);
      } catch (const Error&) {  // a folder that we may only read is read as it is
      }
    }
    detail::lock_folder(lock_, LOCK_SH, detail::lock_patience_ms);
    removed_ = detail::pending_removals(folder_);
  }

  [[nodiscard]] const std::filesystem::path& path() const { return folder_; }
  /// Whether there is a file of that name.
  [[nodiscard]] bool contains(const std::string& name) const { return !find(name).empty(); }
  /// Where the file of that name lies at present. Throws IoError `read: model has no tokenizer.model`.
  [[nodiscard]] std::filesystem::path file(const std::string& name) const {
    std::filesystem::path found = find(name);
    if (found.empty()) throw IoError("read: ", folder_.string(), " has no ", name);
    return found;
  }

 private:
  [[nodiscard]] std::filesystem::path find(const std::string& name) const {
    const std::filesystem::path pending = folder_ / detail::pending_name / name, settled = folder_ / name;
    if (::access(pending.c_str(), F_OK) == 0) return pending;
    const bool removed = std::find(removed_.begin(), removed_.end(), name) != removed_.end();
    if (!removed && ::access(settled.c_str(), F_OK) == 0) return settled;
    return {};
  }

  std::filesystem::path folder_;
  detail::Descriptor lock_;
  std::vector<std::string> removed_;
};

}  // namespace attend::io
