#if !defined(ATTEND_CPU_CROSS_ENTROPY) || defined(ATTEND_READING)
#ifndef ATTEND_READING
#define ATTEND_CPU_CROSS_ENTROPY

#include <algorithm>
#include <cmath>

#include "attend/core/threads.hpp"
#include "attend/core/types.hpp"
#include "attend/cpu/targets.hpp"
#include "attend/cpu/vector.hpp"
#include "attend/kernels/cross_entropy.hpp"

#endif  // ATTEND_READING

namespace attend::ATTEND_CPU {

/// log(sum(exp(x))) of one row.
template <class T>
T log_sum_exp(index_t n, const T* x) {
  const T top = max_over<T>(n, [=](index_t i) { return x[i]; });
  return top + std::log(sum_over<T>(n, [=](index_t i) { return cpu::exp_to_88(x[i] - top); }));
}

/// A row of n logits and its log-sum-exp; of the target, `label` has all but the share `smoothing`, which is spread evenly.
template <class T>
struct LabelledRow {
  index_t n;
  const T* x;
  token_t label;
  T smoothing, log_sum;

  /// -(1 - e) log p[label] - e mean(log p).
  [[nodiscard]] T loss() const {
    const T nll = log_sum - x[label];
    if (smoothing == T(0)) return nll;
    const T mean = sum_over<T>(n, [x = x](index_t i) { return x[i]; }) / static_cast<T>(n);
    return (T(1) - smoothing) * nll + smoothing * (log_sum - mean);
  }
  /// g = scale * (p - (1 - e) onehot(label) - e / n); g may be x.
  void gradient(T scale, T* g) const {
    const T* const from = x;
    const T sum = log_sum, even = smoothing / static_cast<T>(n) * scale;
    for (index_t i = 0; i < n; ++i) g[i] = cpu::exp_to_88(from[i] - sum) * scale - even;
    g[label] -= (T(1) - smoothing) * scale;
  }
};

}  // namespace attend::ATTEND_CPU

