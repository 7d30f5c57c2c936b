#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "attend/core/options.hpp"
#include "attend/cpu/gemm.hpp"
#include "attend/cpu/muon.hpp"
#include "attend/optim/adam.hpp"
#include "attend/optim/optimizer.hpp"

namespace attend::optim {

/// See Muon.
struct MuonOptions {
  double learning_rate = 8e-3;          ///< of what is no hidden matrix
  double matrix_rate = 0.8;             ///< times learning_rate is that of the matrices
  double momentum = 0.95;               ///< of the matrices' gradients, in [0, 1)
  double beta1 = 0.9, beta2 = 0.98;     ///< Adam's, for all that is no hidden matrix, in [0, 1)
  double eps = 1e-9;                    ///< Adam's, more than 0
  double weight_decay = 0.2;            ///< the rate times this times the weight is taken off the weight, everywhere
  bool cautious = true;                 ///< no step moves a number of a matrix uphill, see Muon
  static constexpr int iterations = 5;  ///< of Newton and Schulz

  template <class F>
  static void fields(F&& field) {
    using O = MuonOptions;
    // On the command line, these flags also set the options of that name of the other optimizers.
    field("matrix_rate", &O::matrix_rate, more_than(0),
          Flag{.text = "Of muon: the matrices' learning rate as a share of the others' (0.8)", .within = between(1e-6, 1e3)});
    field("weight_decay", &O::weight_decay, at_least(0),
          Flag{.text = "Of adamw, sgd and muon (0.01, 0 and 0.2)", .within = between(0, 1e9)});
    field("cautious", &O::cautious, Flag{"Of muon: let steps move numbers of a matrix uphill, by the batch's gradient"});
    field("momentum", &O::momentum, less_than_1(), Flag{.text = "Of sgd and muon (0.9 and 0.95)", .within = between(0, 0.9999)});
    field("beta1", &O::beta1, less_than_1());
    field("beta2", &O::beta2, less_than_1());
    field("eps", &O::eps, more_than(0));
  }
};

/// Muon for the hidden matrices (see `FlatParameters::matrices`, `nn::hidden_matrices`), Adam for all else. A matrix W [out, in]
/// moves against the nearest semi-orthogonal matrix to its gradients' momentum, so that every direction moves alike:
///
///     v = momentum v + g,  u = g + momentum v,  W = (1 - rate weight_decay) W - rate 0.2 sqrt(max(out, in)) O(u)
///
/// with rate = learning_rate matrix_rate, and O(u) = A S B^T, u's singular vectors with singular values S of about 1, by five
/// steps X <- a X + b X X^T X + c X X^T X X^T X from u / |u|, (a, b, c) = (3.4445, -4.7750, 2.0315). If `cautious`, numbers of
/// O(u) whose sign is not that of g's are set to 0, since a step along them would go uphill on this batch, and the others are
/// multiplied by n / m, at most by 2, where m of n are left. The factor 0.2 sqrt(max(out, in)) makes a number of the update about
/// as large as one of Adam's. Muon costs about 20 min(out, in) additions and multiplications per weight and update: worth it if a
/// batch has many more tokens than the model has channels.
///
/// Throws ValueError for options out of range, and if no hidden matrix is known. Source: Jordan et al. 2024, "Muon: An optimizer
/// for hidden layers in neural networks"; the factor: Liu et al. 2025, "Muon is scalable for LLM training", section 2.2;
/// `cautious`: Liang et al. 2024, "Cautious optimizers: improving training with one line of code", where n / m has no limit.
template <class T, Device D = Cpu>
class Muon : public OptimizerBase<T, D> {
 public:
  /// Over these parameters, which know their hidden matrices.
  explicit Muon(FlatParameters<T, D> parameters, const MuonOptions& options = {})
      : OptimizerBase<T, D>(std::move(parameters), options.learning_rate, {"momentum", "second_moment"}), o_(options) {
    check_fields("Muon", o_);
    check_value(static_cast<Wide<T>>(o_.eps) > 0, "Muon", "eps is ", o_.eps, ", which is 0 in the parameters' type");
    check_value(!this->parameters().matrices().empty(), "Muon",
                "no hidden matrix is known: build the FlatParameters with nn::hidden_matrices(model)");
    for (const auto& matrix : this->parameters().matrices())
      for (const auto& piece : this->parameters().pieces())
        if (piece.begin <= matrix.begin && matrix.begin < piece.begin + piece.size)
          shapes_[{matrix.rows, matrix.columns}].push_back(matrix.begin);
  }
  /// `Muon(nn::parameters(model), nn::hidden_matrices(model))`.
  Muon(const std::vector<Var<T, D>>& parameters, std::vector<Tensor<T, D>> matrices, const MuonOptions& options = {})
      : Muon(FlatParameters<T, D>(parameters, std::move(matrices)), options) {}

