#pragma once

#include <cstddef>
#include <new>

#include "attend/core/types.hpp"
#include "attend/cpu/targets.hpp"

namespace attend::ATTEND_CPU {

/// Memory for a thread, aligned for vectors. It is kept from one use to the next; its contents are not.
class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { release(); }

  /// Room for `count` numbers, until the next call.
  template <class T>
  T* get(index_t count) {
    const std::size_t bytes = count * sizeof(T);
    if (bytes > size_) {
      release();
      data_ = ::operator new (bytes, std::align_val_t{64});
      size_ = bytes;
    }
    return static_cast<T*>(data_);
  }

 private:
  void release() {
    if (data_) ::operator delete (data_, std::align_val_t{64});
    data_ = nullptr, size_ = 0;
  }
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace attend::ATTEND_CPU
