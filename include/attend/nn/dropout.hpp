#pragma once

#include "attend/nn/fields.hpp"
#include "attend/ops/dropout.hpp"

namespace attend::nn {

/// The rate at which `d` drops values now: `d.p` in training, 0 in evaluation.
inline double rate(const Dropout& d) { return d.training ? d.p : 0; }

/// x with values dropped at `d.p` in training, x itself in evaluation.
template <class T, Device D>
Var<T, D> apply(const Dropout& d, const Var<T, D>& x) {
  return rate(d) > 0 ? dropout(x, rate(d)) : x;
}

/// A dropout of rate p. Throws ValueError unless 0 <= p < 1.
inline Dropout make_dropout(const char* name, double p) {
  check_value(p >= 0 && p < 1, "Dropout", name, " is ", p, ", outside [0, 1)");
  return {p};
}

}  // namespace attend::nn
