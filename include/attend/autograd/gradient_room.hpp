#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "attend/core/shape.hpp"
#include "attend/core/tensor.hpp"

namespace attend {

namespace detail {

/// Bytes in whose place a thread writes to others.
struct MovedBytes {
  std::uintptr_t begin = 0;
  std::size_t size = 0;
  std::byte* to = nullptr;
};
/// Those of this thread.
inline MovedBytes& moved_gradients() {
  thread_local MovedBytes moved;
  return moved;
}

/// Where this thread gathers the gradient that lives at `at`.
template <class T>
T* gradient_place(T* at) {
  const MovedBytes& moved = moved_gradients();
  const std::uintptr_t offset = reinterpret_cast<std::uintptr_t>(at) - moved.begin;  // huge for what lies before
  return offset < moved.size ? reinterpret_cast<T*>(moved.to + offset) : at;
}

}  // namespace detail

/// While one is in scope, backward passes of this thread gather in `room` the gradients that live in `shared` (see
/// `Var::set_grad_buffer`), each at the same place. So threads compute gradients of the same parameters at the same time, each in
/// a room of its own. What is there is added to, as in `shared`. Throws ShapeError unless the two have one shape.
template <class T, Device D>
class GradientRoom {
 public:
  GradientRoom(const Tensor<T, D>& shared, const Tensor<T, D>& room) : shared_(shared), room_(room) {
    check_shape("GradientRoom", "room", room.shape(), shared.shape());
    before_ =
        std::exchange(detail::moved_gradients(), detail::MovedBytes{.begin = reinterpret_cast<std::uintptr_t>(shared.data()),
                                                                    .size = static_cast<std::size_t>(shared.size()) * sizeof(T),
                                                                    .to = reinterpret_cast<std::byte*>(room.data())});
  }
  ~GradientRoom() { detail::moved_gradients() = before_; }
  GradientRoom(const GradientRoom&) = delete;
  GradientRoom& operator=(const GradientRoom&) = delete;

 private:
  Tensor<T, D> shared_, room_;  // kept while they are written to
  detail::MovedBytes before_;
};

}  // namespace attend
