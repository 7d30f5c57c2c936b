#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "attend/core/weights_version.hpp"
#include "attend/kernels/squares.hpp"
#include "attend/optim/parameters.hpp"
#include "attend/train/communicator.hpp"

namespace attend::train {

/// What ranks whose optimizers have a share each (`FlatParameters::share_out`) ask of each other in an update, besides the sums
/// of their shares' gradients: the norm of all gradients before it, with the bits that one rank comes to which has them all, and
/// the weights after it.
template <class T, Device D>
class SharedUpdate {
 public:
  using Range = Communicator::Range;
  using Shares = Communicator::Shares;

  /// Of a rank whose `parameters` are shared out among `ranks`.
  SharedUpdate(Communicator& ranks, const optim::FlatParameters<T, D>& parameters) : ranks_(ranks), parameters_(parameters) {
    for (const auto& pieces : parameters.shares(ranks.size())) {
      shares_.emplace_back();
      for (const auto& piece : pieces) shares_.back().push_back({piece.begin, piece.size});
    }
    find_parts();
    for (index_t begin = 0; begin < parameters.size(); begin += window)
      windows_.push_back({{begin, std::min(window, parameters.size() - begin)}, {}});
    for (auto& [range, shares] : windows_) shares = within(range.begin, range.size);
  }

  /// The shares of those elements, counted from `begin` on.
  [[nodiscard]] Shares within(index_t begin, index_t size) const { return within(shares_, begin, size); }

  /// [1]: the sum of the squares of all gradients, of which each rank has its share. Leaves those of other ranks as they are, but
  /// for some that it is told.
  [[nodiscard]] Tensor<double, D> squares() const {
    const auto& gradients = parameters_.gradients();
    ranks_.gather_shares(gradients, divided_);
    const Tensor<double, D> sums({kernels::square_parts(gradients.size())}), sum({1});
    for (const auto& [first, count] : runs_) {
      const index_t begin = first * kernels::square_part;
      squares_of_parts(D{}, std::min(count * kernels::square_part, gradients.size() - begin), gradients.data() + begin,
                       sums.data() + first);
    }
    ranks_.gather_shares(sums, parts_);
    sum_of_parts(D{}, gradients.size(), sums.data(), sum.data());
    return sum;
  }
  /// Brings the weights that the other ranks have moved.
  void gather_weights() const {
    for (const auto& [range, shares] : windows_) ranks_.gather_shares(parameters_.values().rows(range.begin, range.size), shares);
    weights_changed();
  }

 private:
  /// Elements that travel at a time, so that they need little room.
  static constexpr index_t window = index_t{1} << 23;
  struct Window {
    Range range;
    Shares shares;
  };

  static Shares within(const Shares& shares, index_t begin, index_t size) {
    Shares all;
    for (const auto& share : shares) {
      all.emplace_back();
      for (const Range& range : share) {
        const index_t first = std::max(begin, range.begin), last = std::min(begin + size, range.begin + range.size);
        if (first < last) all.back().push_back({first - begin, last - first});
      }
    }
    return all;
  }

  /// Sorts the parts of the sum of squares: which rank has all of one, and which lie in the shares of several. What belongs to
  /// nobody, the gaps between parameters, is 0 everywhere.
  void find_parts() {
    const index_t count = kernels::square_parts(parameters_.size());
    constexpr index_t none = -1, several = -2;
    std::vector<index_t> owners(static_cast<std::size_t>(count), none);
    for (index_t rank = 0; rank < ranks_.size(); ++rank)
      for (const auto& [begin, size] : nth(shares_, rank))
        for (index_t part = begin / kernels::square_part; part * kernels::square_part < begin + size; ++part) {
          index_t& owner = nth(owners, part);
          owner = owner == none || owner == rank ? rank : several;
        }
    parts_.resize(static_cast<std::size_t>(ranks_.size()));
    divided_.resize(static_cast<std::size_t>(ranks_.size()));
    for (index_t part = 0; part < count; ++part) {
      const index_t owner = nth(owners, part), begin = part * kernels::square_part;
      if (owner >= 0) append(nth(parts_, owner), {part, 1});
      if (owner < 0 || owner == ranks_.rank()) append(runs_, {part, 1});
      if (owner != several) continue;
      const auto theirs = within(begin, std::min(kernels::square_part, parameters_.size() - begin));
      for (index_t rank = 0; rank < ranks_.size(); ++rank)
        for (const auto& [first, size] : nth(theirs, rank)) append(nth(divided_, rank), {begin + first, size});
    }
  }
  static void append(std::vector<Range>& ranges, Range range) {
    if (!ranges.empty() && ranges.back().begin + ranges.back().size == range.begin) ranges.back().size += range.size;
    else ranges.push_back(range);
  }

  Communicator& ranks_;
  const optim::FlatParameters<T, D> parameters_;
  Shares shares_;
  Shares divided_;           // elements of the parts that several ranks have some of
  Shares parts_;             // parts of which a rank has all
  std::vector<Range> runs_;  // parts that this rank sums up
  std::vector<Window> windows_;
};

}  // namespace attend::train
