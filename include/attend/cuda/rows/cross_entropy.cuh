#pragma once

#include <algorithm>

#include "attend/cuda/device/launch.cuh"
#include "attend/cuda/rows/row.cuh"
#include "attend/kernels/cross_entropy.hpp"

namespace attend::cuda {

/// Threads of the single blocks that look at all labels or losses.
inline constexpr int loss_threads = 1024;

/// One block: scale[0] as in `loss_scale`.
template <class W>
__global__ void loss_scale_kernel(kernels::LabelledRows of, Fault* fault, W* scale) {
  const CrossEntropyOptions& options = of.options;
  static __shared__ int room[warp_threads];
  int count = 0;
#pragma unroll 4
  for (index_t r = threadIdx.x; r < of.rows; r += loss_threads) {
    const token_t label = of.labels[r];
    if (label == options.ignore_index) continue;
    if (label < 0 || label >= of.classes) report(fault, Fault::label, Context::cross_entropy, r, label, of.classes);
    else ++count;
  }
  count = block_sum(count, room);
  if (threadIdx.x == 0) scale[0] = options.mean ? W(1) / static_cast<W>(count > 1 ? count : 1) : W(1);
}

/// One block: loss[0] = scale[0] * the sum of the losses.
template <class W>
__global__ void sum_losses_kernel(index_t n, const W* losses, const W* scale, W* loss) {
  static __shared__ double room[warp_threads];
  double sum = 0;
#pragma unroll 4
  for (index_t i = threadIdx.x; i < n; i += loss_threads) sum += static_cast<double>(losses[i]);
  sum = block_sum(sum, room);
  if (threadIdx.x == 0) loss[0] = static_cast<W>(sum) * scale[0];
}

/// The derivative of a row's loss by its logits, times `factor`; zeros for a row that does not count.
template <class W>
struct LogitGradient {
  bool counts;
  token_t label;
  W log_sum, factor, even, hit;  // hit: what is added for the label's own logit
  __device__ LogitGradient(index_t classes, const CrossEntropyOptions& options, token_t row_label, W row_log_sum, W row_factor)
      : counts(row_label != options.ignore_index && row_label >= 0 && row_label < classes),
        label(row_label),
        log_sum(row_log_sum),
        factor(row_factor),
        even(static_cast<W>(options.smoothing) / static_cast<W>(classes) * row_factor),
        hit((W(1) - static_cast<W>(options.smoothing)) * row_factor) {}
  /// g = the gradient of the logits x from column c; g may be x.
  template <int n>
  __device__ void at(int c, const W (&x)[n], W (&g)[n]) const {
#pragma unroll
    for (int i = 0; i < n; ++i) {
      const W even_part = exp(x[i] - log_sum) * factor - even;
      g[i] = !counts ? W(0) : c + i == label ? even_part - hit : even_part;
    }
  }
};

/// Logits, and where their gradient goes: to the same address.
template <class T>
struct LogitRows {
  const T* x;
  T* gradient;
};

/// A block for a row: its loss, its log-sum-exp if log_sums is not null and, if `gradient`, in place of the logits their
/// gradient.
template <class T, class Row, bool gradient>
__global__ void __launch_bounds__(wide_row_threads, Row::blocks)
    cross_entropy_kernel(kernels::LabelledRows of, bool packs, const Wide<T>* scale, LogitRows<T> at, Wide<T>* losses,
                         Wide<T>* log_sums) {
  using W = Wide<T>;
  static __shared__ W room[warp_threads];
  const CrossEntropyOptions& options = of.options;
  const int classes = static_cast<int>(of.classes);
  const T* const x = at.x;
  T* const g = at.gradient;
  for (index_t r = blockIdx.x; r < of.rows; r += gridDim.x) {
    const index_t begin = r * of.classes;
    const token_t label = of.labels[r];
    const Row row(x, begin, classes, packs);
    LogSum<W> all;
    W plain(0);
    row.for_each([&](int, const auto& v) {
      all.add(v);
      for (const W value : v) plain += value;
    });
    const bool counts = label != options.ignore_index && label >= 0 && label < classes;
    W hit(0);  // read before anything of the row is written, for which the block waits in `join`
    if (threadIdx.x == 0 && counts) hit = static_cast<W>(x[begin + label]);
    all.template join<wide_row_threads>(room);
    const W log_sum = all.top + log(all.sum), smoothing = static_cast<W>(options.smoothing);
    if (smoothing != W(0)) plain = block_sum(plain, room);
    if (threadIdx.x == 0) {
      const W nll = log_sum - hit, even = log_sum - plain / static_cast<W>(classes);
      losses[r] = !counts ? W(0) : smoothing == W(0) ? nll : (W(1) - smoothing) * nll + smoothing * even;
      if (log_sums != nullptr) log_sums[r] = counts ? log_sum : W(0);
    }
    if constexpr (gradient) {
      const LogitGradient<W> slope(classes, options, label, log_sum, scale[0]);
      row.for_each([&](int c, auto& v) {
        slope.at(c, v, v);
        store_narrow<sizeof(v) / sizeof(W)>(g + begin + c, v);
      });
    }
  }
}

/// A block for a row: dlogits from the logits and their log-sum-exp.
template <class T>
__global__ void __launch_bounds__(wide_row_threads)
    cross_entropy_backward_kernel(kernels::LabelledRows of, bool packs, const T* x, const Wide<T>* log_sums,
                                  kernels::LossFactors<Wide<T>> by, T* dlogits) {
  using W = Wide<T>;
  for (index_t r = blockIdx.x; r < of.rows; r += gridDim.x) {
    const index_t begin = r * of.classes;
    const ReadRow<T, wide_row_threads> row(x, begin, static_cast<int>(of.classes), packs);
    const LogitGradient<W> slope(of.classes, of.options, of.labels[r], log_sums[r], by.scale[0] * by.dloss[0]);
    row.for_each([&](int c, auto& v) {
      slope.at(c, v, v);
      store_narrow<sizeof(v) / sizeof(W)>(dlogits + begin + c, v);
    });
  }
}

/// A block for a pair of rows, which become their gradients: see `r_drop_in_place`.
template <class T>
__global__ void __launch_bounds__(wide_row_threads)
    r_drop_kernel(kernels::LabelledRows of, const Wide<T>* scale, kernels::DropPass<T> x, kernels::DropPass<T> y) {
  using W = Wide<T>;
  const CrossEntropyOptions& options = of.options;
  const int classes = static_cast<int>(of.classes);
  static __shared__ W room[warp_threads];
  const W smoothing = static_cast<W>(options.smoothing), alpha = static_cast<W>(options.r_drop), factor = scale[0];
  for (index_t r = blockIdx.x; r < of.rows; r += gridDim.x) {
    T *const u = x.logits + r * classes, *const v = y.logits + r * classes;
    const token_t label = of.labels[r];
    if (label == options.ignore_index || label < 0 || label >= classes) {
      for (int c = static_cast<int>(threadIdx.x); c < classes; c += wide_row_threads) u[c] = v[c] = T(0);
      if (threadIdx.x == 0) x.losses[r] = y.losses[r] = W(0);
      continue;
    }
    const W u_hit = static_cast<W>(u[label]), v_hit = static_cast<W>(v[label]);  // read before anything of the rows is written
    LogSum<W> u_all, v_all;
    W u_plain(0), v_plain(0);
    for (int c = static_cast<int>(threadIdx.x); c < classes; c += wide_row_threads) {
      const W a[1] = {static_cast<W>(u[c])}, b[1] = {static_cast<W>(v[c])};
      u_all.add(a), v_all.add(b);
      u_plain += a[0], v_plain += b[0];
    }
    u_all.template join<wide_row_threads>(room), v_all.template join<wide_row_threads>(room);
    u_plain = block_sum(u_plain, room), v_plain = block_sum(v_plain, room);
    const W u_sum = u_all.top + log(u_all.sum), v_sum = v_all.top + log(v_all.sum);
    W from_u(0), from_v(0);  // KL(p|q) and KL(q|p)
    for (int c = static_cast<int>(threadIdx.x); c < classes; c += wide_row_threads) {
      const W log_p = static_cast<W>(u[c]) - u_sum, log_q = static_cast<W>(v[c]) - v_sum;
      from_u += exp(log_p) * (log_p - log_q);
      from_v += exp(log_q) * (log_q - log_p);
    }
    from_u = block_sum(from_u, room), from_v = block_sum(from_v, room);
    if (threadIdx.x == 0) {
      const W n = static_cast<W>(classes), share = alpha / 4 * (from_u + from_v);
      x.losses[r] = (W(1) - smoothing) * (u_sum - u_hit) + smoothing * (u_sum - u_plain / n) + share;
      y.losses[r] = (W(1) - smoothing) * (v_sum - v_hit) + smoothing * (v_sum - v_plain / n) + share;
    }
    const W even = smoothing / static_cast<W>(classes) * factor, pull = alpha / 2 * factor;
    for (int c = static_cast<int>(threadIdx.x); c < classes; c += wide_row_threads) {
      const W log_p = static_cast<W>(u[c]) - u_sum, log_q = static_cast<W>(v[c]) - v_sum, d = log_p - log_q;
      const W p = exp(log_p), q = exp(log_q), target = even + (c == label ? (W(1) - smoothing) * factor : W(0));
      u[c] = static_cast<T>(p * factor - target + pull * (p * (d - from_u) + p - q));
      v[c] = static_cast<T>(q * factor - target + pull * (q * (-d - from_v) + q - p));
    }
  }
}

}  // namespace attend::cuda

