#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "attend/core/options.hpp"
#include "attend/core/weights_version.hpp"
#include "attend/cpu/optimizer.hpp"
#include "attend/optim/parameters.hpp"

namespace attend::optim {

/// What an optimizer remembers from step to step, besides the parameters: all that a checkpoint must keep of it.
template <class T, Device D = Cpu>
struct OptimizerState {
  /// A buffer of it by its name.
  struct Entry {
    std::string name;           ///< `first_moment`
    Tensor<Wide<T>, D> values;  // [size of the FlatParameters], or as many as the optimizer keeps
  };
  index_t steps = 0;    ///< steps taken
  index_t skipped = 0;  ///< steps left out because the gradients were not finite
  std::vector<Entry> entries;
};

/// What training needs of an optimizer.
template <class O>
concept Optimizer = requires(O& optimizer, double number) {
  { optimizer.step() } -> std::same_as<bool>;
  { optimizer.step(number, number) } -> std::same_as<bool>;
  optimizer.update(number, number);
  optimizer.zero_grad();
  optimizer.set_learning_rate(number);
  { optimizer.learning_rate() } -> std::same_as<double>;
  optimizer.restore(optimizer.state());
};

/// What all optimizers share: the parameters, the learning rate, the record of the updates, and all of a step but its rule. Of
/// parameters in bfloat16 they keep float copies, so that small updates are not lost in rounding; a parameter that somebody else
/// changed counts as it is then.
template <class T, Device D>
class OptimizerBase {
 public:
  virtual ~OptimizerBase() = default;

  /// One step with the learning rate set last. False where it was left out: see the next.
  bool step() { return step(learning_rate()); }
  /// One step with that learning rate; the gradients count `gradient_scale` times what they are. False where it was left out,
  /// because their norm was not finite (or was said not to be, see `FlatParameters::mark_not_finite`) or the scale makes it so:
  /// then weights and memory are as they were. On a GPU it waits for that answer; `update` does not. Throws ValueError for a rate
  /// that is negative and a scale that is not positive, or not finite.
  bool step(double learning_rate, double gradient_scale = 1) {
    set_learning_rate(learning_rate);
    check_value(gradient_scale > 0 && std::isfinite(gradient_scale), "optimizer", "gradient_scale is ", gradient_scale,
                ", expected more than 0");
    const bool begun = begin([&] { begin_update_scaled(D{}, parameters_.size(), gradients(), gradient_scale, record_.data()); });
    if (!begun || !record_.item().taken) return false;
    move(learning_rate);
    return true;
  }
  /// One step with that learning rate, the gradients cut down to a norm of `max_norm` (0: as they are), left out as a `step` is.
  /// Waits for no device: what came of it stands in `record()`. Throws ValueError.
  void update(double learning_rate, double max_norm = 0) {
    set_learning_rate(learning_rate);
    check_value(max_norm >= 0 && std::isfinite(max_norm), "optimizer", "max_norm is ", max_norm, ", expected 0 or more");
    if (begin([&] { begin_update(D{}, parameters_.size(), gradients(), max_norm, record_.data()); })) move(learning_rate);
  }
  /// The same of one that moves a share (`FlatParameters::share_out`) and has the gradients of that alone: `squares`, [1], is the
  /// sum of the squares of all gradients.
  void update(double learning_rate, double max_norm, const Tensor<double, D>& squares) {
    set_learning_rate(learning_rate);
    check_value(max_norm >= 0 && std::isfinite(max_norm), "optimizer", "max_norm is ", max_norm, ", expected 0 or more");
    check_shape("optimizer", "squares", squares.shape(), {1});
    if (begin([&] { begin_update_from(D{}, squares.data(), max_norm, record_.data()); })) move(learning_rate);
  }

  /// Sets all gradients to 0, for the next backward pass.
  void zero_grad() { parameters_.zero_grad(); }
  /// What it moves.
  [[nodiscard]] const FlatParameters<T, D>& parameters() const { return parameters_; }

  /// The rate that was set last.
  [[nodiscard]] double learning_rate() const { return learning_rate_; }
  /// Throws ValueError if it is negative or not finite.
  void set_learning_rate(double value) {
    check_value(value >= 0 && std::isfinite(value), "optimizer", "learning_rate is ", value, ", expected 0 or more");
    learning_rate_ = value;
  }
  /// Steps taken. On a GPU this and the next wait for it.
  [[nodiscard]] index_t steps() const { return record_.item().steps; }
  /// Steps that were left out because the norm of the gradients was not finite.
  [[nodiscard]] index_t skipped() const { return record_.item().skipped; }
  /// The record of the updates, [1], where the parameters are: for those who read it later.
  [[nodiscard]] const Tensor<UpdateRecord, D>& record() const { return record_; }

