#pragma once

#if !defined(_WIN32)
#include <sys/resource.h>

#include <csignal>

/// While it lives, no file of this process can grow beyond that many bytes: writing fails in the middle, as on a full disk.
/// Windows has nothing like it.
class LimitedFileSize {
 public:
  explicit LimitedFileSize(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  LimitedFileSize(const LimitedFileSize&) = delete;
  LimitedFileSize& operator=(const LimitedFileSize&) = delete;
  ~LimitedFileSize() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  void (*handler_)(int);
  rlimit before_{};
};

#endif
