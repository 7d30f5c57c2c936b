#pragma once

#include "attend/core/types.hpp"
#include "attend/kernels/cross_entropy.hpp"

namespace attend {

/// How a row of a student's logits is scored by its label and by its teacher's logits.
struct DistillationOptions {
  double weight = 1;  ///< the teacher's share of the loss, in [0, 1]; the label has the rest
  double temperature =
      1;  ///< what both models' logits are divided by before they are compared: above 1, unlikely words count more
  /// How the label's share is computed, and which rows count. There is no R-Drop here.
  CrossEntropyOptions labels = {};
};

namespace kernels {

/// Rows of logits, each with its label, and with as many logits of a teacher.
struct TaughtRows {
  LabelledRows rows = {};
  double weight = 1, temperature = 1;
};

}  // namespace kernels

}  // namespace attend
