#pragma once

#include "attend/core/types.hpp"

namespace attend::kernels {

/// Tokens of a vocabulary.
struct TokenList {
  const token_t* data = nullptr;
  index_t count = 0, vocabulary = 0;
};

}  // namespace attend::kernels
