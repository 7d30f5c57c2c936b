#pragma once

#include <algorithm>
#include <array>
#include <cmath>

#include "attend/core/options.hpp"
#include "attend/core/types.hpp"

namespace attend::nn {

/// How the matrices of a network begin: each is uniform in ±gain * sqrt(6 / (in + out)), Xavier's bound times a gain that depends
/// on what the matrix is for. Biases begin as 0, norms as the identity, embeddings as `Embedding` says. q, k and v are matrices
/// of their own; a block's residual branches end in `out` (of an attention) and `fc2` (of the feed-forward). Gains not named
/// are 1, as the head's is except with `torch`. What each is worth in training stands in benchmarks/results/initialisation.md.
enum class Initialisation {
  /// As `torch`, but out and fc2 are divided by max(1, sqrt(n / 4)), n being the sublayers of the stack: 2 a layer in an encoder,
  /// 3 in a decoder. The default. Source: after GPT-2, which divides by sqrt(n) (Radford et al. 2019, section 2.3).
  residual_scaled,
  /// 1. Source: Glorot and Bengio 2010, eq. 16; notebook 1.
  xavier,
  /// q, k, v: 1 / sqrt(2), Xavier's bound of all three as one matrix; all others sqrt((in + out) / (6 in)), which makes the bound
  /// 1 / sqrt(in). Source: PyTorch's `nn.MultiheadAttention` and `nn.Linear`.
  torch,
  /// q, k, v: 1 / sqrt(2). Source: fairseq's `MultiheadAttention`.
  fairseq,
  /// All: 1 / sqrt(l) in layer l, which counts from 1. Source: Zhang, Titov and Sennrich 2019, eq. 9.
  depth_scaled,
  /// out, fc2: 1 / sqrt(k) in the k-th sublayer of the stack. Source: after Liu et al. 2020, with the variances that they measure
  /// taken to be equal.
  admin,
  /// v, out, fc1, fc2: 0.67 N^(-1/4) in an encoder of N layers, (9 N)^(-1/4) in a decoder; the norms, which the source takes
  /// away, stay. Source: Huang et al. 2020, section 3.2.
  t_fixup,
  /// v, out, fc1, fc2: b, and out, fc2 divided by a besides, which stands for the factor a of the residual, since norm(a x + f) =
  /// norm(x + f / a). In an encoder a = 0.81 N^(5/16), b = 0.87 N^(-5/16); in a decoder a = (3 N)^(1/4), b = (12 N)^(-1/4).
  /// Source: Wang et al. 2022, figure 2, with equally many layers in both stacks.
  deepnorm
};

/// The names of its values.
constexpr auto names_of(Initialisation) {
  using enum Initialisation;
  return std::to_array<Named<Initialisation>>({{residual_scaled, "residual_scaled"},
                                               {xavier, "xavier"},
                                               {torch, "torch"},
                                               {fairseq, "fairseq"},
                                               {depth_scaled, "depth_scaled"},
                                               {admin, "admin"},
                                               {t_fixup, "t_fixup"},
                                               {deepnorm, "deepnorm"}});
}

/// What a matrix is for.
enum class MatrixRole {
  query_key,
  value,
  attention_out,  ///< the end of an attention
  inner,          ///< the first of a feed-forward
  outer,          ///< the end of a feed-forward
  head,           ///< gives logits
};

/// Where a sublayer stands in its stack; layers and sublayers count from 0. A block with more than two sublayers is a decoder's.
struct SublayerPlace {
  index_t layer = 0, layers = 1;
  index_t sublayer = 0, sublayers = 2;
};

/// How the matrices of one sublayer begin.
struct InitialValues {
  Initialisation kind = Initialisation::residual_scaled;
  SublayerPlace place = {};

  /// What Xavier's bound is multiplied by for a matrix [out, in]; see `Initialisation`.
  [[nodiscard]] double gain(MatrixRole role, index_t in, index_t out) const {
    const auto layers = static_cast<double>(place.layers), l = static_cast<double>(place.layer + 1);
    const bool qkv = role == MatrixRole::query_key || role == MatrixRole::value;
    const bool ends_branch = role == MatrixRole::attention_out || role == MatrixRole::outer;
    const bool decoder = place.sublayers > 2;
    const double torch = qkv ? std::sqrt(0.5) : std::sqrt(static_cast<double>(in + out) / (6 * static_cast<double>(in)));
    if (role == MatrixRole::head) return kind == Initialisation::torch ? torch : 1;
    switch (kind) {
      case Initialisation::residual_scaled:
        return ends_branch ? torch / std::max(1.0, std::sqrt(static_cast<double>(place.layers * place.sublayers) / 4)) : torch;
      case Initialisation::xavier:
        return 1;
      case Initialisation::torch:
        return torch;
      case Initialisation::fairseq:
        return qkv ? std::sqrt(0.5) : 1;
      case Initialisation::depth_scaled:
        return 1 / std::sqrt(l);
      case Initialisation::admin:
        return ends_branch ? 1 / std::sqrt(static_cast<double>(place.layer * place.sublayers + place.sublayer + 1)) : 1;
      case Initialisation::t_fixup:
        if (role == MatrixRole::query_key) return 1;
        return decoder ? std::pow(9 * layers, -0.25) : 0.67 * std::pow(layers, -0.25);
      case Initialisation::deepnorm: {
        if (role == MatrixRole::query_key) return 1;
        const double a = decoder ? std::pow(3 * layers, 0.25) : 0.81 * std::pow(layers, 5.0 / 16);
        const double b = decoder ? std::pow(12 * layers, -0.25) : 0.87 * std::pow(layers, -5.0 / 16);
        return ends_branch ? b / a : b;
      }
    }
    return 1;
  }
};

}  // namespace attend::nn