namespace attend::kernels {

/// losses[r]: the cross-entropy of row r, 0 if its label is ignored; log_sums[r]: its log-sum-exp, for the backward.
template <class T>
void cross_entropy_forward(Cpu, const LabelledRows& of, const T* logits, T* losses, T* log_sums) {
  ATTEND_FASTEST(cross_entropy_forward, of, logits, losses, log_sums);
  const T smoothing = static_cast<T>(of.options.smoothing);
  parallel_rows(of.rows, of.classes, [=](index_t begin, index_t end) {
    for (index_t r = begin; r < end; ++r) {
      const T* x = logits + r * of.classes;
      const bool counts = of.labels[r] != of.options.ignore_index;
      log_sums[r] = counts ? cpu::log_sum_exp(of.classes, x) : T(0);
      losses[r] = counts ? cpu::LabelledRow<T>{of.classes, x, of.labels[r], smoothing, log_sums[r]}.loss() : T(0);
    }
  });
}

/// dlogits = scale * dloss * (softmax - target) per row, 0 for ignored rows; scale and dloss are one number each.
template <class T>
void cross_entropy_backward(Cpu, const LabelledRows& of, const T* logits, const T* log_sums, const LossFactors<T>& by,
                            T* dlogits) {
  ATTEND_FASTEST(cross_entropy_backward, of, logits, log_sums, by, dlogits);
  const T factor = *by.scale * *by.dloss, smoothing = static_cast<T>(of.options.smoothing);
  parallel_rows(of.rows, of.classes, [=](index_t begin, index_t end) {
    for (index_t r = begin; r < end; ++r) {
      T* g = dlogits + r * of.classes;
      if (of.labels[r] == of.options.ignore_index) std::fill_n(g, of.classes, T(0));
      else cpu::LabelledRow<T>{of.classes, logits + r * of.classes, of.labels[r], smoothing, log_sums[r]}.gradient(factor, g);
    }
  });
}

/// Both at once: `logits` becomes the gradient for a dloss of 1.
template <class T>
void cross_entropy_in_place(Cpu, const LabelledRows& of, const T* scale, T* logits, T* losses) {
  ATTEND_FASTEST(cross_entropy_in_place, of, scale, logits, losses);
  const T factor = *scale, smoothing = static_cast<T>(of.options.smoothing);
  parallel_rows(of.rows, of.classes, [=](index_t begin, index_t end) {
    for (index_t r = begin; r < end; ++r) {
      T* x = logits + r * of.classes;
      if (of.labels[r] == of.options.ignore_index) {
        losses[r] = T(0);
        std::fill_n(x, of.classes, T(0));
        continue;
      }
      const cpu::LabelledRow<T> row{of.classes, x, of.labels[r], smoothing, cpu::log_sum_exp(of.classes, x)};
      losses[r] = row.loss();
      row.gradient(factor, x);
    }
  });
}

/// Two passes over the same rows: the losses of each as above with R-Drop's share, and their logits x and y become their
/// gradients for a dloss of 1. With a = r_drop / 2, d = log p - log q: dx gets scale a (p (d - KL(p|q)) + p - q), dy the same
/// with p and q exchanged.
template <class T>
void r_drop_in_place(Cpu, const LabelledRows& of, const T* scale, const DropPass<T>& x, const DropPass<T>& y) {
  ATTEND_FASTEST(r_drop_in_place, of, scale, x, y);
  const index_t classes = of.classes;
  const T factor = *scale, smoothing = static_cast<T>(of.options.smoothing), alpha = static_cast<T>(of.options.r_drop);
  parallel_rows(of.rows, 2 * classes, [=](index_t begin, index_t end) {
    for (index_t r = begin; r < end; ++r) {
      T *u = x.logits + r * classes, *v = y.logits + r * classes;
      const token_t label = of.labels[r];
      if (label == of.options.ignore_index) {
        x.losses[r] = y.losses[r] = T(0);
        std::fill(u, u + classes, T(0)), std::fill(v, v + classes, T(0));
        continue;
      }
      const T u_sum = cpu::log_sum_exp(classes, u), v_sum = cpu::log_sum_exp(classes, v);
      const auto apart = [=](index_t i) { return (u[i] - u_sum) - (v[i] - v_sum); };
      const T from_u = cpu::sum_over<T>(classes, [=](index_t i) { return cpu::exp_to_88(u[i] - u_sum) * apart(i); }),
              from_v = -cpu::sum_over<T>(classes, [=](index_t i) { return cpu::exp_to_88(v[i] - v_sum) * apart(i); });
      const T share = alpha / 4 * (from_u + from_v);
      x.losses[r] = cpu::LabelledRow<T>{classes, u, label, smoothing, u_sum}.loss() + share;
      y.losses[r] = cpu::LabelledRow<T>{classes, v, label, smoothing, v_sum}.loss() + share;
      const T even = smoothing / static_cast<T>(classes) * factor, hit = (T(1) - smoothing) * factor, pull = alpha / 2 * factor;
      for (index_t i = 0; i < classes; ++i) {
        const T d = apart(i), p = cpu::exp_to_88(u[i] - u_sum), q = cpu::exp_to_88(v[i] - v_sum);
        u[i] = p * factor - even + pull * (p * (d - from_u) + p - q);
        v[i] = q * factor - even + pull * (q * (-d - from_v) + q - p);
      }
      u[label] -= hit, v[label] -= hit;
    }
  });
}

/// loss[0] = scale[0] times the sum of n losses, added up in double and in their order.
template <class T>
void sum_losses(Cpu, index_t n, const T* losses, const T* scale, T* loss) {
  ATTEND_FASTEST(sum_losses, n, losses, scale, loss);
  double sum = 0;
  for (index_t i = 0; i < n; ++i) sum += static_cast<double>(losses[i]);
  *loss = static_cast<T>(sum) * *scale;
}

/// The position of the first label that is neither `ignore_index` nor in [0, classes); -1 if all are good.
inline index_t find_bad_label(Cpu, const LabelledRows& of) {
  for (index_t r = 0; r < of.rows; ++r)
    if (const token_t label = of.labels[r]; label != of.options.ignore_index && (label < 0 || label >= of.classes)) return r;
  return -1;
}

/// scale[0] = what the sum of the losses is multiplied by: for the mean, 1 / how many labels are not `ignore_index` (at least 1).
template <class T>
void loss_scale(Cpu, const LabelledRows& of, T* scale) {
  ATTEND_FASTEST(loss_scale, of, scale);
  index_t count = 0;
  for (index_t r = 0; r < of.rows; ++r) count += of.labels[r] != of.options.ignore_index;
  *scale = of.options.mean ? T(1) / static_cast<T>(std::max<index_t>(1, count)) : T(1);
}

/// Rows whose logits exist at a time in `linear_cross_entropy`, from 64 to 1,024: of 16 MB, so that they are still in the cache
/// when their gradient is computed, or, if that is more, as many as the weight's rows are long, of up to 256 MB. Each chunk
/// copies the weight into the order of products, and reads and writes its gradient, which then is no more than what it does with
/// the logits.
inline index_t logits_chunk(Cpu, index_t /*rows*/, index_t in, index_t classes) {
  const index_t width = std::max<index_t>(1, classes), near = (index_t{1} << 22) / width, most = (index_t{1} << 26) / width;
  return std::clamp<index_t>(std::max(near, std::min(in, most)), 64, 1024);
}

}  // namespace attend::kernels

#define ATTEND_READ_AGAIN "attend/cpu/cross_entropy.hpp"
#include "attend/cpu/each_target.hpp"
#endif
