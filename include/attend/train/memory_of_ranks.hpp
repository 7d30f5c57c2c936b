#pragma once

#include <concepts>
#include <cstddef>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "attend/optim/any_optimizer.hpp"
#include "attend/optim/average.hpp"
#include "attend/train/ranks.hpp"

namespace attend::train {

/// What the optimizer of a run remembers, whether each rank has a share of it (FitOptions::shard_optimizer) or all of it.
template <class T, Device D>
class MemoryOfRanks {
 public:
  using State = optim::OptimizerState<T, D>;

  /// What it is given must outlive it. `average` may hold nothing.
  MemoryOfRanks(const Ranks& ranks, bool sharded, const optim::AnyOptimizer<T, D>& optimizer,
                const std::optional<optim::WeightAverage<T, D>>& average)
      : ranks_(ranks), sharded_(sharded), optimizer_(optimizer), average_(average) {}

  /// What this rank's optimizer remembers, and last the average of the weights if there is one.
  [[nodiscard]] State own() const {
    auto memory = optimizer_.state();
    if (average_) memory.entries.push_back({"average", average_->values()});
    return memory;
  }
  /// Memory of all parameters, as a checkpoint has it: this rank's own if that covers them all, otherwise zeros.
  [[nodiscard]] State whole() const {
    auto memory = own();
    for (auto& entry : memory.entries)
      if (entry.values.size() != optimizer_.parameters().size())
        entry.values = Tensor<Wide<T>, D>({optimizer_.parameters().size()}, Wide<T>(0));
    return memory;
  }
  /// The memory of all ranks in rank 0, for a checkpoint; elsewhere of no use.
  [[nodiscard]] State gathered() const {
    auto own = this->own();
    if (!sharded_) return own;
    const auto shares = optimizer_.parameters().shares(ranks_.size());
    // Makes room before anything is sent: if that fails, the ranks are still in step and the run goes on.
    State whole;
    std::vector<Tensor<Wide<T>, D>> rooms;
    bool ready = true;
    if (ranks_.leads()) try {
        whole = this->whole();
        for (const auto& share : shares) rooms.emplace_back(Shape{optimizer_.parameters().remembered(share)});
      } catch (const MemoryError&) {
        ready = false;
      } catch (const std::bad_alloc&) {
        ready = false;
      }
    ranks_->broadcast(ready);
    if (!ready) throw MemoryError("fit: there is no memory to gather what the ranks' optimizers remember");
    for (std::size_t i = 0; i < own.entries.size() - (average_ ? 1 : 0); ++i) {  // the average is whole in all ranks
      if (!ranks_.leads()) {
        ranks_->send(0, own.entries[i].values);
        continue;
      }
      for (index_t rank = 0; rank < ranks_.size(); ++rank) {
        const auto& theirs = nth(rooms, rank);
        if (rank == 0) theirs.assign(own.entries[i].values);
        else ranks_->receive(rank, theirs);
        for_pieces(nth(shares, rank), whole.entries[i].values, theirs,
                   [](index_t n, Wide<T>* to, const Wide<T>* from) { copy(D{}, n, from, to); });
      }
    }
    return whole;
  }
  /// The reverse: what each rank is to remember of what rank 0 has read. `read` is null on all other ranks, and on rank 0 if it
  /// has read nothing.
  [[nodiscard]] State scattered(const State* read) const {
    auto own = optimizer_.state();
    bool restored = read != nullptr;
    ranks_->broadcast(restored);
    if (!restored) return own;
    const auto shares = optimizer_.parameters().shares(ranks_.size());
    for (std::size_t i = 0; i < own.entries.size(); ++i)
      for (index_t rank = ranks_.size() - 1; rank >= 0; --rank) {
        if (!ranks_.leads()) {
          if (rank == ranks_.rank()) ranks_->receive(0, own.entries[i].values);
          continue;
        }
        const Tensor<Wide<T>, D> theirs({optimizer_.parameters().remembered(nth(shares, rank))});
        for_pieces(nth(shares, rank), read->entries[i].values, theirs,
                   [](index_t n, const Wide<T>* from, Wide<T>* to) { copy(D{}, n, from, to); });
        if (rank > 0) ranks_->send(rank, theirs);
        else own.entries[i].values.assign(theirs);
      }
    if (ranks_.leads()) own.steps = read->steps, own.skipped = read->skipped;
    return own;
  }

 private:
  /// Calls f(piece, its elements in `whole`, its elements in `own`) for each piece.
  template <class F>
  static void for_pieces(const std::vector<typename optim::FlatParameters<T, D>::Piece>& pieces, const Tensor<Wide<T>, D>& whole,
                         const Tensor<Wide<T>, D>& own, F&& f) {
    for (const auto& [begin, size, at] : pieces) f(size, whole.data() + begin, own.data() + at);
  }

  const Ranks& ranks_;
  bool sharded_;
  const optim::AnyOptimizer<T, D>& optimizer_;
  const std::optional<optim::WeightAverage<T, D>>& average_;
};

}  // namespace attend::train