namespace attend::kernels {

/// Always -1: on this device `loss_scale` looks at the labels, and nobody waits for what it finds.
inline index_t find_bad_label(Cuda, const LabelledRows& /*of*/) { return -1; }

/// scale[0] = what the sum of the losses is multiplied by: for the mean, 1 / how many labels count (at least 1). A label that is
/// neither `ignore_index` nor in [0, classes) is reported, and counts for nothing here and below.
template <class W>
void loss_scale(Cuda, const LabelledRows& of, W* scale) {
  cuda::launch("cross_entropy", cuda::loss_scale_kernel<W>, 1, cuda::loss_threads, 0, of, cuda::Context::instance().fault(),
               scale);
}

/// loss[0] = scale[0] times the sum of n losses, added up in double.
template <class W>
void sum_losses(Cuda, index_t n, const W* losses, const W* scale, W* loss) {
  cuda::launch("cross_entropy", cuda::sum_losses_kernel<W>, 1, cuda::loss_threads, 0, n, losses, scale, loss);
}

/// losses[r]: the cross-entropy of row r, 0 if its label is ignored; log_sums[r]: its log-sum-exp, for the backward.
template <class T>
void cross_entropy_forward(Cuda, const LabelledRows& of, const T* logits, Wide<T>* losses, Wide<T>* log_sums) {
  using namespace cuda;
  if (of.rows == 0) return;
  const Wide<T>* const no_scale = nullptr;
  launch("cross_entropy", cross_entropy_kernel<T, ReadRow<T, wide_row_threads>, false>, blocks_for(of.rows, 1), wide_row_threads,
         0, of, aligned(logits), no_scale, LogitRows<T>{logits, nullptr}, losses, log_sums);
}

/// dlogits = scale[0] * dloss[0] * (softmax - target) per row, 0 for ignored rows.
template <class T>
void cross_entropy_backward(Cuda, const LabelledRows& of, const T* logits, const Wide<T>* log_sums,
                            const LossFactors<Wide<T>>& by, T* dlogits) {
  using namespace cuda;
  if (of.rows == 0) return;
  launch("cross_entropy", cross_entropy_backward_kernel<T>, blocks_for(of.rows, 1), wide_row_threads, 0, of,
         aligned(logits, dlogits), logits, log_sums, by, dlogits);
}

/// Both at once: `logits` becomes the gradient for a dloss of 1.
template <class T>
void cross_entropy_in_place(Cuda, const LabelledRows& of, const Wide<T>* scale, T* logits, Wide<T>* losses) {
  using namespace cuda;
  if (of.rows == 0) return;
  const index_t classes = of.classes;
  constexpr int threads = wide_row_threads, piece = threads * Pack<T>::count;
  const bool packs = aligned(logits);
  Wide<T>* const no_log_sums = nullptr;
  const auto run = [&](auto kernel) {
    launch("cross_entropy", kernel, blocks_for(of.rows, 1), threads, 0, of, packs, scale, LogitRows<T>{logits, logits}, losses,
           no_log_sums);
  };
  // Rows that fit stay in registers from the first pass to the second.
  if (packs && classes <= 4 * piece) run(cross_entropy_kernel<T, HeldRow<T, threads, 4>, true>);
  else if (packs && classes <= 8 * piece) run(cross_entropy_kernel<T, HeldRow<T, threads, 8>, true>);
  else if (packs && classes <= 16 * piece) run(cross_entropy_kernel<T, HeldRow<T, threads, 16>, true>);
  else run(cross_entropy_kernel<T, ReadRow<T, threads>, true>);
}

/// For two passes of the model over the same rows: the losses of each with R-Drop's share; their logits become their gradients
/// for a dloss of 1.
template <class T>
void r_drop_in_place(Cuda, const LabelledRows& of, const Wide<T>* scale, const DropPass<T>& x, const DropPass<T>& y) {
  if (of.rows == 0) return;
  cuda::launch("cross_entropy", cuda::r_drop_kernel<T>, cuda::blocks_for(of.rows, 1), cuda::wide_row_threads, 0, of, scale, x, y);
}

/// How many of `rows` rows have their logits in memory at a time in `linear_cross_entropy`. Some thousands: x's gradient is a
/// product with few columns, whose tiles would otherwise not fill a device, and the weight's gradient is read, added to and
/// rounded after each chunk. About 512 MiB of bfloat16 at most. All chunks of about one size and of whole tiles, so that no small
/// one comes last.
inline index_t logits_chunk(Cuda, index_t rows, index_t /*in*/, index_t classes) {
  constexpr index_t tile = 128;
  const auto whole_tiles = [](index_t n) { return (std::max<index_t>(1, n) + tile - 1) / tile * tile; };
  const index_t most = whole_tiles((index_t{1} << 28) / std::max<index_t>(1, classes));
  const index_t chunks = std::max<index_t>(1, (rows + most - 1) / most);
  return whole_tiles((rows + chunks - 1) / chunks);
}

}  // namespace attend::kernels
