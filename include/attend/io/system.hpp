#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "attend/core/windows.hpp"

/// What the library asks of the system about files, in one vocabulary for POSIX (system_posix.hpp) and Windows
/// (system_windows.hpp). Who fails says why in `errno`, as POSIX has it; the messages are the callers'.

namespace attend::detail::system {

/// What a file is opened for. None is passed on to the processes that this one starts.
enum class Open {
  read,         ///< from its beginning
  read_now,     ///< the same, without waiting for whoever writes to a named pipe
  read_here,    ///< the same, and not through a symbolic link at its end
  create,       ///< to write to a new file; EEXIST if there is one
  append,       ///< to write at the end of a file, which is made if it is missing
  append_new,   ///< the same, EEXIST if there is one
  update,       ///< to read and write a file, which is made if it is missing
  update_here,  ///< the same, and not through a symbolic link at its end
};

/// Bytes that one call of `read`, `read_at` or `write` moves at most: Linux moves up to 2 GiB.
inline constexpr std::size_t most_at_once = std::size_t{1} << 30;

/// The descriptor; negative if the system refuses.
int open(const std::filesystem::path& path, Open how);
/// False if what was written before has failed: some file systems say so only here.
bool close(int file);

/// Bytes read from where the last `read` ended, at most `size`; 0 at the end, negative if it fails.
std::ptrdiff_t read(int file, void* to, std::size_t size);
/// Bytes read from `offset` on. Safe from several threads at once.
std::ptrdiff_t read_at(int file, void* to, std::size_t size, std::size_t offset);
/// Whether a `read` of a pipe, a terminal or a file would not wait.
bool answers(int file);
/// Bytes written, at most `size`; negative if it fails.
std::ptrdiff_t write(int file, const void* from, std::size_t size);
/// Cuts the file to that size and goes on at its end.
bool truncate(int file, std::size_t size);
/// Lets what was written survive a power cut, if the file can.
bool sync(int file);
/// The same for the names in a folder. False if there is no such folder.
bool sync_folder(const std::filesystem::path& folder);

/// A regular file, a folder, or another: a pipe, a device, a symbolic link.
enum class Kind { file, folder, other };
/// What a file is. Two descriptions of one file have the same device and number.
struct Status {
  Kind kind = Kind::other;
  std::size_t size = 0;
  std::uint64_t device = 0, number = 0;
  unsigned permissions = 0;
  [[nodiscard]] bool is(const Status& other) const { return device == other.device && number == other.number; }
};
/// Of what is open; nothing if the system refuses.
std::optional<Status> status(int file);
/// Of what symbolic links lead to.
std::optional<Status> status(const std::filesystem::path& path);
/// Of a symbolic link itself, which is of another kind.
std::optional<Status> status_here(const std::filesystem::path& path);
/// Whether anything has that name; links are followed.
bool is_there(const std::filesystem::path& path);
/// Whether this process may write to it.
bool is_writable(const std::filesystem::path& path);
/// Gives a file the permissions of another; a courtesy that not every file system can do.
void permit(int file, const Status& as);

/// Puts a file, or a folder where there is none, in place of another in one step.
bool rename(const std::filesystem::path& from, const std::filesystem::path& to);
/// Removes a file; EISDIR or EPERM for a folder.
bool remove(const std::filesystem::path& path);
/// Makes a folder for this user alone. EEXIST if there is one.
bool make_private_folder(const std::filesystem::path& path);
/// Removes an empty folder.
bool remove_folder(const std::filesystem::path& path);

/// `shared` with all others that are shared; `exclusive` of all others.
enum class Lock { shared, exclusive };
/// What stands for a folder where it is to be locked; ENOTDIR for a file.
int open_folder(const std::filesystem::path& folder);
/// Makes a folder that is this process's own until it closes the descriptor or ends. EEXIST if there is one.
int make_own_folder(const std::filesystem::path& folder);
/// Whether a folder that was made so belongs to nobody any more, and is no link.
bool is_left_behind(const std::filesystem::path& folder);
/// A lock that others who ask for it respect, for as long as the descriptor is open. Does not wait: EWOULDBLOCK if another has
/// it.
bool lock(int file, Lock kind);
/// Gives the lock back before the descriptor is closed.
void unlock(int file);

/// Whole pages of a file in memory; null if the system refuses. `offset` is a multiple of `mapping_unit`.
void* map(int file, std::size_t offset, std::size_t size);
/// The same for this program alone: what is written to it stays there.
void* map_privately(int file, std::size_t offset, std::size_t size);
/// Ends what `map` or `map_privately` began; `size` is that of the call.
void unmap(void* pages, std::size_t size);
/// Bytes of which the offset of a mapping is a multiple.
std::size_t mapping_unit();
/// Whether a file may be another machine's, or a program's that answers for it. There a file that somebody replaces or removes is
/// gone for all but them, and a mapping of it ends the process.
bool is_remote(int file);

#if defined(_WIN32)
/// Characters besides `/` that part the names in a path.
inline constexpr std::string_view separators = "\\:";
#else
/// Characters besides `/` that part the names in a path: none.
inline constexpr std::string_view separators;
#endif

/// The number of this process.
long process();
/// The name of this machine; empty if it does not say.
std::string host();

}  // namespace attend::detail::system

// One of them.
#include "attend/io/system_posix.hpp"
#include "attend/io/system_windows.hpp"
