#pragma once

#include "attend/io/system.hpp"

#if defined(_WIN32)

#include <fcntl.h>
#include <io.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

/// attend/io/system.hpp for Windows; it says what each function does. Files are opened so that others may rename and remove them
/// meanwhile, as POSIX has it.

namespace attend::detail::system {

/// Says in errno why Windows has just refused; false.
inline bool refused() {
  const DWORD error = ::GetLastError();
  switch (error) {
    case ERROR_LOCK_VIOLATION:
      errno = EWOULDBLOCK;
      break;
    case ERROR_DIRECTORY:
      errno = ENOTDIR;
      break;
    case ERROR_DISK_FULL:
    case ERROR_HANDLE_DISK_FULL:
      errno = ENOSPC;
      break;
    case ERROR_BAD_PATHNAME:
    case ERROR_INVALID_NAME:
      errno = ENOENT;
      break;
    case ERROR_SHARING_VIOLATION:
    case ERROR_USER_MAPPED_FILE:
      errno = EBUSY;
      break;
    case ERROR_BROKEN_PIPE:
    case ERROR_NO_DATA:
      errno = EPIPE;
      break;
    default: {
      const auto condition = std::system_category().default_error_condition(static_cast<int>(error));
      errno = condition.category() == std::generic_category() ? condition.value() : EIO;
    }
  }
  return false;
}
inline HANDLE handle(int file) { return reinterpret_cast<HANDLE>(::_get_osfhandle(file)); }

/// A handle that closes itself.
class Handle {
 public:
  explicit Handle(HANDLE handle) : handle_(handle) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (*this) ::CloseHandle(handle_);
  }
  explicit operator bool() const { return handle_ != INVALID_HANDLE_VALUE; }
  [[nodiscard]] HANDLE get() const { return handle_; }

 private:
  HANDLE handle_;
};

inline constexpr DWORD shared_with_all = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;

/// Whether what is open is a symbolic link or a junction itself. Files that the system keeps in another form or place, compressed
/// or in a cloud, are reparse points too, and files like any other.
inline bool is_link(HANDLE opened) {
  FILE_ATTRIBUTE_TAG_INFO info{};
  return ::GetFileInformationByHandleEx(opened, FileAttributeTagInfo, &info, sizeof info) &&
         (info.FileAttributes & FILE_ATTRIBUTE_REPARSE_POINT) != 0 && IsReparseTagNameSurrogate(info.ReparseTag);
}
inline bool is_folder(const std::filesystem::path& path) {
  const DWORD attributes = ::GetFileAttributesW(path.c_str());
  return attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
}

/// A descriptor for a handle, which is its own from then on.
inline int descriptor_of(HANDLE opened, int flags) {
  const int file = ::_open_osfhandle(reinterpret_cast<std::intptr_t>(opened), flags | _O_BINARY | _O_NOINHERIT);
  if (file < 0) ::CloseHandle(opened);
  return file;
}

inline int open(const std::filesystem::path& path, Open how) {
  const bool reads = how <= Open::read_here, appends = how == Open::append || how == Open::append_new;
  const bool is_new = how == Open::create || how == Open::append_new;
  const bool here = how == Open::read_here || how == Open::update_here;
  DWORD access = GENERIC_READ | GENERIC_WRITE, disposition = OPEN_ALWAYS, flags = 0;
  if (reads) access = GENERIC_READ, disposition = OPEN_EXISTING, flags = FILE_FLAG_BACKUP_SEMANTICS;  // folders too
  // Without FILE_WRITE_DATA: whatever is written goes to the end, also beside other writers.
  if (appends) access = FILE_APPEND_DATA | FILE_READ_ATTRIBUTES | SYNCHRONIZE;
  if (is_new) disposition = CREATE_NEW;
  if (here) flags |= FILE_FLAG_OPEN_REPARSE_POINT;
  HANDLE const opened = ::CreateFileW(path.c_str(), access, shared_with_all, nullptr, disposition, flags, nullptr);
  if (opened == INVALID_HANDLE_VALUE) {
    refused();
    if (errno == EACCES && is_folder(path)) errno = EISDIR;
    return -1;
  }
  if (here && is_link(opened)) {
    ::CloseHandle(opened);
    errno = ELOOP;
    return -1;
  }
  return descriptor_of(opened, reads ? _O_RDONLY : appends ? _O_APPEND : 0);
}
inline bool close(int file) { return ::_close(file) == 0; }

