#pragma once

#include <array>

#include "attend/core/options.hpp"
#include "attend/core/types.hpp"

namespace attend {

/// What a norm makes of a row before gain and bias.
enum class NormKind {
  layer,  ///< xhat = (x - mean) / deviation. Source: Ba et al. 2016, eq. 3
  rms     ///< xhat = x / sqrt(mean(x^2) + eps). Source: Zhang and Sennrich 2019, "Root mean square layer normalization", eq. 4
};
constexpr auto names_of(NormKind) { return std::to_array<Named<NormKind>>({{NormKind::layer, "layer"}, {NormKind::rms, "rms"}}); }

/// A norm of rows of `width`; gamma and beta hold as many values, or one where `scalar_affine`. A null beta adds nothing.
struct NormLayout {
  index_t width = 0;
  NormKind kind = NormKind::layer;
  double eps = 1e-5;
  bool sample_deviation = false;
  bool scalar_affine = false;
};

}  // namespace attend
