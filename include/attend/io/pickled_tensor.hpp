#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "attend/core/shape.hpp"
#include "attend/io/dtype.hpp"

/// A tensor in a pickle of torch.save.

namespace attend::io {

/// A tensor as a pickle describes it: which numbers of which storage. The texts are the pickle's own.
struct PickledTensor {
  std::string_view name;
  std::string_view storage;  ///< the key of the storage, the name of a file in `data/`
  DType dtype = DType::f32;
  std::uint64_t storage_size = 0;  ///< numbers in the storage
  std::uint64_t offset = 0;        ///< numbers before the tensor's first
  Shape shape;
  std::vector<std::uint64_t> strides;  ///< numbers from one element to the next, for each dimension
};

}  // namespace attend::io

namespace attend::detail {

/// What torch calls the storages of each type.
inline constexpr std::array<std::pair<std::string_view, io::DType>, 10> torch_storages = {{{"FloatStorage", io::DType::f32},
                                                                                           {"HalfStorage", io::DType::f16},
                                                                                           {"BFloat16Storage", io::DType::bf16},
                                                                                           {"DoubleStorage", io::DType::f64},
                                                                                           {"LongStorage", io::DType::i64},
                                                                                           {"IntStorage", io::DType::i32},
                                                                                           {"ShortStorage", io::DType::i16},
                                                                                           {"CharStorage", io::DType::i8},
                                                                                           {"ByteStorage", io::DType::u8},
                                                                                           {"BoolStorage", io::DType::boolean}}};

/// Whether all elements are in the storage, and are not more than it has: a stride of 0 repeats numbers, and a file of a few
/// bytes could ask for any amount of memory by it.
inline bool lies_within(const io::PickledTensor& tensor, std::int64_t offset) {
  const std::uint64_t begin = static_cast<std::uint64_t>(offset), size = tensor.storage_size;
  if (begin > size) return false;
  if (tensor.shape.size() == 0) return true;
  if (static_cast<std::uint64_t>(tensor.shape.size()) > size) return false;
  std::uint64_t last = begin;
  for (std::size_t i = 0; i < tensor.strides.size(); ++i) {
    const auto steps = static_cast<std::uint64_t>(tensor.shape.begin()[i]) - 1;
    if (steps != 0 && tensor.strides[i] > size / steps) return false;  // before it can overflow
    last += steps * tensor.strides[i];
    if (last >= size) return false;
  }
  return last < size;
}

}  // namespace attend::detail