/// What is typed, in UTF-8. Ctrl-Z at the beginning of a line ends it, as it does everywhere on Windows.
inline std::ptrdiff_t read_console(HANDLE console, void* to, std::size_t size) {
  std::array<wchar_t, 4096> typed{};
  DWORD n = 0;  // a unit of UTF-16 is at most three bytes of UTF-8
  if (!::ReadConsoleW(console, typed.data(), static_cast<DWORD>(std::min(typed.size(), size / 3)), &n, nullptr)) {
    refused();
    return -1;
  }
  if (n == 0 || typed[0] == L'\x1A') return 0;
  return ::WideCharToMultiByte(CP_UTF8, 0, typed.data(), static_cast<int>(n), static_cast<char*>(to), static_cast<int>(size),
                               nullptr, nullptr);
}
inline std::ptrdiff_t read(int file, void* to, std::size_t size) {
  DWORD n = 0;
  if (::GetConsoleMode(handle(file), &n)) return read_console(handle(file), to, size);
  if (::ReadFile(handle(file), to, static_cast<DWORD>(std::min(size, most_at_once)), &n, nullptr)) return n;
  if (::GetLastError() == ERROR_BROKEN_PIPE) return 0;  // its writer has closed it
  refused();
  return -1;
}
inline std::ptrdiff_t read_at(int file, void* to, std::size_t size, std::size_t offset) {
  OVERLAPPED at{};
  at.Offset = static_cast<DWORD>(offset);
  at.OffsetHigh = static_cast<DWORD>(static_cast<std::uint64_t>(offset) >> 32);
  DWORD n = 0;
  if (::ReadFile(handle(file), to, static_cast<DWORD>(std::min(size, most_at_once)), &n, &at)) return n;
  if (::GetLastError() == ERROR_HANDLE_EOF) return 0;
  refused();
  return -1;
}
inline bool answers(int file) {
  if (::GetFileType(handle(file)) != FILE_TYPE_PIPE) return ::GetFileType(handle(file)) == FILE_TYPE_DISK;  // not a console
  DWORD waiting = 0;
  return !::PeekNamedPipe(handle(file), nullptr, 0, nullptr, &waiting, nullptr) || waiting > 0;
}
inline std::ptrdiff_t write(int file, const void* from, std::size_t size) {
  DWORD n = 0;
  if (::WriteFile(handle(file), from, static_cast<DWORD>(std::min(size, most_at_once)), &n, nullptr)) return n;
  refused();
  return -1;
}
inline bool truncate(int file, std::size_t size) {
  LARGE_INTEGER end;
  end.QuadPart = static_cast<LONGLONG>(size);
  return (::SetFilePointerEx(handle(file), end, nullptr, FILE_BEGIN) && ::SetEndOfFile(handle(file))) || refused();
}
inline bool sync(int file) {
  if (::FlushFileBuffers(handle(file))) return true;
  if (::GetLastError() == ERROR_ACCESS_DENIED) {  // it is open for reading alone
    const Handle writable(::ReOpenFile(handle(file), GENERIC_WRITE, shared_with_all, 0));
    return (writable && ::FlushFileBuffers(writable.get())) || refused();
  }
  return ::GetLastError() == ERROR_INVALID_FUNCTION || refused();  // a device that cannot
}

inline std::optional<Status> described(HANDLE opened) {
  BY_HANDLE_FILE_INFORMATION found{};
  if (::GetFileType(opened) != FILE_TYPE_DISK) return Status{};
  if (!::GetFileInformationByHandle(opened, &found)) {
    refused();
    return std::nullopt;
  }
  const auto wide = [](DWORD high, DWORD low) { return std::uint64_t{high} << 32 | low; };
  const DWORD attributes = found.dwFileAttributes;
  return Status{.kind = is_link(opened)                         ? Kind::other
                        : attributes & FILE_ATTRIBUTE_DIRECTORY ? Kind::folder
                                                                : Kind::file,
                .size = static_cast<std::size_t>(wide(found.nFileSizeHigh, found.nFileSizeLow)),
                .device = found.dwVolumeSerialNumber,
                .number = wide(found.nFileIndexHigh, found.nFileIndexLow)};
}
inline std::optional<Status> described(const std::filesystem::path& path, DWORD flags) {
  const Handle opened(::CreateFileW(path.c_str(), FILE_READ_ATTRIBUTES, shared_with_all, nullptr, OPEN_EXISTING,
                                    FILE_FLAG_BACKUP_SEMANTICS | flags, nullptr));
  if (opened) return described(opened.get());
  refused();
  return std::nullopt;
}
inline std::optional<Status> status(int file) { return described(handle(file)); }
inline std::optional<Status> status(const std::filesystem::path& path) { return described(path, 0); }
inline std::optional<Status> status_here(const std::filesystem::path& path) {
  return described(path, FILE_FLAG_OPEN_REPARSE_POINT);
}
inline bool is_there(const std::filesystem::path& path) {
  return ::GetFileAttributesW(path.c_str()) != INVALID_FILE_ATTRIBUTES || refused();
}
inline bool is_writable(const std::filesystem::path& path) { return ::_waccess(path.c_str(), 2) == 0; }
inline void permit(int, const Status&) {}

