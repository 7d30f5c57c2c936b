#pragma once

#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "attend/core/number_text.hpp"
#include "attend/core/types.hpp"
#include "attend/io/append_file.hpp"
#include "attend/io/crc32c.hpp"

/// Event files that TensorBoard opens: `tensorboard --logdir FOLDER`.
namespace attend::train {

namespace detail {

/// A Protocol Buffers message, field by field. Source: protobuf.dev, "Encoding".
class Message {
 public:
  Message& varint(unsigned field, std::uint64_t value) {
    key(field, 0);
    raw(value);
    return *this;
  }
  Message& number(unsigned field, double value) { return fixed(field, 1, std::bit_cast<std::uint64_t>(value), 8); }
  Message& number(unsigned field, float value) { return fixed(field, 5, std::bit_cast<std::uint32_t>(value), 4); }
  Message& text(unsigned field, std::string_view bytes) {
    key(field, 2);
    raw(bytes.size());
    bytes_ += bytes;
    return *this;
  }
  Message& message(unsigned field, const Message& part) { return text(field, part.bytes_); }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  void key(unsigned field, unsigned type) { raw(field << 3 | type); }
  void raw(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }
  Message& fixed(unsigned field, unsigned type, std::uint64_t bits, int size) {
    key(field, type);
    for (int i = 0; i < size; ++i) bytes_ += static_cast<char>(bits >> (8 * i));
    return *this;
  }
  std::string bytes_;
};

/// One record of a TFRecord file: length, its checksum, the bytes, their checksum; all numbers little-endian, all checksums
/// masked. Source: tensorflow.org, "TFRecord and tf.train.Example".
inline std::string record_bytes(std::string_view data) {
  const auto little_endian = [](std::uint64_t value, int size) {
    std::string bytes;
    for (int i = 0; i < size; ++i) bytes += static_cast<char>(value >> (8 * i));
    return bytes;
  };
  const auto masked = [&](std::string_view bytes) { return little_endian(std::rotr(io::crc32c(bytes), 15) + 0xa282ead8u, 4); };
  const std::string length = little_endian(data.size(), 8);
  return length + masked(length) + std::string(data) + masked(data);
}

}  // namespace detail

/// Writes one event file. Its name is new, so that runs that go on in the same folder each have their own; TensorBoard shows them
/// as one.
class TensorBoard {
 public:
  using Scalar = std::pair<std::string_view, double>;  ///< `{"train/loss", 4.2}`

  /// Begins a file in `folder`, which is made if it is missing, of a run that goes on from step `after`: what earlier files in
  /// the folder have of later steps is no longer shown. Throws IoError.
  explicit TensorBoard(const std::filesystem::path& folder, index_t after = 0)
      : file_(folder / new_name(), io::AppendFile::Kind::fresh) {
    write(event(0).text(3, "brain.Event:2"));                            // file_version
    write(event(after + 1).message(7, detail::Message().varint(1, 1)));  // session_log: START
  }

  [[nodiscard]] const std::filesystem::path& path() const { return file_.path(); }

  /// Numbers at a step; what is NaN is left out. TensorBoard keeps them as floats. Throws IoError.
  void scalars(index_t step, std::initializer_list<Scalar> values) {
    detail::Message summary;
    for (const auto& [tag, value] : values)
      if (!std::isnan(value)) summary.message(1, detail::Message().text(1, tag).number(2, static_cast<float>(value)));
    write(event(step).message(5, summary));
  }
  /// Markdown at a step. Throws IoError.
  void text(index_t step, std::string_view tag, std::string_view markdown) {
    using detail::Message;
    const Message tensor = Message().varint(1, string_type).message(2, Message()).text(8, markdown);
    const Message metadata = Message().message(1, Message().text(1, "text")).varint(4, tensor_class);
    write(event(step).message(5, Message().message(1, Message().text(1, tag).message(8, tensor).message(9, metadata))));
  }

 private:
  static constexpr std::uint64_t string_type = 7, tensor_class = 2;

  static detail::Message event(index_t step) {
    const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
    return detail::Message().number(1, now.count()).varint(2, static_cast<std::uint64_t>(step));
  }
  void write(const detail::Message& event) { file_.write(detail::record_bytes(event.bytes())); }

  /// TensorBoard looks for `tfevents` in the name, and reads files in the order of their names.
  static std::string new_name() {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return "events.out.tfevents." + number_text(std::chrono::duration_cast<std::chrono::microseconds>(now).count()) + "." +
           attend::detail::system::host() + "." + number_text(attend::detail::system::process()) + "." +
           number_text(attend::detail::unique_number());
  }

  io::AppendFile file_;
};

}  // namespace attend::train
