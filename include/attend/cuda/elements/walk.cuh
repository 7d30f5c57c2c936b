#pragma once

#include <cstddef>

#include "attend/core/broadcast.hpp"
#include "attend/core/types.hpp"
#include "attend/cuda/device/device.cuh"

namespace attend::cuda {

/// Where an element of y stands, and what of a and b goes with it: counted in elements.
struct Place {
  index_t y = 0, a = 0, b = 0;
};
/// Both steps taken.
__device__ inline Place operator+(const Place& p, const Place& q) { return {p.y + q.y, p.a + q.a, p.b + q.b}; }

/// Some dimensions to walk through, outermost first, as a kernel takes them.
struct Walk {
  int rank = 0;
  index_t count = 1;  ///< the product of the sizes
  index_t size[Shape::max_rank] = {};
  Place step[Shape::max_rank] = {};

  /// Adds an innermost dimension.
  void append(index_t n, const Place& p) { size[rank] = n, step[rank++] = p, count *= n; }

  /// Where element i stands.
  __device__ Place at(index_t i) const {
    Place p;
    for (int d = rank - 1; d > 0; --d) {
      const index_t rest = i / size[d];
      p = p + times(i - rest * size[d], step[d]);
      i = rest;
    }
    return p + times(i, step[0]);
  }
  /// The same if there is at most one dimension, without a division.
  __device__ Place at_linear(index_t i) const { return times(i, step[0]); }

 private:
  __device__ static Place times(index_t i, const Place& p) { return {i * p.y, i * p.a, i * p.b}; }
};

/// All dimensions of `s`.
inline Walk walk_of(const Strides& s) {
  Walk walk;
  index_t y = s.count();
  for (index_t i = 0; i < s.rank; ++i) {
    const auto d = static_cast<std::size_t>(i);
    y = s.size[d] == 0 ? 0 : y / s.size[d];
    walk.append(s.size[d], {y, s.a[d], s.b[d]});
  }
  return walk;
}

/// True if the steps of y, and those of a and b if `a` and `b` say so, are whole packs of `count` elements in the outermost
/// `dimensions`.
inline bool whole_packs(const Walk& walk, int dimensions, index_t count, bool a, bool b) {
  for (int d = 0; d < dimensions; ++d) {
    const Place& p = walk.step[d];
    if (p.y % count != 0 || (a && p.a % count != 0) || (b && p.b % count != 0)) return false;
  }
  return true;
}

}  // namespace attend::cuda
