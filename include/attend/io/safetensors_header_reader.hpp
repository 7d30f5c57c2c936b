#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attend/core/error.hpp"
#include "attend/core/printable.hpp"
#include "attend/core/shape.hpp"
#include "attend/core/standard.hpp"
#include "attend/io/dtype.hpp"
#include "attend/io/json.hpp"
#include "attend/io/safetensors_header.hpp"

// How the header of a safetensors file is read: part of safetensors_header.hpp, and of compiled.cpp where a program has that.

namespace attend::detail {

/// Receives the header's JSON piece by piece and throws at the first piece that has no place there. Nothing but tensors and
/// metadata is ever stored, so that a malicious header can exhaust neither memory nor the stack.
class SafetensorsHeaderReader : public nlohmann::json_sax<io::Json> {
 public:
  explicit SafetensorsHeaderReader(const std::string& where) : where_(where) {}

  io::SafetensorsHeader take() { return std::move(header_); }

  bool null() override { unexpected("null"); }
  bool boolean(bool value) override { unexpected(value ? "true" : "false"); }
  bool number_float(number_float_t, const string_t& text) override { unexpected(text); }
  bool binary(binary_t&) override { unexpected("binary data"); }
  bool number_integer(number_integer_t value) override {
    if (value == 0) return number_unsigned(0);  // "-0"
    unexpected(std::to_string(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (place_ == Place::shape && value <= static_cast<std::uint64_t>(std::numeric_limits<index_t>::max())) {
      if (static_cast<index_t>(numbers_) == Shape::max_rank)
        fail("has more than " + std::to_string(Shape::max_rank) + " dimensions, which is the most that is supported");
      sizes_[numbers_++] = static_cast<index_t>(value);
    } else if (place_ == Place::offsets && numbers_ < 2) {
      // What no file's size can be in this program stands for all that is too far.
      offsets_[numbers_++] =
          static_cast<std::size_t>(std::min<number_unsigned_t>(value, std::numeric_limits<std::size_t>::max()));
    } else if (place_ == Place::offsets) {
      fail("has more than two data_offsets");
    } else {
      unexpected(std::to_string(value));
    }
    return true;
  }
  bool string(string_t& text) override {
    if (place_ == Place::metadata) {
      if (!header_.metadata.emplace(key_, std::move(text)).second)
        error("__metadata__ has the key '" + printable(key_) + "' twice");
    } else if (place_ == Place::tensor && key_ == "dtype") {
      const auto dtype = io::dtype_from_name(text);
      if (!dtype) fail("has the dtype '" + printable(text) + "', expected one of " + known_dtypes());
      tensor_.dtype = *dtype;
    } else {
      unexpected("a string");
    }
    return true;
  }
  bool key(string_t& text) override {
    key_ = std::move(text);
    if (place_ != Place::tensor) return true;
    const auto field = std::find(fields.begin(), fields.end(), key_);
    if (field == fields.end()) fail("has the field '" + printable(key_) + "', expected dtype, shape and data_offsets only");
    bool& seen = nth(seen_, field - fields.begin());
    if (std::exchange(seen, true)) fail("has the field " + key_ + " twice");
    return true;
  }
  bool start_object(std::size_t) override {
    if (place_ == Place::outside) {
      place_ = Place::top;
    } else if (place_ == Place::top && key_ == "__metadata__") {
      if (std::exchange(has_metadata_, true)) error("has __metadata__ twice");
      place_ = Place::metadata;
    } else if (place_ == Place::top) {
      tensor_ = {};
      tensor_.name = key_;
      seen_ = {};
      place_ = Place::tensor;
    } else {
      unexpected("an object");
    }
    return true;
  }
  bool end_object() override {
    if (place_ == Place::tensor) {
      for (std::size_t i = 0; i < fields.size(); ++i)
        if (!seen_[i]) fail("has no " + std::string(fields[i]));
      header_.tensors.push_back(std::move(tensor_));
    }
    place_ = Place::top;  // also at the very end, after which the parser allows nothing more
    return true;
  }
  bool start_array(std::size_t) override {
    if (place_ != Place::tensor || key_ == "dtype") unexpected("an array");
    place_ = key_ == "shape" ? Place::shape : Place::offsets;
    numbers_ = 0;
    return true;
  }
  bool end_array() override {
    if (place_ == Place::shape) {
      try {
        tensor_.shape = Shape(std::span<const index_t>(sizes_.data(), numbers_));
      } catch (const ShapeError& overflow) {
        fail(overflow.what());
      }
    } else {
      if (numbers_ != 2) fail("has " + std::to_string(numbers_) + " data_offsets, expected two");
      tensor_.begin = offsets_[0];
      tensor_.end = offsets_[1];
    }
    place_ = Place::tensor;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& fault) override {
    error("the header is not JSON: " + json_fault(fault.what()));
  }

 private:
  enum class Place { outside, top, metadata, tensor, shape, offsets };

  static constexpr std::array<std::string_view, 3> fields = {"dtype", "shape", "data_offsets"};

  static std::string known_dtypes() {
    std::string names;
    for (const DTypeRow& row : dtype_rows) names += (names.empty() ? "" : ", ") + std::string(row.name);
    return names;
  }

  [[noreturn]] void error(const std::string& message) const { throw FormatError(where_, message); }
  [[noreturn]] void fail(const std::string& message) const { error("tensor '" + printable(tensor_.name) + "' " + message); }
  [[noreturn]] void unexpected(const std::string& what) const {
    switch (place_) {
      case Place::outside:
        error("the header is " + what + ", expected an object");
      case Place::top:
        error("'" + printable(key_) + "' is " + what + ", expected an object");
      case Place::metadata:
        error("__metadata__ has " + what + " for '" + printable(key_) + "', expected a string");
      case Place::tensor:
        fail("has " + what + " for " + key_ + ", expected " + (key_ == "dtype" ? "a string" : "an array"));
      case Place::shape:
        fail("has " + what + " in its shape, expected whole numbers from 0 to 2^63 - 1");
      case Place::offsets:
        fail("has " + what + " in its data_offsets, expected whole numbers from 0 on");
    }
    error("has " + what + " where none belongs");
  }

  const std::string& where_;
  io::SafetensorsHeader header_;
  Place place_ = Place::outside;
  std::string key_;
  bool has_metadata_ = false;
  io::TensorInfo tensor_;                         // the one being read
  std::array<bool, 3> seen_{};                    // of its fields
  std::array<index_t, Shape::max_rank> sizes_{};  // of its shape
  std::array<std::size_t, 2> offsets_{};          // begin, end
  std::size_t numbers_ = 0;                       // in sizes_ or offsets_ so far
};

/// Throws unless the tensors' bytes are as many as their shapes need, lie end to end, and fill the data.
inline void check_safetensors_layout(std::span<const io::TensorInfo> tensors, std::size_t data_bytes, const std::string& where) {
  const auto quoted = [](const io::TensorInfo& t) { return "tensor '" + printable(t.name) + "'"; };
  const auto range = [](const io::TensorInfo& t) { return std::to_string(t.begin) + " to " + std::to_string(t.end); };
  std::vector<const io::TensorInfo*> by_place;
  by_place.reserve(tensors.size());
  for (const io::TensorInfo& t : tensors) {
    if (t.begin > t.end) throw FormatError(where, quoted(t), " has its bytes at ", range(t), ", which runs backwards");
    if (t.end > data_bytes)
      throw FormatError(where, quoted(t), " has its bytes at ", range(t), ", but the file has only ", data_bytes,
                        " bytes of data (truncated?)");
    const std::size_t bytes = t.end - t.begin, each = io::dtype_bytes(t.dtype);
    const auto count = static_cast<std::uint64_t>(t.shape.size());
    if (bytes % each != 0 || bytes / each != count)  // in this order nothing overflows
      throw FormatError(where, quoted(t), " has ", bytes, " bytes, expected ", count, " numbers (shape ", t.shape.text(), ") of ",
                        each, " bytes each (", io::dtype_name(t.dtype), ")");
    by_place.push_back(&t);
  }
  std::sort(by_place.begin(), by_place.end(), [](const io::TensorInfo* a, const io::TensorInfo* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  std::size_t covered = 0;
  const io::TensorInfo* before = nullptr;
  for (const io::TensorInfo* t : by_place) {
    if (t->begin < covered)
      throw FormatError(where, quoted(*t), " has its bytes at ", range(*t), ", and ", quoted(*before), " at ", range(*before),
                        ": they overlap");
    if (t->begin > covered)
      throw FormatError(where, "bytes ", covered, " to ", t->begin, " of the data, before ", quoted(*t), ", belong to no tensor");
    covered = t->end;
    before = t;
  }
  if (covered != data_bytes)
    throw FormatError(where, "has ", data_bytes, " bytes of data, expected ", covered, ", which is where the last tensor ends");
}

}  // namespace attend::detail

namespace attend::io {

ATTEND_INLINE SafetensorsHeader parse_safetensors_header(std::string_view text, std::size_t data_bytes,
                                                         const std::string& where) {
  if (!text.starts_with('{')) throw FormatError(where, "the header does not begin with '{'");
  if (text.find('\0') != text.npos) throw FormatError(where, "the header has a zero byte, expected JSON");
  detail::SafetensorsHeaderReader reader(where);
  Json::sax_parse(text.begin(), text.end(), &reader);
  SafetensorsHeader header = reader.take();
  const auto by_name = [](const TensorInfo& a, const TensorInfo& b) { return a.name < b.name; };
  std::sort(header.tensors.begin(), header.tensors.end(), by_name);
  const auto twice = std::adjacent_find(header.tensors.begin(), header.tensors.end(),
                                        [](const TensorInfo& a, const TensorInfo& b) { return a.name == b.name; });
  if (twice != header.tensors.end()) throw FormatError(where, "has the tensor '", detail::printable(twice->name), "' twice");
  detail::check_safetensors_layout(header.tensors, data_bytes, where);
  return header;
}

}  // namespace attend::io
