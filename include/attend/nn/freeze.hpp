#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "attend/core/glob.hpp"
#include "attend/core/shape.hpp"
#include "attend/nn/fields.hpp"

/// Parts of a model that training leaves as they are, chosen by name.
namespace attend::nn {

/// What `freeze` or `unfreeze` found.
struct Frozen {
  index_t parameters = 0;  ///< that the pattern chose, however many names each has
  index_t values = 0;      ///< numbers in them
  /// Names that the pattern does not match, of parameters that also bear one that it does (a shared embedding): frozen along with
  /// it.
  std::vector<std::string> shared = {};
};

namespace detail {

/// Sets `requires_grad` of all that the pattern matches. Changes nothing if it throws.
template <class M>
Frozen set_frozen(const char* operation, const M& model, std::string_view pattern, bool frozen) {
  using Parameter = Var<typename M::value_type, typename M::device_type>;
  struct Found {
    explicit Found(Parameter p) : parameter(std::move(p)) {}
    Parameter parameter;
    std::vector<std::pair<index_t, index_t>> rows;  // those that a name within the pattern covers; none if it covers the whole
    bool whole = false, chosen = false;
    std::vector<std::string> inside, outside;  // names
  };
  std::unordered_map<const void*, std::size_t> index;
  std::vector<Found> all;
  const auto named = named_tensors(model);
  for (const auto& t : named) {
    const auto [at, is_new] = index.try_emplace(t.parameter.id(), all.size());
    if (is_new) all.emplace_back(t.parameter);
    Found& found = all[at->second];
    const bool chosen = matches(pattern, t.name);
    found.chosen = found.chosen || chosen;
    (chosen ? found.inside : found.outside).push_back(t.name);
    if (!chosen) continue;
    const bool whole = t.value.size() == t.parameter.size();
    found.whole = found.whole || whole;
    if (!whole) found.rows.emplace_back(t.first_row, t.first_row + t.value.dim(0));
  }
  Frozen result;
  for (Found& f : all) {
    if (!f.chosen) continue;
    if (!f.whole) {  // its parts must make up the whole
      std::sort(f.rows.begin(), f.rows.end());
      index_t end = 0;
      for (const auto& [first, last] : f.rows)
        if (first <= end) end = std::max(end, last);
      if (end != f.parameter.dim(0))
        throw ValueError(operation, ": ", f.inside.front(), " is a part of one parameter with ", f.outside.front(), ", which `",
                         pattern, "` leaves out; choose both or neither");
    }
    ++result.parameters;
    result.values += f.parameter.size();
    result.shared.insert(result.shared.end(), f.outside.begin(), f.outside.end());
  }
  if (result.parameters == 0)
    throw ValueError(operation, ": none of ", named.size(), " names matches `", pattern, "`",
                     (named.empty() ? "" : "; the first of them is " + named.front().name));
  for (const Found& f : all)
    if (f.chosen) f.parameter.set_requires_grad(!frozen);
  return result;
}

}  // namespace detail

/// Keeps every parameter whose name matches `pattern` as it is. The pattern is that of `matches`: `encoder.*`, `*.bias`.
/// Optimizers made from now on leave it alone, as do weight decay and the average of the weights, and no gradient of it is
/// computed. Dropout goes on around it.
///
/// A parameter is frozen as a whole. One that several modules share is frozen for all of them; `shared` has its other names. q, k
/// and v of an attention are one parameter, and so are the k and v of a memory of another width: a pattern must match all of its
/// names or none.
/// Throws ValueError for a pattern that matches nothing or only a part of a parameter; then nothing has changed.
///
///     nn::freeze(model, "encoder.*");
///     train::fit(model, corpus, tokenizer);  // trains the decoder
template <class M>
Frozen freeze(const M& model, std::string_view pattern) {
  return detail::set_frozen("freeze", model, pattern, true);
}

/// Lets them learn again. Throws as `freeze` does.
template <class M>
Frozen unfreeze(const M& model, std::string_view pattern) {
  return detail::set_frozen("unfreeze", model, pattern, false);
}

/// The first name of each parameter that is frozen, in the order of the fields.
template <class M>
std::vector<std::string> frozen_names(const M& model) {
  std::vector<std::string> names;
  for (const auto& t : state(model))
    if (!t.parameter.requires_grad()) names.push_back(t.name);
  return names;
}

}  // namespace attend::nn
