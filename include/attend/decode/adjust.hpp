#pragma once

#include <limits>
#include <vector>

#include "attend/core/tensor.hpp"
#include "attend/cpu/top_k.hpp"

namespace attend::decode::detail {

/// The one place where log-probabilities [rows, vocabulary] change between the model and the choice of tokens: those that the
/// options rule out after prefixes of `length` tokens become minus infinity.
template <class T, Device D, class Options>
void adjust(const Options& options, index_t length, const Tensor<T, D>& log_probabilities) {
  const index_t rows = log_probabilities.dim(0), vocabulary = log_probabilities.dim(1);
  constexpr T never = -std::numeric_limits<T>::infinity();
  fill_columns(D{}, rows, vocabulary, static_cast<index_t>(options.suppressed.size()), options.suppressed.data(), never,
               log_probabilities.data());
  if (length < options.min_length) fill_columns(D{}, rows, vocabulary, 1, &options.eos, never, log_probabilities.data());
}

}  // namespace attend::decode::detail