/// In place of a file that is open, which is what POSIX does and MoveFileEx does not. Windows 10 and later, on NTFS.
inline bool rename_over(const std::filesystem::path& from, const std::filesystem::path& to) {
  constexpr DWORD replace_if_exists = 1, posix_semantics = 2;  // FILE_RENAME_FLAG_…; source: Microsoft, FILE_RENAME_INFO
  constexpr auto rename_info_ex = static_cast<FILE_INFO_BY_HANDLE_CLASS>(22);  // FileRenameInfoEx
  struct Info {
    DWORD flags;
    HANDLE root;
    DWORD name_bytes;
    wchar_t name[1];
  };
  const Handle opened(::CreateFileW(from.c_str(), DELETE | SYNCHRONIZE, shared_with_all, nullptr, OPEN_EXISTING,
                                    FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT, nullptr));
  if (!opened) return false;
  std::error_code error;
  const std::wstring name = std::filesystem::absolute(to, error).make_preferred().wstring();
  if (error) return false;
  const std::size_t bytes = name.size() * sizeof(wchar_t);
  std::vector<std::uint64_t> memory((offsetof(Info, name) + bytes) / sizeof(std::uint64_t) + 2);
  auto* const info = reinterpret_cast<Info*>(memory.data());
  info->flags = replace_if_exists | posix_semantics;
  info->root = nullptr;
  info->name_bytes = static_cast<DWORD>(bytes);
  std::memcpy(reinterpret_cast<std::byte*>(info) + offsetof(Info, name), name.data(), bytes);
  return ::SetFileInformationByHandle(opened.get(), rename_info_ex, info,
                                      static_cast<DWORD>(offsetof(Info, name) + bytes + sizeof(wchar_t))) != 0;
}
/// Calls again for a second while the file, or one in the folder, is in use: scanners of viruses and indexers open what is new.
template <class Call>
bool patiently(Call call) {
  for (int turn = 0;; ++turn) {
    if (call()) return true;
    const DWORD error = ::GetLastError();
    if ((error != ERROR_ACCESS_DENIED && error != ERROR_SHARING_VIOLATION) || turn == 50) return refused();
    ::Sleep(20);
  }
}
inline bool rename(const std::filesystem::path& from, const std::filesystem::path& to) {
  return patiently([&] {
    return rename_over(from, to) ||
           ::MoveFileExW(from.c_str(), to.c_str(), MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH) != 0;
  });
}
inline bool remove(const std::filesystem::path& path) {
  if (const auto found = status_here(path); found && found->kind == Kind::folder) {
    errno = EISDIR;
    return false;
  }
  return patiently([&] { return ::DeleteFileW(path.c_str()) != 0; });
}
inline bool make_private_folder(const std::filesystem::path& path) {  // as that for temporary ones is, in which it is made
  return ::CreateDirectoryW(path.c_str(), nullptr) || refused();
}
inline bool remove_folder(const std::filesystem::path& path) {
  return patiently([&] { return ::RemoveDirectoryW(path.c_str()) != 0; });
}

/// Folders cannot be synced: NTFS keeps its names in a journal.
inline bool sync_folder(const std::filesystem::path& folder) {
  const auto found = system::status(folder);
  if (found && found->kind != Kind::folder) errno = ENOTDIR;
  return found && found->kind == Kind::folder;
}

