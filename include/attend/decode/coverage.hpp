#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "attend/decode/model.hpp"

namespace attend::decode::detail {

/// How much of their sources the rows of a beam search have attended to, kept on the host: GNMT's coverage penalty,
/// strength * sum_j log(min(sum_i p_ij, 1)). A word that nothing attends to counts as the smallest positive number.
class Coverage {
 public:
  explicit Coverage(double strength) : strength_(strength) {}
  [[nodiscard]] bool counts() const { return strength_ != 0; }

  /// Takes in how each row attended in the step that was just done.
  template <AttendingModel M>
  void read(M& model, typename M::State& state) {
    const std::vector<index_t> lengths = model.source_lengths(state);
    const auto attention = model.attention(state).to_host();  // [rows, longest]
    check_shape("beam_search", "the model's attention", attention.shape(),
                {count_of(lengths), attention.rank() == 2 ? attention.dim(1) : 0});
    with_step_.resize(lengths.size());
    before_.resize(lengths.size());  // grows only in the first step
    for (std::size_t r = 0; r < lengths.size(); ++r) {
      const auto* const row = attention.data() + static_cast<index_t>(r) * attention.dim(1);
      before_[r].resize(std::min(lengths[r], attention.dim(1)));
      with_step_[r] = before_[r];
      for (std::size_t j = 0; j < with_step_[r].size(); ++j) with_step_[r][j] += static_cast<double>(row[j]);
    }
  }
  /// Row i continues what was row rows[i], by a token.
  void follow(std::span<const index_t> rows) {
    before_.clear();
    for (const index_t r : rows) before_.push_back(nth(with_step_, r));
  }

  /// What the score of a row gains, 0 or less, if it ends by a token of this step.
  [[nodiscard]] double penalty(index_t row) const { return counts() ? sum(nth(with_step_, row)) : 0; }
  /// The same for its tokens before this step.
  [[nodiscard]] double penalty_before(index_t row) const { return counts() ? sum(nth(before_, row)) : 0; }

 private:
  [[nodiscard]] double sum(const std::vector<double>& covered) const {
    double sum = 0;
    for (const double c : covered) sum += std::log(std::clamp(c, std::numeric_limits<double>::min(), 1.0));
    return strength_ * sum;
  }

  double strength_;
  std::vector<std::vector<double>> before_, with_step_;  // of each row: by source word
};

}  // namespace attend::decode::detail
