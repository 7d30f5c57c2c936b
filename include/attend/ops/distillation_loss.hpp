#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "attend/autograd/var.hpp"
#include "attend/cpu/distillation_loss.hpp"
#include "attend/ops/cross_entropy.hpp"
#include "attend/ops/linear.hpp"

namespace attend {

/// Logits that are linear(x, weight, bias), and that never need to exist all at a time.
template <class T, Device D = Cpu>
struct LinearLogits {
  Var<T, D> x;                         // [..., in]
  Var<T, D> weight;                    // [n, in]
  std::optional<Var<T, D>> bias = {};  // [n]
};

namespace detail {

/// Checks the options and gives what rows of so many labels are scored by.
inline kernels::TaughtRows taught_rows(const char* operation, const kernels::LabelledRows& rows,
                                       const DistillationOptions& options) {
  check_value(options.weight >= 0 && options.weight <= 1, operation, "weight ", options.weight, " is outside [0, 1]");
  check_value(options.temperature >= 0.01 && options.temperature <= 100, operation, "temperature ", options.temperature,
              " is outside [0.01, 100]");
  check_value(options.labels.r_drop == 0, operation, "r_drop is ", options.labels.r_drop, ", and there is no R-Drop here");
  return {rows, options.weight, options.temperature};
}

/// `chunk`: rows whose logits exist at a time; 0 leaves it to the device.
template <class T, Device D>
Var<Wide<T>, D> linear_distillation_loss(const LinearLogits<T, D>& student, const LinearLogits<T, D>& teacher,
                                         const Tensor<token_t, D>& labels, const DistillationOptions& options,
                                         index_t chunk = 0) {
  constexpr const char* name = "linear_distillation_loss";
  const auto bias_of = [](const LinearLogits<T, D>& logits) { return logits.bias ? &*logits.bias : nullptr; };
  const Shape shape = linear_shape(name, student.x, student.weight, bias_of(student)),
              theirs = linear_shape(name, teacher.x, teacher.weight, bias_of(teacher));
  check_may_learn(name, student.weight);
  if (rows_and_width(theirs).rows != rows_and_width(shape).rows || theirs[-1] != shape[-1])
    throw ShapeError(name, ": the teacher's logits have shape ", theirs.text(), ", the student's ", shape.text());
  const RowsAndWidth size = rows_and_width(shape);
  const index_t rows = size.rows, classes = size.width;
  const auto rows_of = [&](index_t first, index_t n) {
    return taught_rows(name, {n, classes, labels.data() + first, options.labels}, options);
  };
  (void)rows_of(0, 0);
  const auto scale = checked_scale<Wide<T>>(name, labels, rows, classes, options.labels);
  const Products<T, D> products(name);
  Tensor<T, D> taught;  // the teacher's logits of a chunk
  return linear_loss(products, student.x, student.weight, bias_of(student), scale, 1, 2, chunk, [&](const LossChunk<T>& part) {
    const index_t n = part.n, in = teacher.weight.dim(1), width = teacher.weight.dim(0);
    if (taught.empty()) taught = Tensor<T, D>({n, width});  // the first chunk is the largest
    products.forward(kernels::Matrix<T>{teacher.x.data() + part.first * in, n, in}, teacher.weight.value(),
                     teacher.bias ? teacher.bias->data() : nullptr, kernels::Matrix<T>{taught.data(), n, width});
    const auto [logits, losses] = part.passes[0];
    distillation_loss_rows<T>(D{}, rows_of(part.first, n), scale.data(), taught.data(), logits, losses,
                              part.gradients ? logits : nullptr);
  });
}

}  // namespace detail

/// What a student's logits s are worth beside those of its teacher, t, and the labels: the mean over the rows that count of
///
///     (1 - w) cross_entropy(s, label) + w T^2 KL(q|p),   p = softmax(s / T),   q = softmax(t / T),
///
/// with w the weight and T the temperature, from 0.01 to 100. It is the divergence and not the cross-entropy -sum_j q[j] log
/// p[j]: their gradients are the same, and the divergence says by how much the two differ, with 0 where they agree. Its gradient
/// by s is T (p - q), which T^2 keeps of one size at any temperature. The teacher gets none: its logits are numbers. If no row
/// counts, the loss is 0 and so are its gradients. A word that the teacher excludes (a logit of minus infinity) counts for
/// nothing in the divergence, whatever the student makes of it. Shapes: student and teacher [..., n], labels one for each row,
/// loss [1], in float for logits in bfloat16. Throws ShapeError, ValueError, and IndexError as cross_entropy. Sources: Hinton et
/// al. 2015, section 2; Kim and Rush 2016, section 3.1.
template <class T, Device D>
Var<Wide<T>, D> distillation_loss(const Var<T, D>& student, const Tensor<T, D>& teacher, const Tensor<token_t, D>& labels,
                                  const DistillationOptions& options = {}) {
  constexpr const char* name = "distillation_loss";
  check_shape(name, "teacher", teacher.shape(), student.shape());
  const auto [rows, classes] = rows_and_width(student.shape());
  const auto of = detail::taught_rows(name, {rows, classes, labels.data(), options.labels}, options);
  const auto scale = detail::checked_scale<Wide<T>>(name, labels, rows, classes, options.labels);
  Tensor<Wide<T>, D> losses({rows}), loss({1});
  Tensor<T, D> gradient;
  if (grad_enabled() && student.requires_grad()) gradient = Tensor<T, D>(student.shape());
  distillation_loss_rows<T>(D{}, of, scale.data(), teacher.data(), student.data(), losses.data(), gradient.data());
  sum_losses(D{}, rows, losses.data(), scale.data(), loss.data());
  return record(std::move(loss), std::vector{student},
                [sink = student.sink(), gradient](const Tensor<Wide<T>, D>& dloss) { detail::hand_over(sink, gradient, dloss); });
}

/// distillation_loss(linear(student...), linear(teacher...), labels) without ever holding the logits of all rows, neither the
/// student's nor the teacher's: they come and go in chunks, as in linear_cross_entropy. What the teacher's are made of gets no
/// gradients. Shapes: see LinearLogits; the two x may have other widths. Throws as distillation_loss.
template <class T, Device D>
Var<Wide<T>, D> linear_distillation_loss(const LinearLogits<T, D>& student, const LinearLogits<T, D>& teacher,
                                         const Tensor<token_t, D>& labels, const DistillationOptions& options = {}) {
  return detail::linear_distillation_loss(student, teacher, labels, options);
}

}  // namespace attend
