#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attend/core/shape.hpp"
#include "attend/io/dtype.hpp"

/// The header of a safetensors file: JSON that says of each tensor its type, its shape, and where its bytes lie. All that it
/// says is checked here. Source: the format section of github.com/huggingface/safetensors.

namespace attend::io {

/// One tensor of a safetensors file.
struct TensorInfo {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::size_t begin = 0, end = 0;  ///< where its bytes lie, counted from the end of the header
};

/// The tensor of that name, or a null pointer. `tensors` are in the order of their names.
inline const TensorInfo* find_tensor(std::span<const TensorInfo> tensors, std::string_view name) {
  const auto found = std::lower_bound(tensors.begin(), tensors.end(), name,
                                      [](const TensorInfo& tensor, std::string_view wanted) { return tensor.name < wanted; });
  return found == tensors.end() || found->name != name ? nullptr : &*found;
}

/// What a header says.
struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;              ///< in the order of their names
  std::map<std::string, std::string> metadata;  ///< the strings of `__metadata__`
};

/// The largest header that readers of the format take: 100 MB.
inline constexpr std::size_t max_safetensors_header_bytes = 100'000'000;

/// Parses and checks the header of a file that has `data_bytes` bytes after it. `where` begins every message.
/// Throws FormatError.
SafetensorsHeader parse_safetensors_header(std::string_view text, std::size_t data_bytes, const std::string& where);

}  // namespace attend::io

#ifndef ATTEND_COMPILED
#include "attend/io/safetensors_header_reader.hpp"
#endif
