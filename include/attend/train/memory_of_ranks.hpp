#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attend/io/safetensors.hpp"
#include "attend/io/safetensors_writer.hpp"
#include "attend/io/tensors.hpp"
#include "attend/optim/any_optimizer.hpp"
#include "attend/optim/average.hpp"
#include "attend/train/checkpoint.hpp"
#include "attend/train/ranks.hpp"

namespace attend::train {

/// What the optimizer of a run remembers, whether each rank has a share of it (FitOptions::shard_optimizer) or all of it. Shares
/// go into a training state and come out of it some megabytes at a time, so that no rank ever holds them all.
template <class T, Device D>
class MemoryOfRanks {
 public:
  using State = optim::OptimizerState<T, D>;
  using Numbers = Tensor<Wide<T>, D>;

  /// What it is given must outlive it. `average` may hold nothing.
  MemoryOfRanks(const Ranks& ranks, bool sharded, optim::AnyOptimizer<T, D>& optimizer,
                const std::optional<optim::WeightAverage<T, D>>& average)
      : ranks_(ranks), sharded_(sharded), optimizer_(optimizer), average_(average) {}

  /// Calls write(memory) in rank 0, where `memory` is what `write_training_state` takes: that of all ranks. Where they have
  /// shares, the others call this too, and send theirs while it is written. What `write` throws only rank 0 throws, and the ranks
  /// are still in step.
  template <class F>
  void gather(F&& write) const {
    if (!sharded_) return write(own());
    if (!ranks_.leads()) return give();
    try {
      write(Gathered(*this));
    } catch (const RankError&) {
      throw;
    } catch (...) {
      announce({none, 0});
      throw;
    }
    announce({none, 0});
  }

  /// In rank 0: reads the training state of a run that goes on, as `read_training_state` does, and what the optimizer remembers,
  /// or, where that is shared out, the place from which `share` brings it.
  template <class Model>
  TrainingState read(const std::filesystem::path& path, const RunIdentity& identity, const Model& model) {
    if (!sharded_) {
      auto memory = own();
      auto state = read_training_state(path, identity, model, memory, optimizer_.parameters().layout());
      if (average_) memory.entries.pop_back();
      optimizer_.restore(memory);
      return state;
    }
    Awaited memory;
    for (const auto& entry : optimizer_.state().entries) memory.entries.push_back({entry.name, {whole_shape(), {}}});
    if (average_) memory.entries.push_back({"average", {average_->values().shape(), average_->values()}});
    auto state = read_training_state(path, identity, model, memory, optimizer_.parameters().layout());
    restored_.emplace(Restored{io::SafetensorsFile::open(path), memory.steps, memory.skipped});
    return state;
  }
  /// In all ranks: gives each what it is to remember of what rank 0 has read, or, where it has read nothing, of what it begins
  /// with. Throws what reading throws.
  void share() {
    auto memory = optimizer_.state();
    if (restored_) memory.steps = restored_->steps, memory.skipped = restored_->skipped;
    ranks_->broadcast(memory.steps), ranks_->broadcast(memory.skipped);
    if (sharded_) scatter(memory);
    else
      for (const auto& entry : memory.entries) ranks_->broadcast(entry.values);
    optimizer_.restore(memory);
    restored_.reset();
  }

 private:
  using Pieces = std::vector<typename optim::FlatParameters<T, D>::Piece>;
  /// Elements of an entry that travel at a time.
  static constexpr index_t window = index_t{1} << 22;
  /// Which of them are wanted: those of an entry from `begin` on; of `none`: no more.
  struct Window {
    index_t entry, begin;
  };
  static constexpr index_t none = -1;
  struct Restored {
    io::SafetensorsFile file;
    index_t steps, skipped;
  };

  /// An entry of a training state that is read later, or, if `numbers` is some, at once.
  struct AwaitedNumbers {
    Shape size;
    std::optional<Numbers> numbers;
    [[nodiscard]] const Shape& shape() const { return size; }
    void read(const io::SafetensorsFile& file, std::string_view name) const {
      if (numbers) io::read_tensor_into(file, name, *numbers);
    }
  };
  struct Awaited {
    struct Entry {
      std::string name;
      AwaitedNumbers values;
    };
    index_t steps = 0, skipped = 0;
    std::vector<Entry> entries;
  };

  /// The memory of all ranks as rank 0 writes it.
  class Gathered {
   public:
    explicit Gathered(const MemoryOfRanks& memory)
        : memory_(memory), own_(memory.optimizer_.state()), shares_(memory.shares()), steps(own_.steps), skipped(own_.skipped) {}
    /// Adds what `write_training_state` would add of all entries.
    void add_to(io::SafetensorsWriter& writer) const {
      for (index_t i = 0; i < count_of(own_.entries); ++i)
        writer.add_stream("optimizer." + nth(own_.entries, i).name, io::dtype_of<Wide<T>>(), memory_.whole_shape(),
                          [this, i](io::FileSink& sink) { write(i, sink); });
      // The average is whole in all ranks.
      if (memory_.average_) io::add_tensor(writer, "optimizer.average", memory_.average_->values());
    }