 private:
  /// Numbers of matrices that are multiplied side by side: enough to keep all threads busy, and no more memory than a few
  /// batches.
  static constexpr index_t most_at_once = index_t{1} << 22;

  void apply(double learning_rate) override {
    if constexpr (std::same_as<D, Cpu>)
      if (!this->record().data()->taken) return;
    const AdamRule adam{.learning_rate = learning_rate,
                        .l2 = 0,
                        .shrink = 1 - learning_rate * o_.weight_decay,
                        .beta1 = o_.beta1,
                        .beta2 = o_.beta2,
                        .eps = o_.eps};
    for (const auto& [begin, size] : this->parameters().others()) this->move_by(adam, begin, size);
    for (const auto& [shape, begins] : shapes_) {
      const auto at_once = static_cast<std::size_t>(std::max<index_t>(1, most_at_once / (shape.first * shape.second)));
      for (std::size_t i = 0; i < begins.size(); i += at_once)
        move(shape.first, shape.second, begins.data() + i, static_cast<index_t>(std::min(at_once, begins.size() - i)),
             learning_rate);
    }
  }

  /// Moves `count` matrices [rows, columns], which begin at `begins` in the buffers.
  void move(index_t rows, index_t columns, const index_t* begins, index_t count, double learning_rate) const {
    using W = Wide<T>;
    using kernels::Matrices, kernels::Matrix;
    const index_t n = rows * columns, side = std::min(rows, columns), square = side * side;
    Tensor<T, D> x({count * n}), next({count * n});  // the matrices, end to end
    const Tensor<T, D> products({count * square}), sums({count * square});
    for (index_t i = 0; i < count; ++i)
      muon_momentum(D{}, n, o_.momentum, this->record().data(), this->gradients(begins[i]), this->memory(0, begins[i]),
                    x.data() + i * n);
    unit_norm(D{}, count, n, x.data());
    const auto squares_of = [=](const Tensor<T, D>& of) { return Matrices{Matrix{of.data(), side, side}, square}; };
    const bool tall = rows > columns;  // then the shorter side's products are X^T X
    for (int k = 0; k < MuonOptions::iterations; ++k) {
      const Matrices xs{Matrix{x.data(), rows, columns}, n}, nexts{Matrix{next.data(), rows, columns}, n};
      gram_batched(D{}, count, tall ? xs.transpose() : xs, squares_of(products));
      scaled_plus_identity(D{}, count, side, W(3.4445), W(-4.7750), products.data(), sums.data());
      gram_batched(D{}, count, squares_of(products).transpose(), squares_of(sums), {.alpha = 2.0315, .add = true});
      if (tall) gemm_batched(D{}, count, xs, squares_of(sums), nexts);
      else gemm_batched(D{}, count, squares_of(sums), xs, nexts);
      std::swap(x, next);
    }
    const double rate = learning_rate * o_.matrix_rate,
                 step = rate * 0.2 * std::sqrt(static_cast<double>(std::max(rows, columns)));
    const Tensor<index_t, D> kept({o_.cautious ? count : 0}, index_t{0});
    for (index_t i = 0; i < count; ++i) {
      if (o_.cautious) keep_descending(D{}, n, this->gradients(begins[i]), x.data() + i * n, kept.data() + i);
      muon_apply(D{}, n, {step, 1 - rate * o_.weight_decay, this->record().data(), o_.cautious ? kept.data() + i : nullptr},
                 x.data() + i * n, this->values(begins[i]), this->rounded(begins[i]));
    }
  }

  MuonOptions o_;
  std::map<std::pair<index_t, index_t>, std::vector<index_t>> shapes_;  // where the matrices of each [rows, columns] begin
};

}  // namespace attend::optim
