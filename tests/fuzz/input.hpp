#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "attend/core/error.hpp"
#include "attend/core/types.hpp"
#include "targets.hpp"
#include "temporary_folder.hpp"

/// What the targets share: taking input apart, files to read, and what counts as an answer.
namespace fuzz {

inline std::string_view text_of(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

/// Takes numbers off the front of an input; 0 if it has ended.
class Input {
 public:
  explicit Input(Bytes bytes) : rest_(bytes) {}

  std::uint8_t byte() {
    if (rest_.empty()) return 0;
    const std::uint8_t value = rest_.front();
    rest_ = rest_.subspan(1);
    return value;
  }
  /// From `least` to `most`, by two bytes.
  attend::index_t number(attend::index_t least, attend::index_t most) {
    const attend::index_t low = byte(), high = byte();
    return least + (high << 8 | low) % (most - least + 1);
  }
  [[nodiscard]] Bytes rest() const { return rest_; }

 private:
  Bytes rest_;
};

/// Throws what no target lets pass.
inline void expect(bool holds, std::string_view promise) {
  if (!holds) throw std::logic_error("a promise is broken: " + std::string(promise));
}

/// Messages quote what a file holds, and are shown on terminals and written to logs: one line, without control characters, and
/// not as long as the file may be.
inline void check_message(std::string_view message) {
  constexpr std::size_t longest = 1 << 14;
  expect(!message.empty() && message.size() <= longest, "a message has some bytes, and not too many");
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; };
  expect(std::none_of(message.begin(), message.end(), is_control), "a message has no control characters");
}

/// Whether `read` went well; false if it threw one of the exceptions that it documents. Others go on to whoever runs the
/// target, and so does MemoryError: nothing that is read here needs more memory than there is.
template <class... Documented, class F>
bool answers(F&& read) {
  try {
    std::forward<F>(read)();
    return true;
  } catch (const attend::MemoryError&) {
    throw;
  } catch (const attend::Error& error) {
    if (!(false || ... || (dynamic_cast<const Documented*>(&error) != nullptr))) throw;
    check_message(error.what());
    return false;
  }
}

/// The folder of this process's files, gone with it.
inline const TemporaryFolder& scratch() {
  static const TemporaryFolder folder;
  return folder;
}

/// Writes a file; plainly, since waiting for the disk each time would take longer than all else.
inline std::filesystem::path put(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (!out) throw attend::IoError("fuzz: cannot write " + path.string());
  return path;
}
inline std::filesystem::path put(const std::filesystem::path& path, Bytes bytes) { return put(path, text_of(bytes)); }

}  // namespace fuzz
