#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

/// Real text that the repository does not carry: in the folder that ATTEND_DATA_DIR names, else beside the source tree.
inline std::filesystem::path shared_data(const std::string& name) {
  const char* folder = std::getenv("ATTEND_DATA_DIR");
#ifdef ATTEND_DATA_DEFAULT_DIR
  if (folder == nullptr) folder = ATTEND_DATA_DEFAULT_DIR;
#endif
  return std::filesystem::path(folder == nullptr ? "../shared/data" : folder) / name;
}

/// Leaves the test, with a message, if the file is absent.
#define ATTEND_SKIP_WITHOUT(path)                     \
  if (!std::filesystem::exists(path)) {               \
    WARN("skipped: there is no " << (path).string()); \
    return;                                           \
  }
