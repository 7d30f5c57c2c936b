#pragma once

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "attend/core/error.hpp"
#include "attend/core/tensor.hpp"
#include "attend/cpu/basic.hpp"

namespace attend::train {

/// Another rank has failed, is gone or keeps silent: what this one does is in vain.
struct RankError : Error {
  using Error::Error;
};

/// Texts as one text, and back.
inline std::string packed_texts(std::span<const std::string> texts) {
  std::string packed;
  for (const auto& text : texts) {
    const std::size_t n = text.size();
    packed.append(reinterpret_cast<const char*>(&n), sizeof n).append(text);
  }
  return packed;
}
inline std::vector<std::string> unpacked_texts(const std::string& packed) {
  std::vector<std::string> texts;
  for (std::size_t at = 0; at < packed.size();) {
    std::size_t n = packed.size();
    if (packed.size() - at >= sizeof n) std::memcpy(&n, packed.data() + at, sizeof n);
    if (n > packed.size() - at - std::min(packed.size() - at, sizeof n))
      throw RankError("ranks do not do the same: no texts came");
    texts.push_back(packed.substr(at + sizeof n, n));
    at += sizeof n + n;
  }
  return texts;
}

/// Ranks that work on one thing together: processes, of MPI say (attend/mpi.hpp), or threads. Each holds one of these, and all of
/// them call the same functions in the same order.
///
/// Another engine need only say who it is, exchange bytes with one other rank and know whether some have come; the rest is made
/// of that. Sums are added in an order that depends on the number of ranks alone, and not on which is first.
class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// 0 to size() - 1.
  [[nodiscard]] virtual index_t rank() const = 0;
  [[nodiscard]] virtual index_t size() const = 0;
  /// Sends `sent` to another rank and receives from it as many bytes as `received` has; that rank does the like with this one.
  /// Throws RankError where that does not come about.
  virtual void exchange(index_t other, std::span<const std::byte> sent, std::span<std::byte> received) = 0;
  /// Whether something that the other rank, which is expected to send, has sent lies there to be received. Throws RankError as
  /// `exchange` would that waits.
  [[nodiscard]] virtual bool waiting(index_t other) = 0;
  /// Throws RankError where a rank has said that it failed.
  virtual void look_for_failure() = 0;
  /// Tells all others that this rank ends, and why: what they exchange from now on throws a RankError that says so. Does nothing
  /// where a failure is known already.
  virtual void fail(std::string_view why) noexcept = 0;

  /// x becomes the sum of the x of all ranks, the same bits in each: of ranks 0 and 1, 2 and 3, ..., then of these sums by twos,
  /// and so on, as `PairwiseSum` adds. Each rank sends and receives 2 (size - 1) / size of x. Throws ValueError unless the number
  /// of ranks is a power of two.
  template <class T, Device D>
  void sum(const Tensor<T, D>& x) {
    if constexpr (std::same_as<D, Cpu>) {
      sum_on_host(x);
    } else {
      const Tensor<T> host = x.template to<Cpu>();
      sum_on_host(host);
      x.assign(host);
    }
  }

  /// The same in whatever order the engine is fastest in, for any number of ranks: the same bits only for as many ranks again,
  /// and in all of them.
  template <class T, Device D>
  void sum_in_any_order(const Tensor<T, D>& x) {
    if constexpr (std::same_as<D, Cpu> && (std::same_as<T, float> || std::same_as<T, double>)) {
      if (sum_by_engine(x.span())) return;
    }
    if (std::has_single_bit(static_cast<std::size_t>(size()))) return sum(x);
    const Tensor<T> host = x.template to<Cpu>();
    if (rank() > 0) send(0, host);
    for (index_t other = 1; rank() == 0 && other < size(); ++other) {
      const Tensor<T> theirs(host.shape());
      receive(other, theirs);
      add(host.size(), theirs.data(), host.data());
    }
    broadcast(host);
    if constexpr (!std::same_as<D, Cpu>) x.assign(host);
  }

  /// What rank 0 has, to all.
  void broadcast(std::span<std::byte> bytes) {
    // Whoever has it passes it on to the rank that is so far away, half as far, and so on.
    const index_t n = size(), me = rank();
    for (index_t distance = static_cast<index_t>(std::bit_ceil(static_cast<std::size_t>(n))) / 2; distance > 0; distance /= 2) {
      if (me % (2 * distance) == 0 && me + distance < n) exchange(me + distance, bytes, {});
      else if (me % (2 * distance) == distance) exchange(me - distance, {}, bytes);
    }
  }
  /// The same of a plain value, a text, or a tensor.
  template <class V>
  requires(std::is_trivially_copyable_v<V>) void broadcast(V& value) {
    broadcast(std::as_writable_bytes(std::span<V>(&value, 1)));
  }
  void broadcast(std::string& text) {
    std::size_t n = text.size();
    broadcast(n);
    text.resize(n);
    broadcast(std::as_writable_bytes(std::span<char>(text.data(), n)));
  }
  template <class T, Device D>
  void broadcast(const Tensor<T, D>& x) {
    const Tensor<T> host = x.template to<Cpu>();
    broadcast(std::as_writable_bytes(host.span()));
    if constexpr (!std::same_as<D, Cpu>) x.assign(host);
  }

