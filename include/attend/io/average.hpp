#pragma once

#include <filesystem>
#include <vector>

namespace attend::io {

/// Writes to `out` a model whose weights are the mean of those of the model folders `folders`, which must be alike in all else:
/// the last checkpoints of one training, say, whose mean often translates better than any of them. The numbers are stored as in
/// the first folder; it needs memory for one tensor at a time. Throws ValueError that lists how each folder differs from the
/// first; FormatError; IoError, also if a training or another averaging writes into `out`. What was in `out` is then as it was.
///
///     io::average(train::kept_checkpoints("run"), "averaged");
void average(const std::vector<std::filesystem::path>& folders, const std::filesystem::path& out);

}  // namespace attend::io

#ifndef ATTEND_COMPILED
#include "attend/io/averaging.hpp"
#endif
