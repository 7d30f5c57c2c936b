#if !defined(ATTEND_CPU_CROSS_ENTROPY) || defined(ATTEND_TARGET)
#ifndef ATTEND_TARGET
#define ATTEND_CPU_CROSS_ENTROPY

#include <algorithm>
#include <cmath>

#include "attend/core/threads.hpp"
#include "attend/core/types.hpp"
#include "attend/cpu/targets.hpp"
#include "attend/cpu/vector.hpp"
#include "attend/kernels/cross_entropy.hpp"
#endif

namespace attend::ATTEND_IN(cpu) {

  /// log(sum(exp(x))) of one row.
  template <class T>
  T log_sum_exp(index_t n, const T* x) {
    const T top = max_over<T>(n, [=](index_t i) { return x[i]; });
    return top + std::log(sum_over<T>(n, [=](index_t i) { return cpu::exp(x[i] - top); }));
  }

  /// -(1 - e) log p[label] - e mean(log p), from a row and its log-sum-exp.
  template <class T>
  T cross_entropy_row(index_t n, const T* x, token_t label, T smoothing, T log_sum) {
    const T nll = log_sum - x[label];
    if (smoothing == T(0)) return nll;
    const T mean = sum_over<T>(n, [=](index_t i) { return x[i]; }) / static_cast<T>(n);
    return (T(1) - smoothing) * nll + smoothing * (log_sum - mean);
  }

  /// g = scale * (p - (1 - e) onehot(label) - e / n); g may be x.
  template <class T>
  void cross_entropy_row_gradient(index_t n, const T* x, token_t label, T smoothing, T log_sum, T scale, T* g) {
    const T even = smoothing / static_cast<T>(n) * scale;
    for (index_t i = 0; i < n; ++i) g[i] = cpu::exp(x[i] - log_sum) * scale - even;
    g[label] -= (T(1) - smoothing) * scale;
  }

}  // namespace attend::ATTEND_IN(cpu)

namespace attend::ATTEND_IN(kernels) {

  /// losses[r]: the cross-entropy of row r, 0 where its label is ignored; log_sums[r]: its log-sum-exp, for the backward.
  template <class T>
  void cross_entropy_forward(Cpu, index_t rows, index_t classes, const CrossEntropyOptions& options, const T* logits,
                             const token_t* labels, T* losses, T* log_sums) {
    ATTEND_FASTEST(cross_entropy_forward, rows, classes, options, logits, labels, losses, log_sums);
    parallel_rows(rows, classes, [=](index_t begin, index_t end) {
      for (index_t r = begin; r < end; ++r) {
        const T* x = logits + r * classes;
        const bool counts = labels[r] != options.ignore_index;
        log_sums[r] = counts ? cpu::log_sum_exp(classes, x) : T(0);
        losses[r] = counts ? cpu::cross_entropy_row(classes, x, labels[r], static_cast<T>(options.smoothing), log_sums[r]) : T(0);
      }
    });
  }

  /// dlogits = scale * dloss * (softmax - target) per row, 0 for ignored rows; scale and dloss are one number each.
  template <class T>
  void cross_entropy_backward(Cpu, index_t rows, index_t classes, const CrossEntropyOptions& options, const T* logits,
                              const token_t* labels, const T* log_sums, const T* scale, const T* dloss, T* dlogits) {
    ATTEND_FASTEST(cross_entropy_backward, rows, classes, options, logits, labels, log_sums, scale, dloss, dlogits);
    const T factor = *scale * *dloss;
    parallel_rows(rows, classes, [=](index_t begin, index_t end) {
      for (index_t r = begin; r < end; ++r) {
        T* g = dlogits + r * classes;
        if (labels[r] == options.ignore_index) std::fill(g, g + classes, T(0));
        else
          cpu::cross_entropy_row_gradient(classes, logits + r * classes, labels[r], static_cast<T>(options.smoothing),
                                          log_sums[r], factor, g);
      }
    });
  }

  /// Both at once: `logits` becomes the gradient for a dloss of 1.
  template <class T>
  void cross_entropy_in_place(Cpu, index_t rows, index_t classes, const CrossEntropyOptions& options, const token_t* labels,
                              const T* scale, T* logits, T* losses) {
    ATTEND_FASTEST(cross_entropy_in_place, rows, classes, options, labels, scale, logits, losses);
    const T factor = *scale;
    parallel_rows(rows, classes, [=](index_t begin, index_t end) {
      for (index_t r = begin; r < end; ++r) {
        T* x = logits + r * classes;
        if (labels[r] == options.ignore_index) {
          losses[r] = T(0);
          std::fill(x, x + classes, T(0));
          continue;
        }
        const T smoothing = static_cast<T>(options.smoothing), log_sum = cpu::log_sum_exp(classes, x);
        losses[r] = cpu::cross_entropy_row(classes, x, labels[r], smoothing, log_sum);
        cpu::cross_entropy_row_gradient(classes, x, labels[r], smoothing, log_sum, factor, x);
      }
    });
  }

