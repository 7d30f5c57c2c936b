#pragma once

#include "attend/kernels/places.hpp"

namespace attend {

/// Which two columns of a head turn together; there are as many pairs as half of the columns that turn.
enum class RotaryOrder {
  halves,       ///< column i and the one half of them behind it, as GPT-NeoX and Llama have it (`rotate_half`)
  interleaved,  ///< columns 2i and 2i + 1, as in the paper and in GPT-J
};

namespace kernels {

/// Rows of which the first `heads` times `width` columns are heads; of each the first `turned` columns turn, an even number.
struct RotaryLayout {
  index_t columns = 0;
  index_t heads = 1, width = 0, turned = 0;
  RotaryOrder order = RotaryOrder::halves;
};

}  // namespace kernels

}  // namespace attend
