#pragma once

#include "attend/core/types.hpp"

/// Where searches change a matrix of log-probabilities.
namespace attend::kernels {

/// The places (rows[i], columns[i]), i < count. Both lists are host memory.
struct Entries {
  index_t count = 0;
  const index_t* rows = nullptr;
  const token_t* columns = nullptr;
};

/// For i < count, row rows[i] and `lengths[i]` of its columns, those that are listed from columns[begins[i]] on. All but the
/// columns are host memory.
struct ColumnLists {
  index_t count = 0;
  const index_t *rows = nullptr, *begins = nullptr, *lengths = nullptr;
  const token_t* columns = nullptr;
};

}  // namespace attend::kernels
