#pragma once

#include <array>

#include "attend/core/options.hpp"
#include "attend/core/types.hpp"
#include "attend/kernels/matrix.hpp"

namespace attend {

/// What a norm makes of a row before gain and bias.
enum class NormKind {
  layer,  ///< xhat = (x - mean) / deviation. Source: Ba et al. 2016, eq. 3
  rms     ///< xhat = x / sqrt(mean(x^2) + eps). Source: Zhang and Sennrich 2019, "Root mean square layer normalization", eq. 4
};
/// The names of its values.
constexpr auto names_of(NormKind) { return std::to_array<Named<NormKind>>({{NormKind::layer, "layer"}, {NormKind::rms, "rms"}}); }

/// A norm of rows of `width`; gamma and beta hold as many values, or one if `scalar_affine`.
struct NormLayout {
  index_t width = 0;
  NormKind kind = NormKind::layer;
  double eps = 1e-5;
  bool sample_deviation = false;
  bool scalar_affine = false;
};

namespace kernels {

/// The norm of `rows` rows, with gamma and beta as the layout says; a null beta adds nothing.
template <class T>
struct NormOfRows {
  NormLayout layout = {};
  index_t rows = 0;
  const T *gamma = nullptr, *beta = nullptr;

  /// The same for `count` rows.
  [[nodiscard]] NormOfRows part(index_t count) const { return {layout, count, gamma, beta}; }
};

/// What a norm keeps of its rows for the backward, [rows] each: xhat = (x - mean) * rstd. The mean is 0 for the root mean square.
template <class T>
struct NormStatistics {
  Wide<T>*mean = nullptr, *rstd = nullptr;

  /// Those from that row on.
  [[nodiscard]] NormStatistics from(index_t row) const { return {mean + row, rstd + row}; }
};

/// Where a norm's backward leaves the gradients of its rows, and of gamma and beta.
template <class T>
struct NormGradients {
  Gradient<T> x = {}, gamma = {}, beta = {};
};

}  // namespace kernels

}  // namespace attend
