#pragma once

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "attend/core/bfloat16.hpp"
#include "attend/core/error.hpp"
#include "attend/core/number_text.hpp"
#include "attend/core/printable.hpp"
#include "attend/core/tensor.hpp"
#include "attend/cpu/basic.hpp"

namespace attend::train {

/// Another rank has failed, is gone or keeps silent: what this one does is in vain.
struct RankError : Error {
  using Error::Error;
};

/// How long a rank may keep the others waiting before it counts as lost: so many seconds, unless the environment's
/// ATTEND_RANK_SECONDS says otherwise. Throws ValueError unless that is more than 0.
inline double rank_seconds(const char* operation, double seconds) {
  if (const char* text = std::getenv("ATTEND_RANK_SECONDS"))
    check_value(parse_number(std::string_view(text), seconds), "ATTEND_RANK_SECONDS", "`", attend::detail::printable(text),
                "`, expected a number");
  check_value(seconds > 0, operation, "timeout_seconds is ", seconds, ", expected more than 0");
  return seconds;
}

/// Texts as one text, and back.
inline std::string packed_texts(std::span<const std::string> texts) {
  std::string packed;
  for (const auto& text : texts) {
    const std::size_t n = text.size();
    packed.append(reinterpret_cast<const char*>(&n), sizeof n).append(text);
  }
  return packed;
}
/// And back.
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
/// of that. Sums are added in an order that depends on the number of ranks alone, and not on which is first. An engine that
/// reaches the memory of devices exchanges it, too; with others, what lies there travels by way of the host.
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

  /// Elements of a tensor, in whatever shape, from `begin` on.
  struct Range {
    index_t begin, size;
  };
  /// Whose elements are whose: the ranges of each rank, which meet those of no other.
  using Shares = std::vector<std::vector<Range>>;

  /// x becomes the sum of the x of all ranks, the same bits in each: of ranks 0 and 1, 2 and 3, ..., then of these sums by twos,
  /// and so on, as `PairwiseSum` adds. Each rank sends and receives 2 (size - 1) / size of x. Throws ValueError unless the number
  /// of ranks is a power of two.
  template <class T, Device D>
  void sum(const Tensor<T, D>& x) {
    check_power_of_two("sum");
    const Shares shares = even_shares(x.size(), static_cast<index_t>(memory_alignment / sizeof(T)));
    where_it_travels(x, [this, &shares](const auto& there) {
      this->sum_into_shares(there, shares);
      this->bring_shares(there, shares);
    });
  }
  /// The same bits in a rank's share of x alone; the rest of x is then of no use. Sends and receives (size - 1) / size of x where
  /// shares are of one size. Throws ValueError unless the number of ranks is a power of two and there is a share for each,
  /// IndexError for one that is not within x.
  template <class T, Device D>
  void sum_shares(const Tensor<T, D>& x, const Shares& shares) {
    check_shares("sum_shares", x.size(), shares);
    where_it_travels(x, [this, &shares](const auto& there) { this->sum_into_shares(there, shares); });
  }
  /// x becomes, in all ranks, what each has in its share. Sends and receives and throws as `sum_shares`.
  template <class T, Device D>
  void gather_shares(const Tensor<T, D>& x, const Shares& shares) {
    check_shares("gather_shares", x.size(), shares);
    where_it_travels(x, [this, &shares](const auto& there) { this->bring_shares(there, shares); });
  }

  /// The same in whatever order the engine is fastest in, for any number of ranks: the same bits only for as many ranks again,
  /// and in all of them.
  template <class T, Device D>
  void sum_in_any_order(const Tensor<T, D>& x) {
    if constexpr (!std::same_as<D, Cpu>) {
      if (reaches_devices() && sum_by_engine_on_device(std::span<T>(x.data(), static_cast<std::size_t>(x.size()))))
        return finish_on_device();
    } else if constexpr (std::same_as<T, float> || std::same_as<T, double>) {
      if (sum_by_engine(x.span())) return;
    }
    if (std::has_single_bit(static_cast<std::size_t>(size()))) return sum(x);
    const Tensor<T> host = x.template to<Cpu>();
    if (rank() > 0) send(0, host);
    for (index_t other = 1; rank() == 0 && other < size(); ++other) {
      const Tensor<T> theirs(host.shape());
      receive(other, theirs);
      add(Cpu{}, host.size(), theirs.data(), host.data());
    }
    broadcast(host);
    if constexpr (!std::same_as<D, Cpu>) x.assign(host);
  }

