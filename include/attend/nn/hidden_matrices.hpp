#pragma once

#include <vector>

#include "attend/nn/fields.hpp"

namespace attend::nn {

/// A module whose own matrices map vectors to vectors, as `Linear`'s do: `static constexpr bool maps_vectors = true`.
template <class M>
concept MapsVectors = requires {
  requires M::maps_vectors;
};

namespace detail {

/// visit(parameter, its matrix, whether that maps vectors to vectors) for each parameter, and for q, k and v apart where they are
/// packed.
template <bool Maps, class P, class F>
void for_each_matrix(P& part, F&& visit) {
  using X = std::remove_const_t<P>;
  if constexpr (is_var<X>) {
    visit(part, part.value(), Maps);
  } else if constexpr (is_rows<X>) {
    visit(part.packed, part.packed.value().rows(part.first, part.count), Maps);
  } else if constexpr (std::is_same_v<X, Dropout>) {
  } else if constexpr (attend::detail::is_vector<X>) {
    for (auto& each : part) for_each_matrix<Maps>(each, visit);
  } else if constexpr (is_optional<X>) {
    if (part) for_each_matrix<Maps>(*part, visit);
  } else {
    const_cast<X&>(part).fields([&](const std::string&, auto&& value) { for_each_matrix<MapsVectors<X>>(value, visit); });
  }
}

}  // namespace detail

/// The matrices of a model that map vectors to vectors, q, k and v apart; not the tables that are looked up in, nor the head of a
/// Transformer, nor what is frozen. Any other `Linear` counts, even one that is used as a head, unless it shares its weight with
/// an embedding. Views [out, in] of the parameters, for optimizers that treat matrices as such: see `optim::Muon`.
template <class M>
auto hidden_matrices(const M& model) {
  std::vector<Tensor<typename M::value_type, typename M::device_type>> list;
  std::unordered_set<const void*> seen;
  detail::for_each_matrix<false>(model, [&](const auto& parameter, const auto&, bool maps) {
    if (!maps) seen.insert(parameter.value().place());
  });
  detail::for_each_matrix<false>(model, [&](const auto& parameter, const auto& matrix, bool maps) {
    if (maps && parameter.requires_grad() && matrix.rank() == 2 && !matrix.empty() && seen.insert(matrix.place()).second)
      list.push_back(matrix);
  });
  return list;
}

}  // namespace attend::nn
