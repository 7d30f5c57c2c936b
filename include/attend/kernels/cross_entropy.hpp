#pragma once

#include "attend/core/types.hpp"

namespace attend {

/// How a row of logits is scored.
struct CrossEntropyOptions {
  double smoothing = 0;         ///< the share of the target that is spread evenly over all classes, in [0, 1)
  token_t ignore_index = -100;  ///< rows with this label count for nothing
  bool mean = true;             ///< the mean over the rows that count (0 if none does), otherwise their sum
  /// R-Drop's alpha. If it is positive, row r + rows / 2 is a second pass over the same token as row r, with dropout of its
  /// own, and the two are drawn together: each of the two losses gets alpha / 4 (KL(p|q) + KL(q|p)) on top, with p and q the
  /// passes' probabilities. Source: Liang et al. 2021 (the mean over the two passes is half of their loss).
  double r_drop = 0;
};

namespace kernels {

/// Rows of logits, [rows, classes], each with its label, and how they are scored.
struct LabelledRows {
  index_t rows = 0, classes = 0;
  const token_t* labels = nullptr;
  CrossEntropyOptions options = {};
};

/// What the gradients of losses are multiplied by, one number each, on the logits' device.
template <class W>
struct LossFactors {
  const W *scale = nullptr, *dloss = nullptr;
};

/// The logits of one of R-Drop's two passes, which become their gradients, and where their losses go.
template <class T>
struct DropPass {
  T* logits = nullptr;
  Wide<T>* losses = nullptr;
};

}  // namespace kernels

}  // namespace attend
