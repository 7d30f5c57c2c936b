#pragma once

#include <utility>

namespace attend::detail {

/// A setting of this thread, of which there is one for each type `Setting`: while an object is in scope it has the object's
/// value, and afterwards the one before; `otherwise` while there is none.
template <class Setting, class T, T otherwise>
class ThreadSetting {
 public:
  explicit ThreadSetting(T value) : before_(std::exchange(here(), value)) {}
  ~ThreadSetting() { here() = before_; }
  ThreadSetting(const ThreadSetting&) = delete;
  ThreadSetting& operator=(const ThreadSetting&) = delete;

  /// What holds for this thread.
  static T current() { return here(); }

 private:
  static T& here() {
    thread_local T value = otherwise;
    return value;
  }
  T before_;
};

}  // namespace attend::detail