/// Folders cannot be locked either. A byte stands for each, of a file among the user's temporary ones: at a place that follows
/// from the folder's own number, which it keeps where it is renamed. So folders are locked among the programs of a user on a
/// machine.
inline int open_folder(const std::filesystem::path& folder) {
  const auto found = system::status(folder);
  if (!found) return -1;
  if (found->kind != Kind::folder) {
    errno = ENOTDIR;
    return -1;
  }
  std::error_code error;
  const auto place = std::filesystem::temp_directory_path(error) / "attend-locks";
  const int file = error ? -1 : open(place, Open::update);
  if (file < 0) return open("NUL", Open::read);  // which cannot be locked: the caller goes on without
  const std::uint64_t mixed = (found->number ^ found->device << 32) * 0x9E3779B97F4A7C15;
  LARGE_INTEGER byte;
  byte.QuadPart = static_cast<LONGLONG>(mixed >> 2 | std::uint64_t{1} << 62);  // beyond the end of every file that is written to
  ::SetFilePointerEx(handle(file), byte, nullptr, FILE_BEGIN);
  return file;
}

/// Locks of Windows keep others from reading and writing what they cover: this one covers a byte that no file has.
inline OVERLAPPED locked_byte(int file) {
  LARGE_INTEGER here{}, zero{};
  constexpr auto first = static_cast<LONGLONG>(std::uint64_t{1} << 62);
  if (!::SetFilePointerEx(handle(file), zero, &here, FILE_CURRENT) || here.QuadPart < first) here.QuadPart = first;
  OVERLAPPED at{};
  at.Offset = here.LowPart;
  at.OffsetHigh = static_cast<DWORD>(here.HighPart);
  return at;
}
inline void unlock(int file) {
  OVERLAPPED at = locked_byte(file);
  ::UnlockFileEx(handle(file), 0, 1, 0, &at);
}
inline bool lock(int file, Lock kind) {
  unlock(file);  // POSIX lets one kind of lock become the other
  OVERLAPPED at = locked_byte(file);
  const DWORD flags = LOCKFILE_FAIL_IMMEDIATELY | (kind == Lock::exclusive ? LOCKFILE_EXCLUSIVE_LOCK : 0);
  return ::LockFileEx(handle(file), flags, 0, 1, 0, &at) || refused();
}

/// A folder whose files are open cannot be renamed, so its owner keeps a file beside it open, which goes with the owner.
inline std::filesystem::path owner_of(std::filesystem::path folder) { return folder += ".owner"; }
inline int make_own_folder(const std::filesystem::path& folder) {
  HANDLE const opened = ::CreateFileW(owner_of(folder).c_str(), GENERIC_READ | GENERIC_WRITE | DELETE, 0, nullptr, CREATE_NEW,
                                      FILE_FLAG_DELETE_ON_CLOSE, nullptr);
  if (opened == INVALID_HANDLE_VALUE) {
    refused();
    if (errno == EBUSY) errno = EEXIST;
    return -1;
  }
  if (!::CreateDirectoryW(folder.c_str(), nullptr)) {
    refused();
    ::CloseHandle(opened);
    return -1;
  }
  return descriptor_of(opened, 0);
}
inline bool is_left_behind(const std::filesystem::path& folder) {
  const auto found = status_here(folder);
  return found && found->kind == Kind::folder && !is_there(owner_of(folder));
}

inline void* map(int file, std::size_t offset, std::size_t size) {
  HANDLE const mapping = ::CreateFileMappingW(handle(file), nullptr, PAGE_READONLY, 0, 0, nullptr);
  if (mapping == nullptr) {
    refused();
    return nullptr;
  }
  const auto from = static_cast<std::uint64_t>(offset);
  void* const at = ::MapViewOfFile(mapping, FILE_MAP_READ, static_cast<DWORD>(from >> 32), static_cast<DWORD>(from), size);
  if (at == nullptr) refused();
  ::CloseHandle(mapping);  // the view keeps it
  return at;
}
/// Windows does not let a file be replaced that is mapped, and a model may be saved to where it was loaded from.
inline void* map_privately(int, std::size_t, std::size_t) {
  errno = ENOTSUP;
  return nullptr;
}
inline void unmap(void* pages, std::size_t) { ::UnmapViewOfFile(pages); }
inline std::size_t mapping_unit() {
  SYSTEM_INFO info{};
  ::GetSystemInfo(&info);
  return info.dwAllocationGranularity;
}
inline bool is_remote(int) { return false; }

inline long process() { return static_cast<long>(::GetCurrentProcessId()); }
inline std::string host() {
  std::array<wchar_t, MAX_COMPUTERNAME_LENGTH + 1> name{};
  auto size = static_cast<DWORD>(name.size());
  if (!::GetComputerNameW(name.data(), &size)) return "";
  const std::u8string text = std::filesystem::path(name.data()).u8string();
  return {text.begin(), text.end()};
}

}  // namespace attend::detail::system

#endif
