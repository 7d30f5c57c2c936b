#pragma once

#include "attend/core/windows.hpp"

/// `ATTEND_THREAD_OWNED(Type, name);` in a function: an object of that type for each thread, which lives from one call to the
/// next: `thread_local Type name;`. But GCC for Windows frees the memory of what is `thread_local` before it destroys it. There
/// the objects are in memory of their own, which Windows has destroyed when the thread ends.

#if defined(_WIN32) && defined(__GNUC__) && !defined(__clang__)

#include <atomic>
#include <cstddef>
#include <memory>
#include <new>
#include <vector>

namespace attend::detail {

/// What a thread owns, by the numbers of `thread_owned`.
class ThreadOwned {
 public:
  static ThreadOwned& of_this_thread() {
    static const DWORD slot = ::FlsAlloc(&destroy);  // fibre-local storage, which calls `destroy`
    if (slot == FLS_OUT_OF_INDEXES) throw std::bad_alloc();
    auto* own = static_cast<ThreadOwned*>(::FlsGetValue(slot));
    if (own == nullptr) {
      own = new ThreadOwned;
      ::FlsSetValue(slot, own);
    }
    return *own;
  }
  static std::size_t next_number() {
    static std::atomic<std::size_t> next{0};
    return next++;
  }
  template <class T>
  T& at(std::size_t number) {
    if (number >= objects_.size()) objects_.resize(number + 1);
    if (!objects_[number]) objects_[number] = std::make_shared<T>();
    return *static_cast<T*>(objects_[number].get());
  }

 private:
  static void WINAPI destroy(void* own) { delete static_cast<ThreadOwned*>(own); }

  std::vector<std::shared_ptr<void>> objects_;
};

/// The object of this thread, of which there is one for each `Tag`.
template <class T, class Tag>
T& thread_owned() {
  static const std::size_t number = ThreadOwned::next_number();
  return ThreadOwned::of_this_thread().at<T>(number);
}

}  // namespace attend::detail

#define ATTEND_THREAD_OWNED(Type, name) \
  struct name##_tag;                    \
  Type& name = ::attend::detail::thread_owned<Type, name##_tag>()

#else

#define ATTEND_THREAD_OWNED(Type, name) thread_local Type name

#endif
