#pragma once

#include <filesystem>
#include <fstream>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

/// A new folder for a test's files, removed with all that is in it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::random_device random;
    do path_ = std::filesystem::temp_directory_path() / ("attend-" + std::to_string(random()));
    while (!std::filesystem::create_directory(path_));  // throws if none can be made
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

  /// Writes a file and returns its path.
  std::filesystem::path write(const std::string& name, std::string_view contents) const {
    std::ofstream file(path_ / name, std::ios::binary);
    if (!(file << contents).flush()) throw std::runtime_error("cannot write " + (path_ / name).string());
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};
