#pragma once

#include <cstddef>
#include <vector>

#include "attend/core/tensor.hpp"
#include "attend/cpu/basic.hpp"

namespace attend::train {

/// Adds up tensors as they come, always two sums of equally many of them: of eight ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7)), so
/// that ranks that have some of them each come to the same bits by `Communicator::sum`.
template <class T, Device D>
class PairwiseSum {
 public:
  /// Takes number `k` of `count`, a power of two, in their order. It works in x, which after the last is the
  /// sum of all. Keeps three tensors for eight.
  void add(index_t k, index_t count, const Tensor<T, D>& x) {
    if (k + 1 == count) return finish(k, x, 0, x.size());
    std::size_t level = 0;
    for (; (k >> level) & 1; ++level) add_into(D{}, x.size(), sums_[level].data(), x.data());
    if (level == sums_.size()) sums_.emplace_back(x.shape());
    sums_[level].assign(x);
  }
  /// Takes a part of the last of them, `size` elements from `begin` on; the other parts may come later.
  void finish(index_t k, const Tensor<T, D>& x, index_t begin, index_t size) {
    for (std::size_t level = 0; (k >> level) & 1; ++level) add_into(D{}, size, sums_[level].data() + begin, x.data() + begin);
  }

 private:
  std::vector<Tensor<T, D>> sums_;  // of 1, 2, 4, ... tensors
};

}  // namespace attend::train
