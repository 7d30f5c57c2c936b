#if !defined(ATTEND_CPU_SAMPLE) || defined(ATTEND_READING)
#ifndef ATTEND_READING
#define ATTEND_CPU_SAMPLE

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "attend/core/shape.hpp"
#include "attend/cpu/targets.hpp"
#include "attend/cpu/top_k.hpp"
#include "attend/cpu/vector.hpp"
#include "attend/kernels/matrix.hpp"
#include "attend/kernels/sample.hpp"

#endif  // ATTEND_READING

namespace attend::ATTEND_CPU {

/// The distribution that tokens are drawn from, made from one row of log-probabilities; then any number of draws from it.
template <class T>
class Sampler {
 public:
  Sampler(index_t width, const kernels::SampledTokens& from)
      : width_(width),
        sharpness_(static_cast<T>(std::clamp(1 / from.temperature, 1e-30, 1e30))),  // 0 * infinity is NaN
        kept_(from.top_k > 0 ? std::min(from.top_k, width) : width),
        top_p_(from.top_p),
        margin_(attend::detail::min_p_margin(from.min_p, sharpness_)) {}

  /// Throws Error if the row holds a NaN, ValueError if it holds infinity.
  void prepare(index_t row, const T* x) {
    x_ = x;
    token_t first;
    top_k_row(row, width_, 1, x, &largest_, &first);
    check_value(largest_ < std::numeric_limits<T>::infinity(), "sample", "row ", row, " has infinity at column ", first,
                ", expected log-probabilities");
    if (kept_ == width_ && top_p_ >= 1 && std::isinf(margin_)) return prepare_all();
    const T lowest = largest_ + margin_;  // the lowest that min_p keeps
    // The mass that top_p is a share of: that of all tokens, or of the k most probable ones.
    const bool k_only = kept_ < width_;
    double mass = std::numeric_limits<double>::infinity();
    if (!k_only && top_p_ < 1) mass = sum_over<double>(width_, [&](index_t i) { return weight(x_[i]); });
    // Few tokens hold most of the mass; if they do not, the list is made anew and longer.
    for (index_t k = k_only ? kept_ : std::min<index_t>(64, width_);; k = std::min(8 * k, width_)) {
      list(row, k);
      if (k_only) mass = cumulative_.back();
      const auto end = std::lower_bound(cumulative_.begin(), cumulative_.end(), top_p_ * mass);
      const auto low = std::partition_point(values_.begin(), values_.end(), [=](T v) { return v >= lowest; });
      if (end == cumulative_.end() && low == values_.end() && k < kept_) continue;
      const auto listed = static_cast<std::size_t>(low - values_.begin());
      if (end != cumulative_.end()) cumulative_.erase(end + 1, cumulative_.end());
      if (listed < cumulative_.size()) cumulative_.resize(listed);
      return;
    }
  }

  /// The token that `uniform`, in [0, 1), falls on; -1 if no token has any probability.
  [[nodiscard]] token_t draw(double uniform) const {
    if (largest_ == -std::numeric_limits<T>::infinity()) return -1;
    const double target = uniform * cumulative_.back();
    auto at = std::upper_bound(cumulative_.begin(), cumulative_.end(), target) - cumulative_.begin();
    // A product that was rounded up may reach the end: then the last place that adds anything is meant.
    if (at == static_cast<std::ptrdiff_t>(cumulative_.size()))
      at = std::lower_bound(cumulative_.begin(), cumulative_.end(), cumulative_.back()) - cumulative_.begin();
    if (!all_) return nth(tokens_, at);
    const index_t begin = at * block, end = std::min(begin + block, width_);
    double sum = at > 0 ? nth(cumulative_, at - 1) : 0;
    index_t last = begin;
    for (index_t i = begin; i < end; ++i) {
      const double w = weight(x_[i]);
      if (w <= 0) continue;
      sum += w, last = i;
      if (sum > target) break;
    }
    return static_cast<token_t>(last);
  }

 private:
  static constexpr index_t block = 256;

  [[nodiscard]] double weight(T x) const { return static_cast<double>(cpu::exp_to_88((x - largest_) * sharpness_)); }

  /// For draws among all tokens: the running sum at the end of each block of them.
  void prepare_all() {
    all_ = true;
    cumulative_.clear();
    double sum = 0;
    for (index_t begin = 0; begin < width_; begin += block) {
      const T* x = x_ + begin;
      sum += sum_over<double>(std::min(block, width_ - begin), [&](index_t i) { return weight(x[i]); });
      cumulative_.push_back(sum);
    }
  }
  /// For draws among few: the k most probable tokens and their running sum.
  void list(index_t row, index_t k) {
    all_ = false;
    values_.resize(k);
    tokens_.resize(values_.size());
    top_k_row(row, width_, k, x_, values_.data(), tokens_.data());
    cumulative_.clear();
    double sum = 0;
    for (const T v : values_) cumulative_.push_back(sum += weight(v));
  }

  index_t width_;
  T sharpness_;
  index_t kept_;
  double top_p_;
  T margin_;  // of min_p
  const T* x_ = nullptr;
  T largest_ = 0;
  bool all_ = false;
  std::vector<T> values_;
  std::vector<token_t> tokens_;
  std::vector<double> cumulative_;
};

}  // namespace attend::ATTEND_CPU

namespace attend::kernels {

/// Draws indices[d] from the draw's row of the log-probabilities x, for each draw d, and gives values[d] = x at it. indices[d] is
/// -1 if all of the row is minus infinity. x is not transposed. Throws Error if a row holds a NaN, ValueError if it holds
/// infinity.
template <class T>
void sample_rows(Cpu, const SampledTokens& from, const Draws& draws, ConstMatrix<T> x, T* values, token_t* indices) {
  ATTEND_FASTEST(sample_rows, from, draws, x, values, indices);
  parallel_rows(draws.count, x.columns, [=](index_t begin, index_t end) {
    cpu::Sampler<T> sampler(x.columns, from);
    const index_t* const rows = draws.rows;
    for (index_t d = begin; d < end; ++d) {
      const T* row = x.data + rows[d] * x.stride;
      if (d == begin || rows[d] != rows[d - 1]) sampler.prepare(rows[d], row);
      indices[d] = sampler.draw(draws.uniforms[d]);
      values[d] = indices[d] < 0 ? -std::numeric_limits<T>::infinity() : row[indices[d]];
    }
  });
}

}  // namespace attend::kernels

#define ATTEND_READ_AGAIN "attend/cpu/sample.hpp"
#include "attend/cpu/each_target.hpp"
#endif