  /// What rank 0 has, to all.
  void broadcast(std::span<std::byte> bytes) {
    pass_on([this, bytes](index_t other, bool sends) {
      if (sends) exchange(other, bytes, {});
      else exchange(other, {}, bytes);
    });
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
    where_it_travels(x, [this](const auto& there) {
      pass_on([this, &there](index_t other, bool sends) {
        this->exchange_tensors(other, sends ? &there : nullptr, sends ? nullptr : &there);
      });
    });
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
  /// A text of any length to one other rank, which receives it.
  void send(index_t other, std::string_view text) {
    const std::size_t n = text.size();
    exchange(other, std::as_bytes(std::span(&n, 1)), {});
    if (n > 0) exchange(other, std::as_bytes(std::span(text.data(), n)), {});
  }
  /// A tensor, of which both know the shape.
  template <class T, Device D>
  void send(index_t other, const Tensor<T, D>& x) {
    if constexpr (std::same_as<D, Cpu>) {
      exchange_tensors<T, D>(other, &x, nullptr);
    } else if (reaches_devices()) {
      exchange_tensors<T, D>(other, &x, nullptr);
      finish_on_device();
    } else {
      send(other, x.template to<Cpu>());
    }
  }
  template <class T, Device D>
  void receive(index_t other, const Tensor<T, D>& x) {
    where_it_travels(x, [this, other](const auto& there) { this->exchange_tensors(other, decltype(&there){nullptr}, &there); });
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

  /// The same of numbers on the device; need not wait.
  virtual bool sum_by_engine_on_device(std::span<float>) { return false; }
  virtual bool sum_by_engine_on_device(std::span<double>) { return false; }
  virtual bool sum_by_engine_on_device(std::span<bfloat16>) { return false; }

  /// Whether memory of this process's device can be exchanged without the host.
  [[nodiscard]] virtual bool reaches_devices() const { return false; }
  /// `exchange` of memory of the device, in the order of what else is launched there; of nothing it does nothing. Need not wait.
  virtual void exchange_on_device(index_t /*other*/, std::span<const std::byte> /*sent*/, std::span<std::byte> /*received*/) {}
  /// Until what was exchanged on the device is there. Throws RankError as `exchange` would.
  virtual void finish_on_device() {}

 private:
  void check_power_of_two(const char* operation) const {
    check_value(std::has_single_bit(static_cast<std::size_t>(size())), operation, "there are ", size(),
                " ranks, expected a power of two");
  }
  void check_shares(const char* operation, index_t elements, const Shares& shares) const {
    check_power_of_two(operation);
    check_value(count_of(shares) == size(), operation, "there are ", shares.size(), " shares, expected ", size());
    for (const auto& share : shares)
      for (const auto& [begin, n] : share)
        if (begin < 0 || n < 0 || begin > elements || n > elements - begin)
          throw IndexError(operation, ": elements from ", begin, " on, ", n, " of them, are not within ", elements);
  }

  /// A share for each of about the same size, whole cache lines. What ranks that are 1, 1 and 2, 1, 2 and 4, ... apart have
  /// together lies together, so that it need not be gathered before it is sent.
  [[nodiscard]] Shares even_shares(index_t elements, index_t line) const {
    Shares shares(static_cast<std::size_t>(size()));
    const index_t lines = (elements + line - 1) / line;
    for (index_t rank = 0; rank < size(); ++rank) {
      index_t place = 0;  // the rank's bits, the last first
      for (index_t bit = 1, mirrored = size() / 2; bit < size(); bit *= 2, mirrored /= 2)
        if (rank & bit) place += mirrored;
      const index_t begin = std::min(lines * place / size() * line, elements);
      nth(shares, rank) = {{begin, std::min(lines * (place + 1) / size() * line, elements) - begin}};
    }
    return shares;
  }

  /// What moves together of some ranks' shares, in the order of the elements; ranges next to each other are one.
  struct Load {
    std::vector<Range> ranges;
    index_t size = 0;
  };
  /// The shares of those ranks that differ from this one, as far as the numbers below `bits` go, by `difference`.
  [[nodiscard]] Load load(const Shares& shares, index_t bits, index_t difference) const {
    Load all;
    for (index_t rank = 0; rank < size(); ++rank)
      if (((rank ^ this->rank()) & (bits - 1)) == difference)
        for (const Range& range : nth(shares, rank))
          if (range.size > 0) all.ranges.push_back(range), all.size += range.size;
    std::sort(all.ranges.begin(), all.ranges.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
    std::size_t kept = 0;
    for (const Range& range : all.ranges) {
      if (kept > 0 && all.ranges[kept - 1].begin + all.ranges[kept - 1].size == range.begin)
        all.ranges[kept - 1].size += range.size;
      else all.ranges[kept++] = range;
    }
    all.ranges.resize(kept);
    return all;
  }

  /// f(x) where this engine can send it from: on its device, or in a copy on the host.
  template <class T, Device D, class F>
  void where_it_travels(const Tensor<T, D>& x, F&& f) {
    if constexpr (std::same_as<D, Cpu>) {
      f(x);
    } else if (reaches_devices()) {
      f(x);
      finish_on_device();
    } else {
      const Tensor<T> host = x.template to<Cpu>();
      f(host);
      x.assign(host);
    }
  }
  /// The ranges of a load as one: in x, or one after the other in memory of their own.
  template <class T, Device D>
  struct Carrier {
    Tensor<T, D> room;
    T* data = nullptr;
    index_t size = 0;

    Carrier(const Tensor<T, D>& x, const Load& load, bool in_place) : size(load.size) {
      if (in_place && load.ranges.size() <= 1) {
        data = load.ranges.empty() ? nullptr : x.data() + load.ranges.front().begin;
      } else {
        room = Tensor<T, D>({size});
        data = room.data();
      }
    }
    [[nodiscard]] bool owns() const { return !room.empty(); }
    [[nodiscard]] std::span<std::byte> bytes() const {
      return {reinterpret_cast<std::byte*>(data), static_cast<std::size_t>(size) * sizeof(T)};
    }
  };
  /// f(elements, where they lie in x, where they lie in the carrier).
  template <class T, Device D, class F>
  static void for_ranges(const Tensor<T, D>& x, const Load& load, const Carrier<T, D>& carrier, F&& f) {
    index_t at = 0;
    for (const auto& [begin, n] : load.ranges) f(n, x.data() + begin, carrier.data + std::exchange(at, at + n));
  }
  template <class T, Device D>
  Carrier<T, D> packed(const Tensor<T, D>& x, const Load& load) {
    Carrier<T, D> carrier(x, load, true);
    if (carrier.owns()) for_ranges(x, load, carrier, [](index_t n, const T* from, T* to) { copy(D{}, n, from, to); });
    return carrier;
  }
  template <Device D>
  void exchange_bytes(D, index_t other, std::span<const std::byte> sent, std::span<std::byte> received) {
    if constexpr (std::same_as<D, Cpu>) exchange(other, sent, received);
    else exchange_on_device(other, sent, received);
  }
  /// Null: nothing.
  template <class T, Device D>
  void exchange_tensors(index_t other, const Tensor<T, D>* sent, const Tensor<T, D>* received) {
    const auto bytes = [](const Tensor<T, D>* x) {
      return x ? std::span(reinterpret_cast<std::byte*>(x->data()), static_cast<std::size_t>(x->size()) * sizeof(T))
               : std::span<std::byte>();
    };
    exchange_bytes(D{}, other, bytes(sent), bytes(received));
  }
  /// What rank 0 has reaches all: whoever has it passes it on to the rank that is so far away, half as far, and so on.
  /// step(other, whether this one sends).
  template <class F>
  void pass_on(F&& step) {
    const index_t n = size(), me = rank();
    for (index_t distance = static_cast<index_t>(std::bit_ceil(static_cast<std::size_t>(n))) / 2; distance > 0; distance /= 2) {
      if (me % (2 * distance) == 0 && me + distance < n) step(me + distance, true);
      else if (me % (2 * distance) == distance) step(me - distance, false);
    }
  }
  /// With each partner, the nearest first, a rank gives away the part of what it sums up that the partner's side keeps.
  template <class T, Device D>
  void sum_into_shares(const Tensor<T, D>& x, const Shares& shares) {
    for (index_t distance = 1; distance < size(); distance *= 2) {
      const Load kept = load(shares, 2 * distance, 0);
      const auto sent = packed(x, load(shares, 2 * distance, distance));
      const Carrier<T, D> received(x, kept, false);
      exchange_bytes(D{}, rank() ^ distance, sent.bytes(), received.bytes());
      for_ranges(x, kept, received, [](index_t n, T* mine, const T* theirs) { add(D{}, n, theirs, mine); });
    }
  }
  /// The other way round: the farthest partner first.
  template <class T, Device D>
  void bring_shares(const Tensor<T, D>& x, const Shares& shares) {
    for (index_t distance = size() / 2; distance > 0; distance /= 2) {
      const Load missing = load(shares, 2 * distance, distance);
      const auto sent = packed(x, load(shares, 2 * distance, 0));
      const Carrier<T, D> received(x, missing, true);
      exchange_bytes(D{}, rank() ^ distance, sent.bytes(), received.bytes());
      if (received.owns()) for_ranges(x, missing, received, [](index_t n, T* to, const T* from) { copy(D{}, n, from, to); });
    }
  }
  template <class T, Device D>
  static void add(D, index_t n, const T* x, T* y) {
    if constexpr (!std::same_as<D, Cpu> || std::same_as<T, Wide<T>>) {
      add_into(D{}, n, x, y);
    } else {  // a type of devices, which add it up in a wider one
      for (index_t i = 0; i < n; ++i) y[i] = static_cast<T>(static_cast<Wide<T>>(y[i]) + static_cast<Wide<T>>(x[i]));
    }
  }
};

}  // namespace attend::train
