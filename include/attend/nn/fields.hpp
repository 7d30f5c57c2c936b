#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

#include "attend/autograd/var.hpp"

/// What can be done to any model by way of its `fields`: one function template per struct that names its parts,
///
///     template <class F> void fields(F&& field) { field("weight", weight); field("bias", bias); }
///
/// A part is a Var, a `Rows`, a `Dropout`, another such struct, or a vector or an optional of these.
namespace attend::nn {

/// Some rows of a packed parameter, which checkpoints store under a name of its own: q_proj of a matrix that holds q, k and v.
template <class T, Device D>
struct Rows {
  Var<T, D> packed;
  index_t first, count;
  index_t heads =
      1;  ///< how many heads share these rows; 0 where q, k and v have other numbers of them, so that no file packs them
};

/// Drops values in training and does nothing in evaluation.
struct Dropout {
  double p = 0;
  bool training = true;
};

namespace detail {

/// Whether a type is a Var.
template <class X>
inline constexpr bool is_var = false;
/// A Var is one.
template <class T, Device D>
inline constexpr bool is_var<Var<T, D>> = true;
/// Whether it is a Rows.
template <class X>
inline constexpr bool is_rows = false;
/// A Rows is one.
template <class T, Device D>
inline constexpr bool is_rows<Rows<T, D>> = true;
/// Whether it is a std::optional.
template <class X>
inline constexpr bool is_optional = false;
/// A std::optional is one.
template <class X>
inline constexpr bool is_optional<std::optional<X>> = true;

/// `prefix.name`, or the one that is not empty.
inline std::string join(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : name.empty() ? prefix : prefix + "." + name;
}

}  // namespace detail

/// Calls visit(name, leaf) for every Var, Rows and Dropout below `part`, names joined by dots:
/// `decoder.layers.0.encoder_attn.q_proj.weight`.
template <class P, class F>
void for_each_field(const std::string& name, P& part, F&& visit) {
  using X = std::remove_const_t<P>;
  if constexpr (detail::is_var<X> || detail::is_rows<X> || std::is_same_v<X, Dropout>) {
    visit(name, part);
  } else if constexpr (attend::detail::is_vector<X>) {
    for (std::size_t i = 0; i < part.size(); ++i) for_each_field(detail::join(name, std::to_string(i)), part[i], visit);
  } else if constexpr (detail::is_optional<X>) {
    if (part) for_each_field(name, *part, visit);
  } else {
    // Handles are not constant in depth, so the one `fields` serves constant models too.
    const_cast<X&>(part).fields(
        [&](const std::string& child, auto&& value) { for_each_field(detail::join(name, child), value, visit); });
  }
}

/// Hands `packed` to every part of a model that multiplies by a matrix, null to have the matrices themselves again. Its
/// parameters stay shared with the models that it was copied from, which go on multiplying by them.
template <class P, class W>
void use(P& part, const std::shared_ptr<const W>& packed) {
  using X = std::remove_const_t<P>;
  if constexpr (attend::detail::is_vector<X>) {
    for (auto& p : part) use(p, packed);
  } else if constexpr (detail::is_optional<X>) {
    if (part) use(*part, packed);
  } else if constexpr (!detail::is_var<X> && !detail::is_rows<X> && !std::is_same_v<X, Dropout>) {
    if constexpr (requires { part.packed = packed; }) part.packed = packed;
    part.fields([&](const std::string&, auto&& value) { use(value, packed); });
  }
}

/// A stored tensor of a model: its name, its value, and the parameter that it is a part of.
template <class T, Device D>
struct NamedTensor {
  std::string name;
  Tensor<T, D> value;  // a view: writing to it changes the model
  Var<T, D> parameter;
  index_t first_row;  // of `value` in the parameter
  index_t heads = 0;  // where this is q, k or v of a packed projection: how many heads share its rows

