#pragma once

#include <algorithm>
#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "attend/autograd/var.hpp"
#include "attend/core/tensor.hpp"
#include "attend/cpu/basic.hpp"

namespace attend::optim {

/// All parameters of a model end to end in one buffer and all their gradients in another, so that an optimizer's step, the
/// norm of the gradients and a save are one pass each. The parameters stay what they were to everybody else: their values and
/// gradients become views into the buffers.
///
/// Each parameter begins on a cache line; the gap before the next one holds zeros and stays so. A parameter that is given
/// twice (tied weights) is taken once, one that requires no gradient (frozen) not at all. Copies share the buffers.
template <class T, Device D = Cpu>
class FlatParameters {
 public:
  /// A matrix [rows, columns] that begins at that element of the buffers.
  struct Matrix {
    index_t begin, rows, columns;
  };
  /// A parameter, of any shape, that begins at that element of the buffers.
  struct Place {
    index_t begin;
    Shape shape;
  };
  /// A part of the buffers.
  struct Range {
    index_t begin, size;
  };
  /// A part of the buffers of which an optimizer remembers something, from its element `at` on.
  struct Piece {
    index_t begin, size, at;
  };

  /// `matrices` are views of those parameters, or of rows of them, that an optimizer may treat as matrices: see
  /// `nn::hidden_matrices`. Throws ValueError if nothing is left to train, where a Var is the result of a computation and no
  /// parameter, and where a parameter is made of matrices in part; MemoryError, after which the values may lie in a buffer
  /// already: matrices are then to be named anew.
  explicit FlatParameters(const std::vector<Var<T, D>>& parameters, std::vector<Tensor<T, D>> matrices = {})
      : state_(std::make_shared<State>()) {
    State& s = *state_;
    for (const auto& p : parameters) {
      check_value(p.is_leaf(), "FlatParameters", "a Var of shape ", p.shape().text(), " was computed and is no parameter");
      const bool known = std::any_of(s.slots.begin(), s.slots.end(), [&](const Slot& slot) { return slot.var.id() == p.id(); });
      if (known || !p.requires_grad()) continue;
      s.slots.push_back({p, s.size});
      s.size += (p.size() + unit - 1) / unit * unit;
      s.count += p.size();
    }
    check_value(!s.slots.empty(), "FlatParameters", "none of ", parameters.size(), " parameters is trainable");
    for (const Slot& slot : s.slots) find_matrices(slot, matrices);
    s.pieces = {{0, s.size, 0}};
    s.values = Tensor<T, D>({s.size}, T(0));
    // Where parameters and gradients lay before goes back, though the views of matrices would keep it: blocks of their sizes
    // would wait in vain for tensors of a training step. The buffer of the gradients may lie where the values were.
    gather_values();
    matrices.clear();
    release_cached(D{});
    s.gradients = Tensor<T, D>({s.size}, T(0));
    gather_gradients();
    release_cached(D{});
  }

