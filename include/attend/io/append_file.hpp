#pragma once

#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "attend/io/file.hpp"

namespace attend::io {

/// A file that grows at its end and that others may read meanwhile: each `write` reaches the system at once.
class AppendFile {
 public:
  /// What is to become of a file that is there.
  enum class Kind {
    existing,  ///< appends to a file, or begins one
    fresh,     ///< refuses a file that is there already
  };
  /// Makes missing folders. Throws IoError.
  explicit AppendFile(std::filesystem::path path, Kind kind = Kind::existing) : path_(std::move(path)) {
    std::error_code error;
    std::filesystem::create_directories(detail::folder_of(path_), error);
    if (error) detail::throw_errno("write", path_, error.value());
    using detail::system::Open;
    fd_ = detail::Descriptor(detail::system::open(path_, kind == Kind::fresh ? Open::append_new : Open::append));
    if (!fd_) detail::throw_errno("write", path_);
  }

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Throws IoError, such as for a full disk; a part of `bytes` may then stand at the end of the file.
  void write(std::string_view bytes) { FileSink(fd_.get(), path_).write(bytes); }

 private:
  std::filesystem::path path_;
  detail::Descriptor fd_;
};

}  // namespace attend::io
