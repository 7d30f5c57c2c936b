#pragma once

#include "attend/core/types.hpp"

namespace attend::kernels {

/// So many numbers' squares are summed up by themselves, from the first on; then these sums are. Whoever has all of such a part
/// can sum it, and the whole has the same bits.
inline constexpr index_t square_part = 16384;
/// How many parts n numbers have.
constexpr index_t square_parts(index_t n) { return (n + square_part - 1) / square_part; }

}  // namespace attend::kernels
