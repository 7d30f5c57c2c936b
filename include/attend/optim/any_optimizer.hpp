#pragma once

#include <array>
#include <string_view>
#include <utility>
#include <variant>

#include "attend/core/options.hpp"
#include "attend/optim/adam.hpp"
#include "attend/optim/muon.hpp"
#include "attend/optim/sgd.hpp"

namespace attend::optim {

/// Which optimizer, and with what options: `AdamWOptions{.weight_decay = 0.05}`.
using OptimizerOptions = std::variant<AdamOptions, AdamWOptions, SgdOptions, MuonOptions>;

/// Which optimizer alone, in the order of `OptimizerOptions`.
enum class OptimizerKind { adam, adamw, sgd, muon };
/// The names of its values.
constexpr auto names_of(OptimizerKind) {
  using enum OptimizerKind;
  return std::to_array<Named<OptimizerKind>>({{adam, "adam"}, {adamw, "adamw"}, {sgd, "sgd"}, {muon, "muon"}});
}
static_assert(names_of(OptimizerKind()).size() == std::variant_size_v<OptimizerOptions>);

/// `adam`, `adamw`, `sgd` or `muon`.
inline std::string_view optimizer_name(const OptimizerOptions& options) {
  return names_of(OptimizerKind())[options.index()].name;
}

/// An optimizer whose kind is chosen at run time.
template <class T, Device D = Cpu>
class AnyOptimizer {
 public:
  /// Throws ValueError for options out of range.
  AnyOptimizer(FlatParameters<T, D> parameters, const OptimizerOptions& options)
      : optimizer_(std::visit([&](const auto& o) { return make(std::move(parameters), o); }, options)) {}

  /// This member and all below: see the optimizers themselves.
  bool step() {
    return std::visit([](auto& o) { return o.step(); }, optimizer_);
  }
  bool step(double learning_rate, double gradient_scale = 1) {
    return std::visit([=](auto& o) { return o.step(learning_rate, gradient_scale); }, optimizer_);
  }
  void update(double learning_rate, double max_norm = 0) {
    std::visit([=](auto& o) { o.update(learning_rate, max_norm); }, optimizer_);
  }
  void update(double learning_rate, double max_norm, const Tensor<double, D>& squares) {
    base().update(learning_rate, max_norm, squares);
  }
  [[nodiscard]] const Tensor<UpdateRecord, D>& record() const { return base().record(); }
  void zero_grad() { base().zero_grad(); }
  [[nodiscard]] const FlatParameters<T, D>& parameters() const { return base().parameters(); }
  [[nodiscard]] double learning_rate() const { return base().learning_rate(); }
  void set_learning_rate(double value) { base().set_learning_rate(value); }
  [[nodiscard]] index_t steps() const { return base().steps(); }
  [[nodiscard]] index_t skipped() const { return base().skipped(); }
  [[nodiscard]] OptimizerState<T, D> state() const { return base().state(); }
  void restore(const OptimizerState<T, D>& state) { base().restore(state); }

 private:
  using Variant = std::variant<Adam<T, D>, AdamW<T, D>, Sgd<T, D>, Muon<T, D>>;
  using Base = OptimizerBase<T, D>;

  static Variant make(FlatParameters<T, D> p, const AdamOptions& o) { return Adam<T, D>(std::move(p), o); }
  static Variant make(FlatParameters<T, D> p, const AdamWOptions& o) { return AdamW<T, D>(std::move(p), o); }
  static Variant make(FlatParameters<T, D> p, const SgdOptions& o) { return Sgd<T, D>(std::move(p), o); }
  static Variant make(FlatParameters<T, D> p, const MuonOptions& o) { return Muon<T, D>(std::move(p), o); }
  Base& base() {
    return std::visit([](auto& o) -> Base& { return o; }, optimizer_);
  }
  const Base& base() const {
    return std::visit([](const auto& o) -> const Base& { return o; }, optimizer_);
  }

  Variant optimizer_;
};

static_assert(Optimizer<Adam<float>> && Optimizer<AdamW<float>> && Optimizer<Sgd<float>> && Optimizer<Muon<float>> &&
              Optimizer<AnyOptimizer<float>>);

}  // namespace attend::optim