  /// What each rank has, in their order, to all.
  std::vector<std::string> gather(const std::string& mine) {
    std::vector<std::string> all;
    if (rank() > 0) {
      send(0, mine);
    } else {
      all.push_back(mine);
      for (index_t other = 1; other < size(); ++other) all.push_back(receive(other));
    }
    std::string packed = packed_texts(all);
    broadcast(packed);
    return unpacked_texts(packed);
  }
  /// `bytes` are the pieces of all ranks, end to end, of that many bytes each; this rank has its own, and gets the others. Throws
  /// ValueError unless the number of ranks is a power of two.
  void gather_pieces(std::span<std::byte> bytes, std::span<const std::size_t> sizes) {
    check_power_of_two("gather_pieces");
    std::vector<std::size_t> begin{0};
    for (const std::size_t n : sizes) begin.push_back(begin.back() + n);
    for (index_t distance = 1; distance < size(); distance *= 2) {  // what 1, 2, 4, ... neighbours have already
      const auto group = [&](index_t of) {
        const auto first = static_cast<std::size_t>(of / distance * distance);
        return bytes.subspan(begin[first], begin[first + static_cast<std::size_t>(distance)] - begin[first]);
      };
      exchange(rank() ^ distance, group(rank()), group(rank() ^ distance));
    }
  }

  /// A text of any length to one other rank, which receives it.
  void send(index_t other, std::string_view text) {
    const std::size_t n = text.size();
    exchange(other, std::as_bytes(std::span(&n, 1)), {});
    if (n > 0) exchange(other, std::as_bytes(std::span(text.data(), n)), {});
  }
  /// A tensor, of which both know the shape.
  template <class T, Device D>
  void send(index_t other, const Tensor<T, D>& x) {
    exchange(other, std::as_bytes(x.template to<Cpu>().span()), {});
  }
  template <class T, Device D>
  void receive(index_t other, const Tensor<T, D>& x) {
    const Tensor<T> host = x.template to<Cpu>();
    exchange(other, {}, std::as_writable_bytes(host.span()));
    if constexpr (!std::same_as<D, Cpu>) x.assign(host);
  }
  std::string receive(index_t other) {
    std::size_t n = 0;
    exchange(other, {}, std::as_writable_bytes(std::span(&n, 1)));
    std::string text(n, '\0');
    if (n > 0) exchange(other, {}, std::as_writable_bytes(std::span(text.data(), n)));
    return text;
  }

 protected:
  /// Sums up in the engine's own way, the same bits in each rank; false if it has none.
  virtual bool sum_by_engine(std::span<float>) { return false; }
  virtual bool sum_by_engine(std::span<double>) { return false; }

 private:
  void check_power_of_two(const char* operation) const {
    check_value(std::has_single_bit(static_cast<std::size_t>(size())), operation, "there are ", size(),
                " ranks, expected a power of two");
  }
  struct Part {
    index_t begin, size;
  };

  /// Halves the part that a rank sums up with each partner, the nearest first, and gathers the parts again.
  template <class T>
  void sum_on_host(const Tensor<T>& x) {
    const index_t n = size(), me = rank();
    check_power_of_two("sum");
    constexpr index_t line = static_cast<index_t>(memory_alignment / sizeof(T));
    std::vector<Part> given;  // to each partner
    Part kept{0, x.size()};
    const Tensor<T> received({(x.size() / 2 + 2 * line)});
    for (index_t distance = 1; distance < n; distance *= 2) {
      const index_t half = std::min((kept.size / 2 + line - 1) / line * line, kept.size);
      Part low{kept.begin, half}, high{kept.begin + half, kept.size - half};
      if (me & distance) std::swap(low, high);
      kept = low;
      given.push_back(high);
      exchange(me ^ distance, bytes(x, high), writable(received, {0, kept.size}));
      add(kept.size, received.data(), x.data() + kept.begin);
    }
    for (index_t distance = n / 2; distance > 0; distance /= 2) {
      const Part other = given.back();
      given.pop_back();
      exchange(me ^ distance, bytes(x, kept), writable(x, other));
      kept = {std::min(kept.begin, other.begin), kept.size + other.size};
    }
  }
  template <class T>
  static void add(index_t n, const T* x, T* y) {
    if constexpr (std::same_as<T, Wide<T>>) {
      add_into(Cpu{}, n, x, y);
    } else {  // a type of devices, which add it up in a wider one
      for (index_t i = 0; i < n; ++i) y[i] = static_cast<T>(static_cast<Wide<T>>(y[i]) + static_cast<Wide<T>>(x[i]));
    }
  }
  template <class T>
  static std::span<const std::byte> bytes(const Tensor<T>& x, const Part& part) {
    return std::as_bytes(std::span<const T>(x.data() + part.begin, part.size));
  }
  template <class T>
  static std::span<std::byte> writable(const Tensor<T>& x, const Part& part) {
    return std::as_writable_bytes(std::span<T>(x.data() + part.begin, part.size));
  }
};

/// Adds up tensors as they come, always two sums of equally many of them: of eight ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7)), so
/// that ranks that have some of them each come to the same bits by `Communicator::sum`.
template <class T, Device D>
class PairwiseSum {
 public:
  /// Takes number `k` of `count`, a power of two, in their order. It works in x, which after the last is the
  /// sum of all. Keeps three tensors for eight.
  void add(index_t k, index_t count, const Tensor<T, D>& x) {
    if (k + 1 == count) return finish(k, x, 0, x.size());
    std::size_t level = 0;
    for (; (k >> level) & 1; ++level) add_into(D{}, x.size(), sums_[level].data(), x.data());
    if (level == sums_.size()) sums_.emplace_back(x.shape());
    sums_[level].assign(x);
  }
  /// Takes a part of the last of them, `size` elements from `begin` on; the other parts may come later.
  void finish(index_t k, const Tensor<T, D>& x, index_t begin, index_t size) {
    for (std::size_t level = 0; (k >> level) & 1; ++level) add_into(D{}, size, sums_[level].data() + begin, x.data() + begin);
  }

 private:
  std::vector<Tensor<T, D>> sums_;  // of 1, 2, 4, ... tensors
};

}  // namespace attend::train
