#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "attend/train/communicator.hpp"
#include "attend/train/options.hpp"

namespace attend::train {

/// Ranks that would not do the same. All of them throw it, so that nobody need be told.
struct RankMismatch : ValueError {
  using ValueError::ValueError;
};

/// A process among the ranks of a run, or alone.
class Ranks {
 public:
  /// Alone if it is null.
  explicit Ranks(std::shared_ptr<Communicator> communicator) : communicator_(std::move(communicator)) {}

  /// Whether there are others; then they are reached by * and ->.
  explicit operator bool() const { return communicator_ != nullptr; }
  Communicator& operator*() const { return *communicator_; }
  Communicator* operator->() const { return communicator_.get(); }
  /// Which one this is, and of how many.
  [[nodiscard]] index_t rank() const { return communicator_ ? communicator_->rank() : 0; }
  [[nodiscard]] index_t size() const { return communicator_ ? communicator_->size() : 1; }
  /// Whether it is this one that prints and writes.
  [[nodiscard]] bool leads() const { return rank() == 0; }
  /// Of `n` things in their order this rank has those from `first(n)` to before `last(n)`.
  [[nodiscard]] index_t first(index_t n) const { return n * rank() / size(); }
  [[nodiscard]] index_t last(index_t n) const { return n * (rank() + 1) / size(); }

  /// What each rank has, in their order; what this one has if it is alone.
  template <class V>
  std::vector<V> gather(const std::vector<V>& mine) const {
    if (!communicator_) return mine;
    std::string text(reinterpret_cast<const char*>(mine.data()), mine.size() * sizeof(V));
    text = joined(communicator_->gather(text));
    if (text.size() % sizeof(V) != 0)
      throw RankError("gather: ranks do not do the same: ", text.size(), " bytes of ", sizeof(V), " each");
    std::vector<V> all(text.size() / sizeof(V));
    if (!all.empty()) std::memcpy(all.data(), text.data(), text.size());
    return all;
  }
  std::vector<std::string> gather(const std::vector<std::string>& mine) const {
    if (!communicator_) return mine;
    std::vector<std::string> all;
    for (const auto& packed : communicator_->gather(packed_texts(mine)))
      for (auto& text : unpacked_texts(packed)) all.push_back(std::move(text));
    return all;
  }
  /// Throws RankMismatch on all ranks, with what is wrong with any of them by its number, unless all texts are empty.
  void check(const char* operation, const std::string& fault) const {
    if (!communicator_) return;
    std::string text;
    const auto all = communicator_->gather(fault);
    for (index_t k = 0; k < size(); ++k)
      if (!nth(all, k).empty()) text += (text.empty() ? "rank " : "; rank ") + std::to_string(k) + ": " + nth(all, k);
    if (!text.empty()) throw RankMismatch(operation, ": ", text);
  }

 private:
  static std::string joined(const std::vector<std::string>& texts) {
    std::string all;
    for (const auto& text : texts) all += text;
    return all;
  }
  std::shared_ptr<Communicator> communicator_;
};

/// The options of a rank: those that print, write and call back are rank 0's.
inline FitOptions options_of(const Ranks& ranks, FitOptions o) {
  if (ranks.leads()) return o;
  o.output.clear();
  o.lock = nullptr;
  o.keep_checkpoints = 0;
  o.csv.clear();
  o.tensorboard.clear();
  o.on_step = {};
  o.on_validation = {};
  o.progress.mode = ProgressMode::off;
  return o;
}

}  // namespace attend::train