  /// [size()]: the parameters with the gaps between them.
  [[nodiscard]] const Tensor<T, D>& values() const { return state_->values; }
  /// [size()]: their gradients, in the same places.
  [[nodiscard]] const Tensor<T, D>& gradients() const { return state_->gradients; }
  /// Elements of a buffer, gaps included.
  [[nodiscard]] index_t size() const { return state_->size; }
  /// Elements of the parameters alone.
  [[nodiscard]] index_t count() const { return state_->count; }
  /// Where each parameter lies.
  [[nodiscard]] std::vector<Place> places() const {
    std::vector<Place> all;
    for (const Slot& slot : state_->slots) all.push_back({slot.begin, slot.var.shape()});
    return all;
  }
  /// The `Var::id` of each, in the same order.
  [[nodiscard]] std::vector<const void*> ids() const {
    std::vector<const void*> all;
    for (const Slot& slot : state_->slots) all.push_back(slot.var.id());
    return all;
  }
  /// The matrices that were named and are trained.
  [[nodiscard]] const std::vector<Matrix>& matrices() const { return state_->matrices; }
  /// The parameters that hold none of them, each part a whole number of cache lines.
  [[nodiscard]] const std::vector<Range>& others() const { return state_->others; }
  /// What an optimizer over these moves and remembers: all of it, or a share, see `share_out`.
  [[nodiscard]] const std::vector<Piece>& pieces() const { return state_->pieces; }
  /// Elements of the pieces.
  [[nodiscard]] index_t remembered() const { return remembered(pieces()); }
  [[nodiscard]] static index_t remembered(const std::vector<Piece>& pieces) {
    return pieces.empty() ? 0 : pieces.back().at + pieces.back().size;
  }
  /// The pieces of each of so many ranks: about the same number of elements, whole matrices, and of these about the same work for
  /// an optimizer that multiplies them.
  [[nodiscard]] std::vector<std::vector<Piece>> shares(index_t ranks) const {
    std::vector<std::vector<Range>> ranges(ranks);
    index_t others = 0, before = 0;
    for (const Range& range : state_->others) others += range.size;
    const index_t lines = (others + unit - 1) / unit;  // ranges are whole numbers of lines but for the last
    for (const Range& range : state_->others) {
      for (index_t rank = 0; rank < ranks; ++rank) {
        const index_t first = std::max(before, lines * rank / ranks * unit);
        const index_t last = std::min(before + range.size, lines * (rank + 1) / ranks * unit);
        if (first < last) nth(ranges, rank).push_back({range.begin + first - before, last - first});
      }
      before += range.size;
    }
    std::vector<Matrix> matrices = state_->matrices;
    const auto work = [](const Matrix& m) { return m.rows * m.columns * std::min(m.rows, m.columns); };
    std::stable_sort(matrices.begin(), matrices.end(), [&](const Matrix& a, const Matrix& b) { return work(a) > work(b); });
    std::vector<index_t> load(ranks, 0);
    for (const Matrix& m : matrices) {
      const auto least = static_cast<std::size_t>(std::min_element(load.begin(), load.end()) - load.begin());
      load[least] += work(m);
      ranges[least].push_back({m.begin, m.rows * m.columns});
    }
    std::vector<std::vector<Piece>> pieces;
    for (auto& own : ranges) {
      std::sort(own.begin(), own.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
      pieces.emplace_back();
      for (const Range& r : own) pieces.back().push_back({r.begin, r.size, remembered(pieces.back())});
    }
    return pieces;
  }
  /// Leaves all but the share of one rank to others: an optimizer that is made afterwards moves and remembers no more, and
  /// whoever calls its `step` brings the values of the other shares. The gradients are those of all, or, for an `update` that is
  /// told the sum of their squares, those of the share.
  void share_out(index_t rank, index_t ranks) const { state_->pieces = nth(shares(ranks), rank); }
  /// `[512, 512] [512] ...`: the shapes in their order. Buffers of an equal layout may be copied into each other.
  [[nodiscard]] std::string layout() const {
    std::string text;
    for (const Slot& slot : state_->slots) text += (text.empty() ? "" : " ") + slot.var.shape().text();
    return text;
  }

  /// Sets all gradients to zero, and forgets that they were not finite.
  void zero_grad() const {
    gather();
    state_->gradients.fill(T(0));
    state_->finite = true;
  }

  /// Takes parameters whose value or gradient was replaced meanwhile (a model was loaded into them, another optimizer took
  /// them over) back into the buffers, with what they hold now. Whoever works on the buffers calls it first; it costs nothing
  /// if nothing was replaced.
  void gather() const {
    gather_values();
    gather_gradients();
  }

  /// Says that the gradients hold an infinity or a NaN: optimizers then leave the weights as they are until `zero_grad`.
  void mark_not_finite() const { state_->finite = false; }
  [[nodiscard]] bool finite() const { return state_->finite; }

 private:
  static constexpr index_t unit = static_cast<index_t>(memory_alignment / sizeof(T));
  struct Slot {
    Var<T, D> var;
    index_t begin;

    [[nodiscard]] Tensor<T, D> view_of(const Tensor<T, D>& buffer) const {
      return buffer.rows(begin, var.size()).reshape(var.shape());
    }
  };
  struct State {
    std::vector<Slot> slots;
    std::vector<Matrix> matrices;
    std::vector<Range> others;
    std::vector<Piece> pieces;
    Tensor<T, D> values, gradients;
    index_t size = 0, count = 0;
    bool finite = true;
  };

  void gather_values() const {
    for (const Slot& slot : state_->slots) {
      if (slot.var.data() == state_->values.data() + slot.begin) continue;
      const auto value = slot.view_of(state_->values);
      value.assign(slot.var.value());
      slot.var.set_value(value);
    }
  }
  void gather_gradients() const {
    for (const Slot& slot : state_->slots) {
      const auto& own = slot.var.grad();
      if (own.data() == state_->gradients.data() + slot.begin) continue;
      const auto gradient = slot.view_of(state_->gradients);
      if (own.empty()) gradient.fill(T(0));
      else gradient.assign(own);
      slot.var.set_grad_buffer(gradient);
    }
  }

  /// Sorts a parameter, which is not in the buffer yet: what matrices it is made of, or that it is made of none.
  void find_matrices(const Slot& slot, const std::vector<Tensor<T, D>>& matrices) const {
    State& s = *state_;
    const T* first = slot.var.data();
    std::vector<Range> found;
    for (const auto& matrix : matrices) {
      const std::less<const T*> before;
      if (matrix.rank() != 2 || before(matrix.data(), first) || !before(matrix.data(), first + slot.var.size())) continue;
      s.matrices.push_back({slot.begin + (matrix.data() - first), matrix.dim(0), matrix.dim(1)});
      found.push_back({matrix.data() - first, matrix.size()});
    }
    if (!found.empty()) {
      std::sort(found.begin(), found.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
      index_t covered = 0;
      const bool end_to_end = std::all_of(found.begin(), found.end(),
                                          [&](const Range& r) { return std::exchange(covered, covered + r.size) == r.begin; });
      check_value(end_to_end && covered == slot.var.size(), "FlatParameters",
                  "matrices must make up the whole of a parameter, each number once: that of shape ", slot.var.shape().text(),
                  " is not");
      return;
    }
    const index_t size = (slot.var.size() + unit - 1) / unit * unit;
    if (!s.others.empty() && s.others.back().begin + s.others.back().size == slot.begin) s.others.back().size += size;
    else s.others.push_back({slot.begin, size});
  }

  std::shared_ptr<State> state_;
};

}  // namespace attend::optim
