#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "attend/core/glob.hpp"
#include "attend/core/printable.hpp"
#include "attend/nn/adapter.hpp"
#include "attend/nn/fields.hpp"
#include "attend/ops/matmul.hpp"

/// Low-rank adapters of a whole model: fine-tuning that trains a small part of its numbers, beside the weights, which stay as
/// they are. Source: Hu et al. 2021, "LoRA".
namespace attend::nn {

/// A matrix that an adapter may stand beside.
template <class T, Device D>
struct Adaptable {
  std::string name;                       ///< of the module
  Rows<T, D> rows;                        ///< the matrix
  std::optional<Adapter<T, D>>& adapter;  ///< the module's own
};

namespace detail {

/// Calls visit(name, rows, adapter) for each Adaptable below `part`.
template <class P, class F>
void for_each_adaptable(const std::string& name, P& part, F&& visit) {
  using X = std::remove_const_t<P>;
  if constexpr (is_var<X> || is_rows<X> || std::is_same_v<X, Dropout>) {
  } else if constexpr (attend::detail::is_vector<X>) {
    for (std::size_t i = 0; i < part.size(); ++i) for_each_adaptable(join(name, std::to_string(i)), part[i], visit);
  } else if constexpr (is_optional<X>) {
    if (part) for_each_adaptable(name, *part, visit);
  } else if constexpr (requires { const_cast<X&>(part).adaptable(visit); }) {
    const_cast<X&>(part).adaptable(
        [&](const std::string& child, const auto& rows, auto& adapter) { visit(join(name, child), rows, adapter); });
  } else {
    const_cast<X&>(part).fields(
        [&](const std::string& child, auto&& value) { for_each_adaptable(join(name, child), value, visit); });
  }
}

}  // namespace detail

/// Every matrix of a model that an adapter may stand beside, in the order of the fields. A module says which of its matrices
/// these are by a function `adaptable`, as Linear and MultiHeadAttention do; one without it has those of its parts.
template <class M>
std::vector<Adaptable<typename M::value_type, typename M::device_type>> adaptables(const M& model) {
  using T = typename M::value_type;
  using D = typename M::device_type;
  std::vector<Adaptable<T, D>> list;
  detail::for_each_adaptable("", model,
                             [&](const std::string& name, const Rows<T, D>& rows, std::optional<Adapter<T, D>>& adapter) {
                               list.push_back({name, rows, adapter});
                             });
  return list;
}

/// The names of the modules of a model that have an adapter, in the order of the fields.
template <class M>
std::vector<std::string> adapted_modules(const M& model) {
  std::vector<std::string> names;
  for (const auto& m : adaptables(model))
    if (m.adapter) names.push_back(m.name);
  return names;
}

/// Whether any module of a model has an adapter.
template <class M>
bool has_adapters(const M& model) {
  return !adapted_modules(model).empty();
}

namespace detail {

/// Whether a module of that name is one of `modules`: see AdapterOptions.
inline bool is_named(const std::vector<std::string>& modules, const std::string& name) {
  return std::any_of(modules.begin(), modules.end(),
                     [&](const std::string& m) { return matches(m, name) || matches("*." + m, name); });
}

/// Keeps what a model was made with beside it, where it keeps that.
template <class M>
void remember_adapters(M& model, const AdapterOptions& o) {
  if constexpr (requires { model.options.adapters = o; }) model.options.adapters = o;
}

/// Whether a dropout that is added to a model drops: as those that it has do, or as in a new model if it has none.
template <class M>
bool added_dropout_training(const M& model) {
  return dropouts(model).empty() || is_training(model);
}

/// All that keeps `model` from getting such adapters, as one text.
template <class M>
std::string adapter_faults(const M& model, const AdapterOptions& o) {
  std::unordered_map<const void*, std::vector<std::string>> names_of;  // by where a tensor lies
  for (const auto& t : named_tensors(model)) names_of[t.value.place()].push_back(t.name);
  std::vector<std::string> all, unknown, twice, narrow, shared;
  std::vector<bool> used(o.modules.size(), false);
  for (const auto& [name, rows, adapter] : adaptables(model)) {
    all.push_back(name);
    for (std::size_t i = 0; i < o.modules.size(); ++i) used[i] = used[i] || is_named({o.modules[i]}, name);
    if (!is_named(o.modules, name)) continue;
    if (adapter) twice.push_back(name);
    const auto matrix = rows.packed.value().rows(rows.first, rows.count);
    if (o.rank > std::min(matrix.dim(0), matrix.dim(1))) narrow.push_back(name + " " + matrix.shape().text());
    if (const auto& names = names_of[matrix.place()]; names.size() > 1) shared.push_back(names[0] + " and " + names[1]);
  }
  for (std::size_t i = 0; i < o.modules.size(); ++i)
    if (!used[i]) unknown.push_back("`" + attend::detail::printable(o.modules[i]) + "`");
  if (!unknown.empty() && !all.empty())
    unknown.back() += " (the first of " + std::to_string(all.size()) + " is " + all.front() + ")";
  std::string faults = o.modules.empty() ? "no modules are named" : "";
  attend::detail::list_names(faults, "no module is called", unknown);
  attend::detail::list_names(faults, "with an adapter already (merge_adapters folds it in):", twice);
  attend::detail::list_names(faults, "narrower than the rank:", narrow);
  attend::detail::list_names(faults, "one matrix, which cannot become two:", shared);
  return faults;
}

}  // namespace detail

/// Gives each module that `o.modules` names a low-rank adapter, and freezes all else: training, with an optimizer that is made
/// afterwards, then moves the adapters alone. What the model computes is at first what it was. Of a Transformer,
/// `options.adapters` becomes `o`, so that it is saved and loaded with its adapters.
///
/// The matrices may hold other numbers than floats: of a model that was loaded for a precision (`io::LoadFor`), or whose matrices
/// are of 8-bit integers (`nn::quantize`). They then take a half or a quarter of the memory. Floats of a matrix are made for each
/// product with it, and what is computed is what it would be if the model held those floats (with products of another library,
/// ATTEND_GEMM, to rounding).
///
/// Copies of the model that were made before, a Translator's for example, do not get them. Returns how many there are, and how
/// many numbers they have. Throws ValueError with all that does not fit: options out of bounds, names that no module has, a rank
/// above that of a matrix, a matrix that two modules share, modules that have an adapter already. The model is then as it was.
///
///     nn::add_adapters(model, {.rank = 8, .alpha = 16, .modules = {"q_proj", "v_proj"}});
///     train::fit(model, corpus, tokenizer, {.optimizer = optim::AdamOptions{.learning_rate = 1e-3}});
///     nn::merge_adapters(model);
template <class M>
std::pair<index_t, index_t> add_adapters(M& model, const AdapterOptions& o = {}) {
  using T = typename M::value_type;
  using D = typename M::device_type;
  check_fields("add_adapters", o);
  check_value(o.rank > 0, "add_adapters", "rank is 0, expected 1 or more");
  const std::string faults = detail::adapter_faults(model, o);
  check_value(faults.empty(), "add_adapters", "rank ", o.rank, ": ", faults);
  for (const auto& p : parameters(model)) p.set_requires_grad(false);
  const bool training = detail::added_dropout_training(model);
  std::pair<index_t, index_t> added{0, 0};
  for (const auto& [name, rows, adapter] : adaptables(model)) {
    if (!detail::is_named(o.modules, name)) continue;
    adapter = Adapter<T, D>(rows.packed.dim(1), rows.count, o);
    adapter->dropout.training = training;
    ++added.first, added.second += adapter->a.size() + adapter->b.size();
  }
  detail::remember_adapters(model, o);
  return added;
}

/// Folds every adapter into its matrix, W + s B A, and takes it away: the model computes what it did, to rounding, and is as if
/// it never had any. All of it may be trained again. B becomes 0, so that copies of the model, which share its weights, go on
/// computing the same. Throws ValueError if there are no adapters.
template <class M>
void merge_adapters(M& model) {
  check_value(has_adapters(model), "merge_adapters", "the model has no adapters");
  for (const auto& m : adaptables(model))
    check_value(!m.rows.packed.value().instead(), "merge_adapters", m.name, " is of ", m.rows.packed.value().instead(),
                "; expected a model in floats");
  const NoGrad no_grad;
  for (const auto& [name, rows, adapter] : adaptables(model)) {
    if (!adapter) continue;
    const auto matrix = rows.packed.value().rows(rows.first, rows.count);
    matrix.assign((VarOf<M>(matrix) + matmul(adapter->b, adapter->a) * adapter->scale).value());
    adapter->b.value().fill(0);
    adapter.reset();
  }
  for (const auto& p : parameters(model)) p.set_requires_grad(true);
  detail::remember_adapters(model, no_adapters());
}

}  // namespace attend::nn