  /// The memory of the optimizer; the tensors are views into it.
  [[nodiscard]] OptimizerState<T, D> state() const {
    const UpdateRecord record = record_.item();
    OptimizerState<T, D> s{record.steps, record.skipped, {}};
    for (const auto& [name, values] : memory_) s.entries.push_back({name, values});
    return s;
  }
  /// Goes to where another optimizer of the same kind stood, over parameters of the same layout.
  /// Throws ValueError for the memory of another kind, ShapeError for that of other parameters; then nothing has changed.
  void restore(const OptimizerState<T, D>& state) {
    check_value(state.steps >= 0 && state.skipped >= 0, "optimizer", "a count in the state is negative");
    check_value(state.entries.size() == memory_.size(), "optimizer", "the state has ", state.entries.size(),
                " entries, expected ", memory_.size());
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      const auto& entry = state.entries[i];
      check_value(entry.name == memory_[i].name, "optimizer", "the state has `", entry.name, "`, expected `", memory_[i].name,
                  "`");
      check_shape("optimizer", entry.name.c_str(), entry.values.shape(), memory_[i].values.shape());
    }
    for (std::size_t i = 0; i < memory_.size(); ++i) memory_[i].values.assign(state.entries[i].values);
    record_.assign(Tensor<UpdateRecord>({1}, UpdateRecord{.steps = state.steps, .skipped = state.skipped}));
  }

 protected:
  OptimizerBase(const OptimizerBase&) = default;
  OptimizerBase(OptimizerBase&&) noexcept = default;
  OptimizerBase& operator=(const OptimizerBase&) = default;
  OptimizerBase& operator=(OptimizerBase&&) noexcept = default;

  /// The rule: moves the values by the gradients, unless `record()` says that the update is left out.
  virtual void apply(double learning_rate) = 0;

  /// What is remembered under a name: so many numbers, which begin as 0; without a size as many as there are parameters.
  struct Memory {
    const char* name;
    std::optional<index_t> size;
    /// Of that name and size.
    Memory(const char* n, std::optional<index_t> s = {}) : name(n), size(s) {}  // a name alone says enough
  };

  /// Of parameters, with the memories that the rule needs.
  OptimizerBase(FlatParameters<T, D> parameters, double learning_rate, const std::vector<Memory>& memories)
      : parameters_(std::move(parameters)) {
    set_learning_rate(learning_rate);
    const index_t n = parameters_.remembered();
    for (const auto& [name, size] : memories) memory_.push_back({name, Tensor<Wide<T>, D>({size.value_or(n)}, Wide<T>(0))});
    if constexpr (own_values) {
      memory_.push_back({"value", Tensor<Wide<T>, D>({n})});
      for (const auto& [begin, count, at] : parameters_.pieces())
        convert(D{}, count, parameters_.values().data() + begin, memory_.back().values.data() + at);
    }
    record_.assign(Tensor<UpdateRecord>({1}, UpdateRecord{}));
  }

  /// The gradients from element `begin` of the buffers on.
  [[nodiscard]] T* gradients(index_t begin = 0) const { return parameters_.gradients().data() + begin; }
  /// What the update works on, from element `begin` of a piece on, and its copy in the model's type if that is another.
  [[nodiscard]] Wide<T>* values(index_t begin) const {
    if constexpr (own_values) return memory_.back().values.data() + place(begin);
    else return parameters_.values().data() + begin;
  }
  [[nodiscard]] T* rounded(index_t begin) const { return own_values ? parameters_.values().data() + begin : nullptr; }
  /// What is remembered of a piece from element `begin` of the buffers on.
  [[nodiscard]] Wide<T>* memory(std::size_t i, index_t begin) const { return memory_[i].values.data() + place(begin); }
  /// Numbers of a memory from its number `begin` on, as a tensor that shares them.
  [[nodiscard]] Tensor<Wide<T>, D> memory(std::size_t i, index_t begin, const Shape& shape) const {
    return memory_[i].values.rows(begin, shape.size()).reshape(shape);
  }
  /// Moves `size` numbers from `begin` on by a rule, whose memory is the first that there is, as far as they are in the pieces.
  /// See `UpdateRule`.
  template <UpdateRule Rule>
  void move_by(const Rule& rule, index_t begin, index_t size) const {
    for (const auto& piece : parameters_.pieces()) {
      const index_t first = std::max(begin, piece.begin), last = std::min(begin + size, piece.begin + piece.size);
      if (first >= last) continue;
      [&]<std::size_t... i>(std::index_sequence<i...>) {
        update_by(D{}, last - first, rule, record_.data(), gradients(first), values(first), rounded(first), memory(i, first)...);
      }
      (std::make_index_sequence<Rule::memories>());
    }
  }
  /// The same of all.
  template <UpdateRule Rule>
  void move_by(const Rule& rule) const {
    move_by(rule, 0, parameters_.size());
  }

 private:
  static constexpr bool own_values = !std::same_as<T, Wide<T>>;

  /// Where what is remembered of element `begin` stands.
  [[nodiscard]] index_t place(index_t begin) const {
    const auto& pieces = parameters_.pieces();
    const auto next = std::upper_bound(pieces.begin(), pieces.end(), begin, [](index_t b, const auto& p) { return b < p.begin; });
    return begin - std::prev(next)->begin + std::prev(next)->at;
  }
  /// Lets `look` judge the gradients and count the update; false where it is known without a look that it is left out.
  template <class F>
  bool begin(F&& look) {
    if (!parameters_.finite()) {
      begin_update_left_out(D{}, record_.data());
      return false;
    }
    parameters_.gather();
    look();
    return true;
  }
  void move(double learning_rate) {
    const WeightsChange change;
    apply(learning_rate);
  }

  FlatParameters<T, D> parameters_;
  double learning_rate_ = 0;
  Tensor<UpdateRecord, D> record_{Shape{1}};
  std::vector<typename OptimizerState<T, D>::Entry> memory_;
};

}  // namespace attend::optim
