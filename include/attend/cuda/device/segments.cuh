#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "attend/core/segments.hpp"
#include "attend/cuda/device/memory.cuh"

namespace attend::cuda {

/// Where the sentences of a batch stand, as kernels read it: sentence s occupies length[s] rows from row begin[s], of which the
/// first keys[s] may be attended to. The arrays lie on the device.
struct SegmentTables {
  const std::int32_t *begin, *length, *keys;
};

namespace detail {

/// The tables of a batch in memory of their own.
struct DeviceSegments {
  Buffer<std::int32_t> memory;  // [3, count]: begin, length, keys
  SegmentTables tables;

  explicit DeviceSegments(index_t count) : memory(3 * count) {
    const std::int32_t* first = memory.data();
    tables = {first, first + count, first + 2 * count};
  }
  /// Throws ValueError if a batch has more rows than 32 bits count.
  static std::vector<std::int32_t> host_tables(const Segments& s) {
    check_value(s.rows() <= INT32_MAX, "Segments", s.rows(), " rows on the device, at most 2^31 - 1");
    std::vector<std::int32_t> host;
    host.reserve(3 * s.count());
    for (index_t i = 0; i < s.count(); ++i) host.push_back(static_cast<std::int32_t>(s.begin(i)));
    for (index_t i = 0; i < s.count(); ++i) host.push_back(static_cast<std::int32_t>(s.length(i)));
    for (index_t i = 0; i < s.count(); ++i) host.push_back(static_cast<std::int32_t>(s.keys(i)));
    return host;
  }
};

}  // namespace detail

/// The tables of these segments on the device, copied there at first use.
inline SegmentTables tables(const Segments& segments) {
  const auto held = Context::instance().lock();  // before the segments' own
  const auto device = segments.device_tables([](const Segments& s) -> std::shared_ptr<const void> {
    // These outlive repeated work, which releases all else that it makes. Its own memory is shared with other graphs, which write
    // there when they run.
    const PoolScope scope(DevicePool::instance());
    auto made = std::make_shared<detail::DeviceSegments>(s.count());
    const auto host = detail::DeviceSegments::host_tables(s);
    Staging::instance().upload(host.data(), made->memory.data(), host.size() * sizeof(std::int32_t));
    return made;
  });
  return static_cast<const detail::DeviceSegments*>(device.get())->tables;
}

}  // namespace attend::cuda

namespace attend::kernels {

/// Room on the device for the tables of `count` sentences; see Segments::room.
inline std::shared_ptr<const void> make_tables(Cuda, index_t count) {
  return std::make_shared<cuda::detail::DeviceSegments>(count);
}

/// Copies the tables of `sentences`, as many as there is room for, into the room that `make_tables` made.
inline void write_tables(Cuda, const Segments& sentences, const std::shared_ptr<const void>& room) {
  const auto host = cuda::detail::DeviceSegments::host_tables(sentences);
  const auto& to = static_cast<const cuda::detail::DeviceSegments*>(room.get())->memory;
  cuda::Staging::instance().upload(host.data(), to.data(), host.size() * sizeof(std::int32_t));
}

}  // namespace attend::kernels
