#pragma once

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <concepts>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
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
inline bool lock_folder(const Descriptor& fd, system::Lock kind, std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds pause(10);
  while (!system::lock(fd.get(), kind)) {
    if (errno != EWOULDBLOCK || patience.count() <= 0) return false;
    std::this_thread::sleep_for(pause);
    patience -= pause;
  }
  return true;
}
/// How long readers and writers wait for one another.
inline constexpr std::chrono::milliseconds lock_patience(5000);
/// For a lock that is taken at once or not at all.
inline constexpr std::chrono::milliseconds no_patience(0);

/// The folder, opened to be locked. Throws IoError, which begins with `operation`, if it is none or cannot be opened.
inline Descriptor open_folder(const char* operation, const std::filesystem::path& folder) {
  Descriptor fd(system::open_folder(folder));
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
         name.find_first_of(system::separators) == name.npos && name.substr(0, 8) != ".attend-";
}

/// The names that a pending replacement takes away. All but plain names are skipped: a folder from elsewhere may hold anything.
inline std::vector<std::string> pending_removals(const std::filesystem::path& folder) {
  const std::filesystem::path list = folder / pending_name / removal_list_name;
  std::vector<std::string> names;
  if (!system::is_there(list)) return names;
  const std::string text = io::read_file(list);
  for (std::size_t begin = 0, end = 0; (end = text.find('\n', begin)) != text.npos; begin = end + 1)
    if (const std::string name = text.substr(begin, end - begin); is_plain_name(name)) names.push_back(name);
  return names;
}

/// Carries out a replacement that was decided on, from any point at which it was interrupted.
inline void finish_pending(const std::filesystem::path& folder) {
  const std::filesystem::path pending = folder / pending_name;
  if (!system::is_there(pending)) return;
  for (const std::string& name : names_in("write", pending))
    if (is_plain_name(name) && !system::rename(pending / path_of(name), folder / path_of(name)))
      throw_errno("write", folder / path_of(name));
  for (const std::string& name : pending_removals(folder))
    if (!system::remove(folder / path_of(name)) && errno != ENOENT && errno != EISDIR && errno != EPERM)
      throw_errno("write", folder / path_of(name));
  sync_folder("write", folder);
  if (!system::remove(pending / removal_list_name) && errno != ENOENT) throw_errno("write", pending);
  if (!system::remove_folder(pending)) throw_errno("write", pending);
}

/// The hidden folder in which new files are written. Locked while its process lives, so that another process can recognise and
/// remove what a killed one left behind.
class StagingFolder {
 public:
  explicit StagingFolder(const std::filesystem::path& folder) {
    do {
      path_ = folder / (staging_prefix + std::to_string(system::process()) + "-" + std::to_string(unique_number()));
      fd_ = Descriptor(system::make_own_folder(path_));
    } while (!fd_ && errno == EEXIST);
    if (!fd_) throw_errno("write", folder);
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
    if (!system::rename(path_, folder / pending_name)) throw_errno("write", folder);
    committed_ = true;
    sync_folder("write", folder);
    finish_pending(folder);
  }

  static void remove_stale(const std::filesystem::path& folder) {
    for (const std::string& name : names_in("write", folder)) {
      if (!name.starts_with(staging_prefix)) continue;
      std::error_code ignored;
      if (system::is_left_behind(folder / path_of(name))) std::filesystem::remove_all(folder / path_of(name), ignored);
    }
  }

 private:
  std::filesystem::path path_;
  Descriptor fd_;
  bool committed_ = false;
};

/// Refuses a folder that stands where a file is to be put or taken away, and a write-protected file.
inline void check_replaceable(const std::filesystem::path& target) {
  const auto status = system::status_here(target);
  if (!status) {
    if (errno != ENOENT) throw_errno("write", target);
    return;
  }
  if (status->kind == system::Kind::folder) throw IoError("write: ", target.string(), " is a folder, expected a file or nothing");
  if (status->kind == system::Kind::file && !system::is_writable(target)) throw_errno("write", target);
}

/// Syncs a file that the caller has staged.
inline void sync_staged_file(const std::filesystem::path& staged) {
  const Descriptor fd(system::open(staged, system::Open::read_here));
  if (!fd) throw_errno("write", staged);
  const auto status = system::status(fd.get());
  if (!status) throw_errno("write", staged);
  if (status->kind != system::Kind::file || !is_plain_name(staged.filename().string()))
    throw IoError("write: ", staged.string(), " was staged, expected plain files only");
  if (!system::sync(fd.get())) throw_errno("write", staged);
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
    detail::lock_folder(lock, detail::system::Lock::exclusive, detail::lock_patience);
    detail::StagingFolder::remove_stale(folder);
    detail::StagingFolder staging(folder);
    detail::system::unlock(lock.get());  // reading goes on while the files are written

    std::forward<Writer>(writer)(staging.path());

    const std::vector<std::string> names = detail::names_in("write", staging.path());
    for (const std::string& name : names) {
      detail::sync_staged_file(staging.path() / detail::path_of(name));
      detail::check_replaceable(folder / detail::path_of(name));
    }
    std::string removals;
    for (const std::string& name : options.remove) {
      if (std::find(names.begin(), names.end(), name) != names.end()) continue;
      detail::check_replaceable(folder / detail::path_of(name));
      removals += name + "\n";
    }
    if (!removals.empty()) write_file_atomically(staging.path() / detail::removal_list_name, removals);
    detail::sync_folder("write", staging.path());

    detail::lock_folder(lock, detail::system::Lock::exclusive, detail::lock_patience);
    staging.commit(folder);
  } catch (...) {
    if (is_new) detail::system::remove_folder(folder);  // does nothing unless it is still empty
    throw;
  }
}

/// A folder open for reading. While it lives, no `write_folder_atomically` replaces files in it (for some seconds: see
/// `lock_folder`), so that all that is read belongs together: keep it until everything is loaded.
class FolderReader {
 public:
  /// Finishes an interrupted replacement if it may. Throws IoError if there is no such folder.
  explicit FolderReader(std::filesystem::path folder) : folder_(std::move(folder)), lock_(detail::open_folder("read", folder_)) {
    using detail::system::Lock;
    if (detail::system::is_there(folder_ / detail::pending_name) &&
        detail::lock_folder(lock_, Lock::exclusive, detail::no_patience)) {
      try {
        detail::finish_pending(folder_);
      } catch (const Error&) {  // a folder that we may only read is read as it is
      }
    }
    detail::lock_folder(lock_, Lock::shared, detail::lock_patience);
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
    const std::filesystem::path pending = folder_ / detail::pending_name / detail::path_of(name),
                                settled = folder_ / detail::path_of(name);
    if (detail::system::is_there(pending)) return pending;
    const bool removed = std::find(removed_.begin(), removed_.end(), name) != removed_.end();
    if (!removed && detail::system::is_there(settled)) return settled;
    return {};
  }

  std::filesystem::path folder_;
  detail::Descriptor lock_;
  std::vector<std::string> removed_;
};

}  // namespace attend::io
