#if !defined(ATTEND_CPU_DISTILLATION_LOSS) || defined(ATTEND_READING)
#ifndef ATTEND_READING
#define ATTEND_CPU_DISTILLATION_LOSS

#include <algorithm>
#include <cmath>

#include "attend/core/threads.hpp"
#include "attend/core/types.hpp"
#include "attend/cpu/cross_entropy.hpp"
#include "attend/cpu/targets.hpp"
#include "attend/cpu/vector.hpp"
#include "attend/kernels/distillation_loss.hpp"

#endif  // ATTEND_READING

namespace attend::ATTEND_CPU {

/// log(sum(exp(x / t))) of one row, given 1 / t.
template <class T>
T log_sum_exp_at(index_t n, const T* x, T inverse) {
  if (inverse == T(1)) return cpu::log_sum_exp(n, x);
  const T top = max_over<T>(n, [=](index_t i) { return x[i]; });
  return top * inverse + std::log(sum_over<T>(n, [=](index_t i) { return cpu::exp_to_88((x[i] - top) * inverse); }));
}

/// A row of n logits of a student, x, and of its teacher, t, with what their probabilities p and q at the temperature
/// 1 / inverse follow from.
template <class T>
struct TaughtRow {
  index_t n;
  const T *x, *t;
  T inverse, x_sum, t_sum;

  /// KL(q|p).
  [[nodiscard]] T divergence() const {
    return sum_over<T>(n, [x = x, t = t, inverse = inverse, x_sum = x_sum, t_sum = t_sum](index_t i) {
      const T log_q = t[i] * inverse - t_sum, q = cpu::exp_to_88(log_q);
      return select(q == T(0), T(0), q * (log_q - (x[i] * inverse - x_sum)));  // what q excludes counts for nothing
    });
  }
  /// g = pull * (p - q) + share * p' - even, with p' the student's probabilities at temperature 1, whose log-sum-exp is
  /// `plain_sum`; g may be x.
  void gradient(T pull, T share, T plain_sum, T even, T* g) const {
    const T *const own = x, *const theirs = t;
    const T by = inverse, own_sum = x_sum, their_sum = t_sum;
    // The difference comes first: where the two agree, it is 0 whatever else is rounded.
    if (by == T(1) || share == T(0)) {
#ifndef __clang__  // which finds out by itself that each number is read before it is written
#pragma GCC ivdep
#endif
      for (index_t i = 0; i < n; ++i) {
        const T p = cpu::exp_to_88(own[i] * by - own_sum);
        g[i] = (p - cpu::exp_to_88(theirs[i] * by - their_sum)) * pull + p * share - even;
      }
    } else {
#ifndef __clang__
#pragma GCC ivdep
#endif
      for (index_t i = 0; i < n; ++i)
        g[i] = (cpu::exp_to_88(own[i] * by - own_sum) - cpu::exp_to_88(theirs[i] * by - their_sum)) * pull +
               cpu::exp_to_88(own[i] - plain_sum) * share - even;
    }
  }
};

}  // namespace attend::ATTEND_CPU

namespace attend::kernels {

/// losses[r]: what row r of `student` is scored by its label and by row r of `teacher`, 0 if its label is ignored. Unless it is
/// null, `gradient` gets the derivative by the student's logits, times scale[0], and zeros for ignored rows; it may be `student`.
template <class T>
void distillation_loss_rows(Cpu, const TaughtRows& of, const T* scale, const T* teacher, const T* student, T* losses,
                            T* gradient) {
  ATTEND_FASTEST(distillation_loss_rows, of, scale, teacher, student, losses, gradient);
  const LabelledRows& rows = of.rows;
  const index_t classes = rows.classes;
  const T weight = static_cast<T>(of.weight), temperature = static_cast<T>(of.temperature), inverse = T(1) / temperature;
  const T smoothing = static_cast<T>(rows.options.smoothing), rest = T(1) - weight;
  const T share = rest * *scale, pull = weight * temperature * *scale;
  parallel_rows(rows.rows, 2 * classes, [=](index_t begin, index_t end) {
    for (index_t r = begin; r < end; ++r) {
      const T* const x = student + r * classes;
      const T* const t = weight == T(0) ? x : teacher + r * classes;  // 0 times what is no number would be none
      T* const g = gradient == nullptr ? nullptr : gradient + r * classes;
      const token_t label = rows.labels[r];
      if (label == rows.options.ignore_index) {
        losses[r] = T(0);
        if (g) std::fill_n(g, classes, T(0));
        continue;
      }
      const cpu::TaughtRow<T> row{
          classes, x, t, inverse, cpu::log_sum_exp_at(classes, x, inverse), cpu::log_sum_exp_at(classes, t, inverse)};
      // A share of 0 is left out: where the label's probability is 0, its loss is infinite.
      T plain_sum = row.x_sum, loss = weight == T(0) ? T(0) : weight * temperature * temperature * row.divergence();
      if (rest != T(0)) {
        if (inverse != T(1)) plain_sum = cpu::log_sum_exp(classes, x);
        loss += rest * cpu::LabelledRow<T>{classes, x, label, smoothing, plain_sum}.loss();
      }
      losses[r] = loss;
      if (!g) continue;
      row.gradient(pull, share, plain_sum, smoothing / static_cast<T>(classes) * share, g);
      g[label] -= (T(1) - smoothing) * share;
    }
  });
}

}  // namespace attend::kernels

#define ATTEND_READ_AGAIN "attend/cpu/distillation_loss.hpp"
#include "attend/cpu/each_target.hpp"
#endif
