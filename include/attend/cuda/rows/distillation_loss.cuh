#pragma once

#include "attend/cuda/device/launch.cuh"
#include "attend/cuda/rows/row.cuh"
#include "attend/kernels/distillation_loss.hpp"

namespace attend::cuda {

/// A block for a row: its loss and, unless `gradient` is null, its gradient, which may take the place of the student's logits.
template <class T>
__global__ void __launch_bounds__(wide_row_threads)
    distillation_loss_kernel(kernels::TaughtRows of, bool packs, const Wide<T>* scale, const T* teacher, const T* student,
                             Wide<T>* losses, T* gradient) {
  using W = Wide<T>;
  static __shared__ W room[warp_threads];
  const kernels::LabelledRows& rows = of.rows;
  const int classes = static_cast<int>(rows.classes);
  const W weight = static_cast<W>(of.weight), temperature = static_cast<W>(of.temperature), inverse = W(1) / temperature;
  const W smoothing = static_cast<W>(rows.options.smoothing), rest = W(1) - weight;
  const W share = rest * scale[0], pull = weight * temperature * scale[0];
  const W even = smoothing / static_cast<W>(classes) * share, hit_share = (W(1) - smoothing) * share;
  if (weight == W(0)) teacher = student;               // 0 times what is no number would be none
  const bool apart = rest != W(0) && inverse != W(1);  // whether probabilities at temperature 1 are needed besides
  for (index_t r = blockIdx.x; r < rows.rows; r += gridDim.x) {
    const index_t begin = r * rows.classes;
    const token_t label = rows.labels[r];
    const bool counts = label != rows.options.ignore_index && label >= 0 && label < classes;
    const ReadRow<T, wide_row_threads> row(student, begin, classes, packs);
    if (!counts) {
      if (gradient != nullptr)
        for (int c = static_cast<int>(threadIdx.x); c < classes; c += wide_row_threads) gradient[begin + c] = T(0);
      if (threadIdx.x == 0) losses[r] = W(0);
      continue;
    }
    LogSum<W> own, theirs, plain;
    W sum(0);
    row.for_each([&](int c, const auto& x) {
      constexpr int n = sizeof(x) / sizeof(W);
      W u[n], t[n];
      load_wide<n>(teacher + begin + c, t);
#pragma unroll
      for (int i = 0; i < n; ++i) u[i] = x[i] * inverse, t[i] *= inverse, sum += x[i];
      own.add(u), theirs.add(t);
      if (apart) plain.add(x);
    });
    W hit(0);  // read before anything of the row is written, for which the block waits in `join`
    if (threadIdx.x == 0) hit = static_cast<W>(student[begin + label]);
    own.template join<wide_row_threads>(room), theirs.template join<wide_row_threads>(room);
    const W x_sum = own.top + log(own.sum), t_sum = theirs.top + log(theirs.sum);
    W plain_sum = x_sum;
    if (apart) {
      plain.template join<wide_row_threads>(room);
      plain_sum = plain.top + log(plain.sum);
    }
    if (smoothing != W(0)) sum = block_sum(sum, room);
    W divergence(0);
    row.for_each([&](int c, const auto& x) {
      constexpr int n = sizeof(x) / sizeof(W);
      W t[n], g[n];
      load_wide<n>(teacher + begin + c, t);
#pragma unroll
      for (int i = 0; i < n; ++i) {
        const W log_p = x[i] * inverse - x_sum, log_q = t[i] * inverse - t_sum, p = exp(log_p), q = exp(log_q);
        if (q != W(0)) divergence += q * (log_q - log_p);  // what q excludes counts for nothing
        g[i] = pull * (p - q) + share * (apart ? exp(x[i] - plain_sum) : p) - (c + i == label ? even + hit_share : even);
      }
      if (gradient != nullptr) store_narrow<n>(gradient + begin + c, g);
    });
    divergence = block_sum(divergence, room);
    if (threadIdx.x == 0) {
      const W nll = plain_sum - hit, spread = plain_sum - sum / static_cast<W>(classes);
      // A share of 0 is left out: where the label's probability is 0, its loss is infinite.
      W loss = weight == W(0) ? W(0) : weight * temperature * temperature * divergence;
      if (rest != W(0)) loss += rest * (smoothing == W(0) ? nll : (W(1) - smoothing) * nll + smoothing * spread);
      losses[r] = loss;
    }
  }
}

}  // namespace attend::cuda

namespace attend::kernels {

/// losses[r]: what row r of `student` is scored by its label and by row r of `teacher`, 0 if its label is ignored. Unless it is
/// null, `gradient` gets the derivative by the student's logits, times scale[0], and zeros for ignored rows; it may be `student`.
template <class T>
void distillation_loss_rows(Cuda, const TaughtRows& of, const Wide<T>* scale, const T* teacher, const T* student, Wide<T>* losses,
                            T* gradient) {
  using namespace cuda;
  if (of.rows.rows == 0) return;
  const bool packs = gradient == nullptr ? aligned(student, teacher) : aligned(student, teacher, gradient);
  launch("distillation_loss", distillation_loss_kernel<T>, blocks_for(of.rows.rows, 1), wide_row_threads, 0, of, packs, scale,
         teacher, student, losses, gradient);
}

}  // namespace attend::kernels
