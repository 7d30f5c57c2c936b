#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "attend/autograd/var.hpp"
#include "attend/core/random.hpp"

namespace attend {

/// How `gradcheck` probes a function.
struct GradcheckOptions {
  double step = 1e-3;         ///< distance between the points of the difference formula
  double tolerance = 1e-7;    ///< the largest |analytic - numeric| / max(1, |analytic|, |numeric|) that passes
  std::uint64_t seed = 1706;  ///< of the output weights
  index_t entries = 64;       ///< at most this many entries of each input are probed, spread evenly
};

/// What `gradcheck` found. True if it passed.
struct GradcheckResult {
  bool passed = true;
  double worst = 0;     ///< the largest relative error met
  std::string message;  ///< where it was met: input, entry, both values
  explicit operator bool() const { return passed; }
};

/// Compares the hand-written gradient of `f` with differences of its values. f() computes a Var from `inputs` (leaves in double
/// which require gradients); its outputs are weighted at random, for a plain sum hides errors (softmax's gradient is then zero).
/// The difference formula has four points, (f(-2h) - 8 f(-h) + 8 f(h) - f(2h)) / 12h, so its error is of order h^4.
/// f must give the same values each time: let dropout draw from a generator that f seeds.
template <class F>
GradcheckResult gradcheck(F&& f, const std::vector<Var<double>>& inputs, const GradcheckOptions& options = {}) {
  const Generator::Stream random{options.seed, 0};
  const auto weighted_sum = [&](const Tensor<double>& y) {
    double sum = 0;
    for (index_t i = 0; i < y.size(); ++i) sum += y.data()[i] * random.normal(static_cast<std::uint64_t>(i));
    return sum;
  };
  for (const auto& x : inputs) x.zero_grad();
  const Var<double> y = f();
  Tensor<double> weights(y.shape());
  for (index_t i = 0; i < y.size(); ++i) weights.data()[i] = random.normal(static_cast<std::uint64_t>(i));
  y.backward(weights);

  GradcheckResult result;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const auto& x = inputs[k];
    const Tensor<double> gradient = x.grad().empty() ? Tensor<double>(x.shape(), 0.0) : x.grad().clone();
    const index_t stride = std::max<index_t>(1, x.size() / options.entries);
    for (index_t i = 0; i < x.size(); i += stride) {
      double& entry = x.data()[i];
      const double original = entry, h = options.step;
      const auto at = [&](double offset) {
        const NoGrad no_grad;
        entry = original + offset;
        return weighted_sum(f().value());
      };
      const double numeric = (at(-2 * h) - 8 * at(-h) + 8 * at(h) - at(2 * h)) / (12 * h);
      entry = original;
      const double analytic = gradient.data()[i];
      const double error = std::abs(analytic - numeric) / std::max({1.0, std::abs(analytic), std::abs(numeric)});
      if (!(error <= result.worst) && !std::isnan(result.worst)) {  // an error that is not a number stays the worst
        result.worst = error;
        char figures[96];
        std::snprintf(figures, sizeof(figures), "analytic %.9g, numeric %.9g, relative error %.2g", analytic, numeric, error);
        result.message = "gradcheck: input " + std::to_string(k) + " of shape " + x.shape().text() + ", entry " +
                         std::to_string(i) + ": " + figures;
      }
    }
  }
  result.passed = result.worst <= options.tolerance;
  return result;
}

}  // namespace attend
