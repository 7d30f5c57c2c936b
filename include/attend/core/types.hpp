#pragma once

#if (defined(_MSVC_LANG) ? _MSVC_LANG : __cplusplus) < 202002L
#error "attend needs C++20: compile with -std=c++20, or let CMake do it by linking attend::core or attend::attend"
#endif  // here too, because most headers that are included by themselves come to this one first

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "attend/core/bfloat16.hpp"

namespace attend {

/// Sizes and positions. Signed, so that differences and reverse loops are safe.
using index_t = std::int64_t;

/// list[i]. Containers of the standard library count without a sign.
template <class List>
[[nodiscard]] constexpr decltype(auto) nth(List&& list, index_t i) {
  return list[static_cast<std::size_t>(i)];
}
/// How many elements a list has.
template <class List>
[[nodiscard]] constexpr index_t count_of(const List& list) {
  return static_cast<index_t>(list.size());
}

namespace detail {
/// Whether a type is a std::vector.
template <class X>
inline constexpr bool is_vector = false;
/// A std::vector is one.
template <class X>
inline constexpr bool is_vector<std::vector<X>> = true;
}  // namespace detail

/// Token ids and class labels.
using token_t = std::int32_t;

/// What works on plain memory: functions overloaded on the tag of the device that they run on, and found through its namespace.
/// `using namespace attend` opens none of them.
namespace kernels {

/// The processor.
struct Cpu {};

/// An NVIDIA GPU. Only the tag stands here; its kernels come with `attend/cuda.hpp`.
struct Cuda {};

}  // namespace kernels
using kernels::Cpu;
using kernels::Cuda;

/// A place where tensors live and kernels run.
template <class D>
concept Device = std::same_as<D, Cpu> || std::same_as<D, Cuda>;

/// A number type that networks compute with; bfloat16 on a GPU alone.
template <class T>
concept Scalar = std::floating_point<T> || std::same_as<T, bfloat16>;

}  // namespace attend