  /// The same part of the parameter's gradient. Throws Error if there is none yet.
  [[nodiscard]] Tensor<T, D> grad() const {
    if (parameter.grad().empty()) throw Error("grad: ", name, " has no gradient");
    return value.rank() == 0 ? parameter.grad() : parameter.grad().rows(first_row, value.dim(0));
  }
};

/// A NamedTensor of a model's numbers and device.
template <class M>
using NamedTensorOf = NamedTensor<typename M::value_type, typename M::device_type>;
/// A Var of them.
template <class M>
using VarOf = Var<typename M::value_type, typename M::device_type>;

/// Every stored tensor of a model with all the names it goes by, in the order of the fields. A parameter that several modules
/// share stands once for each of them.
template <class M>
std::vector<NamedTensorOf<M>> named_tensors(const M& model) {
  std::vector<NamedTensorOf<M>> list;
  for_each_field("", model, [&](const std::string& name, auto& leaf) {
    using X = std::remove_cvref_t<decltype(leaf)>;
    if constexpr (detail::is_var<X>) list.push_back({name, leaf.value(), leaf, 0, 0});
    else if constexpr (detail::is_rows<X>)
      list.push_back({name, leaf.packed.value().rows(leaf.first, leaf.count), leaf.packed, leaf.first, leaf.heads});
  });
  return list;
}

/// Every stored tensor of a model once, under the first of its names: what a checkpoint holds.
template <class M>
std::vector<NamedTensorOf<M>> state(const M& model) {
  auto all = named_tensors(model);
  std::vector<NamedTensorOf<M>> list;
  std::unordered_set<const void*> seen;
  for (auto& t : all)
    if (t.value.empty() || seen.insert(t.value.place()).second) list.push_back(std::move(t));
  return list;
}

/// Every parameter of a model once, shared ones and packed ones too.
template <class M>
std::vector<VarOf<M>> parameters(const M& model) {
  std::vector<VarOf<M>> list;
  std::unordered_set<const void*> seen;
  for (const auto& t : named_tensors(model))
    if (seen.insert(t.parameter.id()).second) list.push_back(t.parameter);
  return list;
}

/// The number of values that training may change.
template <class M>
index_t parameter_count(const M& model) {
  index_t count = 0;
  for (const auto& p : parameters(model)) count += p.requires_grad() ? p.size() : 0;
  return count;
}

/// Forgets all gradients.
template <class M>
void zero_grad(const M& model) {
  for (const auto& p : parameters(model)) p.zero_grad();
}

namespace detail {

/// Every dropout of a model. One walk through the fields serves all that is done to them: each other one would be compiled anew.
template <class M>
std::vector<Dropout*> dropouts(const M& model) {
  std::vector<Dropout*> list;
  for_each_field("", model, [&](const std::string&, auto& leaf) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(leaf)>, Dropout>) list.push_back(&leaf);
  });
  return list;
}

}  // namespace detail

/// Training mode (dropout on, as a new model has it) or evaluation mode (off).
template <class M>
void set_training(M& model, bool training) {
  for (Dropout* d : detail::dropouts(model)) d->training = training;
}

/// True where any dropout of the model is in training mode.
template <class M>
bool is_training(const M& model) {
  const auto all = detail::dropouts(model);
  return std::any_of(all.begin(), all.end(), [](const Dropout* d) { return d->training; });
}

/// Evaluation mode while it stands in scope; afterwards each dropout is in the mode from before.
class EvaluationScope {
 public:
  /// Of all dropouts in `model`, which must outlive it and have no other model assigned to it meanwhile.
  template <class M>
  explicit EvaluationScope(M& model) : dropouts_(detail::dropouts(model)) {
    for (Dropout* d : dropouts_) before_.push_back(std::exchange(d->training, false));
  }
  ~EvaluationScope() {
    for (std::size_t i = 0; i < dropouts_.size(); ++i) dropouts_[i]->training = before_[i];
  }
  EvaluationScope(const EvaluationScope&) = delete;
  EvaluationScope& operator=(const EvaluationScope&) = delete;

 private:
  std::vector<Dropout*> dropouts_;
  std::vector<bool> before_;
};

/// Copies all values of `from` into `to`, a model of the same structure. Throws ShapeError.
template <class M>
void copy_parameters(const M& from, const M& to) {
  const auto source = parameters(from), target = parameters(to);
  if (source.size() != target.size()) throw ShapeError("copy_parameters: ", source.size(), " parameters into ", target.size());
  for (std::size_t i = 0; i < source.size(); ++i) target[i].value().assign(source[i].value());
}

/// Has `to`, a model of the same structure, look at the values of `from` in place of its own; optimizers that were made before do
/// not notice. Throws ShapeError.
template <class M>
void share_parameters(const M& from, const M& to) {
  const auto source = parameters(from), target = parameters(to);
  if (source.size() != target.size()) throw ShapeError("share_parameters: ", source.size(), " parameters with ", target.size());
  for (std::size_t i = 0; i < source.size(); ++i) check_shape("share_parameters", "value", source[i].shape(), target[i].shape());
  for (std::size_t i = 0; i < source.size(); ++i) target[i].set_value(source[i].value());
}

}  // namespace attend::nn