   private:
    void write(index_t entry, io::FileSink& sink) const {
      for (index_t begin = 0, n; begin < memory_.whole_size(); begin += n) {
        n = std::min(window, memory_.whole_size() - begin);
        // Room is made before anything is asked for: if there is none, the ranks are still in step.
        const Numbers numbers({n}, Wide<T>(0)), room({n});
        memory_.announce({entry, begin});
        for (index_t rank = 0; rank < memory_.ranks_.size(); ++rank) {
          const auto& share = nth(shares_, rank);
          const auto [at, size] = part(share, begin, n);
          if (size == 0) continue;
          const Numbers theirs = rank == 0 ? nth(own_.entries, entry).values.rows(at, size) : room.rows(0, size);
          if (rank > 0) memory_.ranks_->receive(rank, theirs);
          for_pieces(share, begin, n, [&, first = at](index_t count, index_t to, index_t from) {
            copy(D{}, count, theirs.data() + from - first, numbers.data() + to);
          });
        }
        const Tensor<Wide<T>> host = numbers.to_host();
        attend::detail::write_floats<Wide<T>>(sink, host.span(), io::dtype_of<Wide<T>>());
      }
    }

    const MemoryOfRanks& memory_;
    State own_;
    std::vector<Pieces> shares_;

   public:
    index_t steps, skipped;
  };

  /// What this rank's optimizer remembers, and last the average of the weights if there is one.
  [[nodiscard]] State own() const {
    auto memory = optimizer_.state();
    if (average_) memory.entries.push_back({"average", average_->values()});
    return memory;
  }
  [[nodiscard]] index_t whole_size() const { return optimizer_.parameters().size(); }
  [[nodiscard]] Shape whole_shape() const { return {whole_size()}; }
  [[nodiscard]] std::vector<Pieces> shares() const { return optimizer_.parameters().shares(ranks_.size()); }

  void announce(Window next) const { ranks_->broadcast(next); }
  /// Sends rank 0 what it asks for, until it says that it has all.
  void give() const {
    const auto own = optimizer_.state();
    const auto& share = optimizer_.parameters().pieces();
    while (true) {
      Window wanted{};
      ranks_->broadcast(wanted);
      if (wanted.entry == none) return;
      const auto [at, size] = part(share, wanted.begin, std::min(window, whole_size() - wanted.begin));
      if (size > 0) ranks_->send(0, nth(own.entries, wanted.entry).values.rows(at, size));
    }
  }
  /// The reverse, if rank 0 has read something.
  void scatter(const State& own) const {
    bool restored = restored_.has_value();
    ranks_->broadcast(restored);
    if (!restored) return;
    const auto shares = this->shares();
    for (const auto& entry : own.entries)
      for (index_t begin = 0, n; begin < whole_size(); begin += n) {
        n = std::min(window, whole_size() - begin);
        if (ranks_.leads()) {
          bring("optimizer." + entry.name, entry.values, shares, {begin, n});
        } else if (const auto [at, size] = part(nth(shares, ranks_.rank()), begin, n); size > 0) {
          ranks_->receive(0, entry.values.rows(at, size));
        }
      }
  }
  /// Reads so many numbers of a tensor, and sends each rank what is its; this one's go into `own`.
  void bring(const std::string& name, const Numbers& own, const std::vector<Pieces>& shares, Communicator::Range range) const {
    const Tensor<Wide<T>> host({range.size});
    restored_->file.read_part(name, range.begin, host.span());
    const Numbers numbers = host.template to<D>(), room({range.size});
    for (index_t rank = 0; rank < ranks_.size(); ++rank) {
      const auto& share = nth(shares, rank);
      const auto [at, size] = part(share, range.begin, range.size);
      if (size == 0) continue;
      const Numbers theirs = rank == 0 ? own.rows(at, size) : room.rows(0, size);
      for_pieces(share, range.begin, range.size, [&, first = at](index_t count, index_t from, index_t to) {
        copy(D{}, count, numbers.data() + from, theirs.data() + to - first);
      });
      if (rank > 0) ranks_->send(rank, theirs);
    }
  }

  /// Calls f(how many, where in the window, where in what the rank remembers) for what a share has of a window.
  template <class F>
  static void for_pieces(const Pieces& share, index_t begin, index_t size, F&& f) {
    for (const auto& piece : share) {
      const index_t first = std::max(begin, piece.begin), last = std::min(begin + size, piece.begin + piece.size);
      if (first < last) f(last - first, first - begin, first - piece.begin + piece.at);
    }
  }
  /// The same as one: pieces that follow each other in the whole do so in what is remembered.
  struct Part {
    index_t at = 0, size = 0;
  };
  static Part part(const Pieces& share, index_t begin, index_t size) {
    Part all;
    for_pieces(share, begin, size, [&](index_t count, index_t, index_t at) {
      if (all.size == 0) all.at = at;
      all.size += count;
    });
    return all;
  }

  const Ranks& ranks_;
  bool sharded_;
  optim::AnyOptimizer<T, D>& optimizer_;
  const std::optional<optim::WeightAverage<T, D>>& average_;
  std::optional<Restored> restored_;  // what rank 0 has read for all
};

}  // namespace attend::train
