#pragma once

#include <algorithm>
#include <vector>

#include "attend/cuda/device/memory.cuh"
#include "attend/cuda/search/selection.cuh"
#include "attend/kernels/matrix.hpp"
#include "attend/kernels/sample.hpp"

namespace attend::cuda {

/// The weight of a token of log-probability x, relative to the most probable one.
template <class W>
struct TokenWeight {
  W largest, sharpness;
  __device__ W operator()(W x) const { return exp((x - largest) * sharpness); }
};

/// The tokens that are kept: those above a value, and the first `ties` of those that have it.
template <class W>
struct Kept {
  Order<W> order;
  double ties, mass;  ///< mass: of all of them
};

/// How many of equal tokens, `ties` of weight w, are needed to bring the mass from `above` to `goal`: at least 1.
__device__ inline double ties_to(double goal, double above, double w, double ties) {
  const double count = w > 0 ? ::ceil((goal - above) / w) : 1;
  return count < 1 ? 1 : count > ties ? ties : count;
}

/// What is kept of the distribution of one row.
template <class T>
__device__ Kept<Wide<T>> kept_tokens(const ReadRow<T, wide_row_threads>& row, const TokenWeight<Wide<T>>& weight, int n,
                                     int top_k, double top_p, SelectionRoom<Wide<T>>& room) {
  using W = Wide<T>;
  Kept<W> kept{OrderOf<W>::lowest, static_cast<double>(n), 0};
  if (top_k < n) {
    const auto last = find_threshold(row, CountWeight{}, top_k, false, kept.order, room);
    kept.order = last.order;
    kept.ties = top_k - last.above;
  }
  kept.mass = weight_above(row, weight, kept.order, room) + kept.ties * static_cast<double>(weight(value_of(kept.order)));
  if (top_p >= 1) return kept;
  const double goal = top_p * kept.mass;
  const auto last = find_threshold(row, weight, goal, false, kept.order, room);
  const auto w = static_cast<double>(weight(value_of(last.order)));
  const double ties = ties_to(goal, last.above, w, last.order == kept.order ? kept.ties : last.ties);
  return {last.order, ties, last.above + ties * w};
}

/// Of them those that are not below `lowest`.
template <class T>
__device__ Kept<Wide<T>> not_below(const ReadRow<T, wide_row_threads>& row, const TokenWeight<Wide<T>>& weight, Wide<T> lowest,
                                   const Kept<Wide<T>>& kept, SelectionRoom<Wide<T>>& room) {
  using W = Wide<T>;
  const double count = weight_above(row, CountWeight{}, order_of(lowest) - 1, room);
  if (count >= weight_above(row, CountWeight{}, kept.order, room) + kept.ties) return kept;
  const auto last = find_threshold(row, CountWeight{}, count, false, OrderOf<W>::lowest, room);
  const double ties = count - last.above;
  return {last.order, ties,
          weight_above(row, weight, last.order, room) + ties * static_cast<double>(weight(value_of(last.order)))};
}

/// A draw: from which row, and what decides, in [0, 1).
struct Draw {
  index_t row;
  double uniform;
};
/// All of them, on the device, and whether rows can be read in packs.
struct Draws {
  index_t count;
  const Draw* list;
  bool packs;
};

/// What is kept of every row: kernels::SampledTokens in the numbers that the kernel computes with.
template <class W>
struct KeptOfRows {
  W sharpness;
  int top_k;
  double top_p;
  W margin;
};

/// A block for a draw.
template <class T>
__global__ void __launch_bounds__(wide_row_threads, 1)
    sample_kernel(KeptOfRows<Wide<T>> of, Draws draws, kernels::Matrix<const T> all, Fault* fault, T* values, token_t* indices) {
  using W = Wide<T>;
  const T* const x = all.data;
  const int n = static_cast<int>(all.columns), top_k = of.top_k;
  const double top_p = of.top_p;
  const W sharpness = of.sharpness, margin = of.margin;
  static __shared__ SelectionRoom<W> room;
  static __shared__ W max_room[warp_threads];
  for (index_t d = blockIdx.x; d < draws.count; d += gridDim.x) {
    const Draw draw = draws.list[d];
    const T* const from = x + draw.row * all.stride;
    const ReadRow<T, wide_row_threads> row(x, draw.row * all.stride, n, draws.packs);
    W own = -infinity<W>();
    bool numbers = true;
    row.for_each([&](int, const auto& v) {
      for (const W value : v) {
        own = value > own ? value : own;
        numbers = numbers && value == value;
      }
    });
    if (!numbers) report_nan(row, fault, Context::sample, draw.row);
    const TokenWeight<W> weight{block_max(own, max_room), sharpness};
    int column = -1;
    if (weight.largest == -infinity<W>()) {
      // No token has any probability.
    } else if (top_k == n && top_p >= 1 && margin == -infinity<W>()) {
      const double mass = weight_above(row, weight, OrderOf<W>::lowest, room);
      column = find_column(from, n, weight, draw.uniform * mass, room);
    } else {
      // Tokens by falling probability, of equal ones the lower column first: where the running sum of their weights exceeds the
      // target. The factor keeps a product that is rounded up below the mass.
      Kept<W> kept = kept_tokens(row, weight, n, top_k, top_p, room);
      if (margin != -infinity<W>()) kept = not_below(row, weight, weight.largest + margin, kept, room);
      const double most = kept.mass * (1 - 0x1p-52), product = draw.uniform * kept.mass, target = product < most ? product : most;
      const auto hit = find_threshold(row, weight, target, true, kept.order, room);
      const auto w = static_cast<double>(weight(value_of(hit.order)));
      const double ties = hit.order == kept.order ? kept.ties : hit.ties, place = ::floor((target - hit.above) / w);
      // A token of no weight is hit only if rounding has lost some weight: then the most probable one stands in.
      const TieWeight<W> same{w > 0 ? hit.order : order_of(weight.largest)};
      column = find_column(from, n, same, !(w > 0) || place < 0 ? 0 : place < ties ? place : ties - 1, room);
    }
    if (threadIdx.x == 0) {
      values[d] = column < 0 ? static_cast<T>(-infinity<W>()) : from[column];
      indices[d] = column;
    }
  }
}

}  // namespace attend::cuda

namespace attend::kernels {

/// See the CPU's. The draws are the processor's, but for a `uniform` within the rounding of its sums. A NaN is reported.
template <class T>
void sample_rows(Cuda, const SampledTokens& from, const Draws& draws, ConstMatrix<T> x, T* values, token_t* indices) {
  using W = Wide<T>;
  if (draws.count == 0) return;
  std::vector<cuda::Draw> list;
  for (index_t d = 0; d < draws.count; ++d) list.push_back({draws.rows[d], draws.uniforms[d]});
  const auto device_list = cuda::upload(list);
  const auto sharpness = static_cast<W>(std::clamp(1 / from.temperature, 1e-30, 1e30));  // 0 * infinity is NaN
  const index_t kept = from.top_k > 0 ? std::min(from.top_k, x.columns) : x.columns;
  const cuda::KeptOfRows<W> of{sharpness, static_cast<int>(kept), from.top_p, detail::min_p_margin(from.min_p, sharpness)};
  cuda::launch("sample", cuda::sample_kernel<T>, cuda::blocks_for(draws.count, 1), cuda::wide_row_threads, 0, of,
               cuda::Draws{draws.count, device_list.data(), cuda::aligned(x.data)}, x, cuda::Context::instance().fault(), values,
               indices);
}

}  // namespace attend::kernels
