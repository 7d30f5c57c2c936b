#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#if defined(__linux__)
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace attend::detail {

/// What the system knows of the pages of MappedMemory, without looking at them: that would read them from the file again. Each is
/// the file's until this program writes to it, and from then on a copy of its own. Source: Linux's documentation of
/// /proc/PID/pagemap.
class PageTable {
 public:
  PageTable() = default;
  PageTable(const PageTable&) = delete;
  PageTable& operator=(const PageTable&) = delete;

#if defined(__linux__)
  ~PageTable() {
    if (file_ >= 0) ::close(file_);
  }

  /// Whether any page of these bytes was written to since the file was mapped. Nothing where the system does not say.
  [[nodiscard]] std::optional<bool> written(const void* data, std::size_t bytes) {
    const auto found = look(data, bytes);
    return found ? std::optional(found->written) : std::nullopt;
  }

  /// Lets the system have the pages that hold nothing but these bytes again, if all of them are the file's; true if it did. What
  /// is looked at later is read anew. Nobody may write to them meanwhile. To be called when the bytes have been looked at, so
  /// that a table that knows of none of their pages is not believed.
  bool release(const void* data, std::size_t bytes) {
    const auto begin = reinterpret_cast<std::uintptr_t>(data);
    const std::uintptr_t first = (begin + page_size() - 1) / page_size(), last = (begin + bytes) / page_size();
    if (first >= last) return false;
    const auto found = look(data, bytes);
    if (!found || found->written || !found->present) return false;  // MADV_DONTNEED would put back the file's numbers
    return ::madvise(reinterpret_cast<void*>(first * page_size()), (last - first) * page_size(), MADV_DONTNEED) == 0;
  }

 private:
  struct Found {
    bool written = false, present = false;  // any page
  };
  static std::size_t page_size() {
    static const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    return size;
  }
  std::optional<Found> look(const void* data, std::size_t bytes) {
    const auto begin = reinterpret_cast<std::uintptr_t>(data);
    const std::uintptr_t first = begin / page_size(), last = (begin + bytes + page_size() - 1) / page_size();
    Found found;
    if (file_ < 0) file_ = ::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (file_ < 0) return std::nullopt;
    constexpr std::uint64_t present = std::uint64_t{1} << 63, swapped = std::uint64_t{1} << 62, of_file = std::uint64_t{1} << 61;
    std::array<std::uint64_t, 512> entries{};
    for (std::uintptr_t page = first; page < last;) {
      const std::size_t count = std::min<std::size_t>(entries.size(), last - page), size = count * sizeof entries[0];
      if (::pread(file_, entries.data(), size, static_cast<off_t>(page * sizeof entries[0])) != static_cast<ssize_t>(size))
        return std::nullopt;
      for (std::size_t i = 0; i < count; ++i) {
        found.written = found.written || ((entries[i] & (present | swapped)) != 0 && (entries[i] & of_file) == 0);
        found.present = found.present || (entries[i] & present) != 0;
      }
      page += count;
    }
    return found;
  }

  int file_ = -1;  // of this process: a child that it forks opens another
#else
  [[nodiscard]] std::optional<bool> written(const void*, std::size_t) { return std::nullopt; }
  bool release(const void*, std::size_t) { return false; }
#endif
};

}  // namespace attend::detail
