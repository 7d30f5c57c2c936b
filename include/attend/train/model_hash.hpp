#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "attend/core/number_text.hpp"
#include "attend/nn/fields.hpp"
#include "attend/ops/held_rows.hpp"

namespace attend::train::detail {

/// A number that changes with any number, name and shape of a model, and with its options (FNV-1a, eight bytes at a time).
class ModelHash {
 public:
  /// A text, such as a name.
  void add(std::string_view text) {
    mix_all(text);
    mix(text.size());
  }
  /// What the model has stored, or holds, under that name.
  template <class T, Device D>
  void add(const nn::NamedTensor<T, D>& t) {
    add(t.name, t.value.to_host());
  }
  /// A tensor of that name.
  template <class T>
  void add(std::string_view name, const Tensor<T>& host) {
    add(name);
    add(host.shape().text());
    const auto bytes = [](const T* numbers, index_t count) {
      return std::string_view(reinterpret_cast<const char*>(numbers), static_cast<std::size_t>(count) * sizeof(T));
    };
    if (!host.instead()) return add(bytes(host.data(), host.size()));
    constexpr index_t step = 4096;  // an even number, so that parts are of whole words
    attend::detail::for_rows(host, step, [&, this](index_t, const kernels::Matrix<const T>& rows) {
      this->mix_all(bytes(rows.data, rows.rows * rows.columns));
    });
    mix(static_cast<std::size_t>(host.size()) * sizeof(T));
  }
  /// That number.
  [[nodiscard]] std::uint64_t value() const { return hash_; }

 private:
  void mix_all(std::string_view text) {
    for (; text.size() >= sizeof(std::uint64_t); text.remove_prefix(sizeof(std::uint64_t))) {
      std::uint64_t word = 0;
      std::memcpy(&word, text.data(), sizeof word);
      mix(word);
    }
    for (const char c : text) mix(static_cast<unsigned char>(c));
  }
  void mix(std::uint64_t word) {
    hash_ = (hash_ ^ word) * 0x100000001b3;
    hash_ ^= hash_ >> 29;  // a product alone carries nothing down to lower bits
  }
  std::uint64_t hash_ = 0xcbf29ce484222325;
};

}  // namespace attend::train::detail