  /// For `rows` pairs of rows x[r] and y[r] that have label r: the losses of each as above with R-Drop's share, and x and y
  /// become their gradients for a dloss of 1. With a = r_drop / 2, d = log p - log q: dx gets scale a (p (d - KL(p|q)) + p - q),
  /// dy the same with p and q exchanged.
  template <class T>
  void r_drop_in_place(Cpu, index_t rows, index_t classes, const CrossEntropyOptions& options, const token_t* labels,
                       const T* scale, T* x, T* y, T* x_losses, T* y_losses) {
    ATTEND_FASTEST(r_drop_in_place, rows, classes, options, labels, scale, x, y, x_losses, y_losses);
    const T factor = *scale, smoothing = static_cast<T>(options.smoothing), alpha = static_cast<T>(options.r_drop);
    parallel_rows(rows, 2 * classes, [=](index_t begin, index_t end) {
      for (index_t r = begin; r < end; ++r) {
        T *u = x + r * classes, *v = y + r * classes;
        if (labels[r] == options.ignore_index) {
          x_losses[r] = y_losses[r] = T(0);
          std::fill(u, u + classes, T(0)), std::fill(v, v + classes, T(0));
          continue;
        }
        const T u_sum = cpu::log_sum_exp(classes, u), v_sum = cpu::log_sum_exp(classes, v);
        const auto apart = [=](index_t i) { return (u[i] - u_sum) - (v[i] - v_sum); };
        const T from_u = cpu::sum_over<T>(classes, [=](index_t i) { return cpu::exp(u[i] - u_sum) * apart(i); }),
                from_v = -cpu::sum_over<T>(classes, [=](index_t i) { return cpu::exp(v[i] - v_sum) * apart(i); });
        const T share = alpha / 4 * (from_u + from_v);
        x_losses[r] = cpu::cross_entropy_row(classes, u, labels[r], smoothing, u_sum) + share;
        y_losses[r] = cpu::cross_entropy_row(classes, v, labels[r], smoothing, v_sum) + share;
        const T even = smoothing / static_cast<T>(classes) * factor, hit = (T(1) - smoothing) * factor, pull = alpha / 2 * factor;
        for (index_t i = 0; i < classes; ++i) {
          const T d = apart(i), p = cpu::exp(u[i] - u_sum), q = cpu::exp(v[i] - v_sum);
          u[i] = p * factor - even + pull * (p * (d - from_u) + p - q);
          v[i] = q * factor - even + pull * (q * (-d - from_v) + q - p);
        }
        u[labels[r]] -= hit, v[labels[r]] -= hit;
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

  /// The position of the first label that is neither `ignore_index` nor in [0, classes); -1 where all are good.
  inline index_t find_bad_label(Cpu, index_t rows, index_t classes, token_t ignore_index, const token_t* labels) {
    for (index_t r = 0; r < rows; ++r)
      if (labels[r] != ignore_index && (labels[r] < 0 || labels[r] >= classes)) return r;
    return -1;
  }

  /// scale[0] = what the sum of the losses is multiplied by: for the mean, 1 / how many labels are not `ignore_index` (at least
  /// 1).
  template <class T>
  void loss_scale(Cpu, index_t rows, [[maybe_unused]] index_t classes, const CrossEntropyOptions& options, const token_t* labels,
                  T* scale) {
    ATTEND_FASTEST(loss_scale, rows, classes, options, labels, scale);
    index_t count = 0;
    for (index_t r = 0; r < rows; ++r) count += labels[r] != options.ignore_index;
    *scale = options.mean ? T(1) / static_cast<T>(std::max<index_t>(1, count)) : T(1);
  }

  /// Rows whose logits exist at a time in `linear_cross_entropy`: few, so that they are near when their gradient is computed;
  /// enough that copying the weight into the order of products, for each chunk anew, costs little beside it.
  inline index_t logits_chunk(Cpu, index_t /*rows*/, index_t classes) {
    return std::clamp<index_t>((index_t{1} << 22) / std::max<index_t>(1, classes), 64, 1024);
  }

}  // namespace attend::ATTEND_IN(kernels)

#if ATTEND_DISPATCH && !defined(ATTEND_TARGET)
#define ATTEND_TEXT "attend/cpu/cross_entropy.hpp"
#include "attend/cpu/each_target.hpp"
#endif
#endif  // ATTEND_CPU_CROSS_ENTROPY
