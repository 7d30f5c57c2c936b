#pragma once

#include <optional>

#include "attend/core/segments.hpp"

namespace attend {

/// Where the rows of a batch stand in their sentences, counted from 0. Rows of whole sentences stand one after the other; in
/// decoding every row is the newest token of a prefix, and all stand at the same place, which the host knows or only the device.
struct Places {
  std::optional<Segments> sentences = {};  ///< of whole sentences
  index_t place = 0;                       ///< of all rows, where there are none
  const index_t* step = nullptr;           ///< on the device: if not null, added to `place`
};

}  // namespace attend
