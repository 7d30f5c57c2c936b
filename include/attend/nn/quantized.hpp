#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "attend/cpu/int8.hpp"
#include "attend/nn/hidden_matrices.hpp"
#include "attend/nn/transformer.hpp"
#include "attend/ops/packed_weights.hpp"

/// Models whose matrices are 8-bit integers with a scale for each row: a quarter of the memory, for translation on the CPU.
namespace attend::nn {

/// Whether a matrix of the model is of 8-bit integers.
template <class M>
bool is_quantized(const M& model) {
  const auto all = named_tensors(model);
  return std::any_of(all.begin(), all.end(), [](const auto& t) { return t.parameter.value().quantized() != nullptr; });
}

/// Throws ValueError `operation: the model is of 8-bit integers, ...` where a matrix is, and likewise for one that was left in
/// bfloat16 (`io::LoadFor`).
template <class M>
void check_floats(const char* operation, const M& model) {
  for (const auto& t : named_tensors(model))
    check_value(!t.parameter.value().instead(), operation, "the model is of ", t.parameter.value().instead(),
                ", which are for translation; expected one in floats");
}

/// The parameters of a model that products multiply by and nothing looks up in, each once: a head that is an embedding is none.
/// Nor are the two matrices of an adapter.
template <class T, Device D>
std::vector<Var<T, D>> product_parameters(const Transformer<T, D>& model) {
  std::vector<Var<T, D>> list;
  std::unordered_set<const void*> seen{model.encoder.embed_tokens->weight.id(), model.decoder.embed_tokens->weight.id()};
  const auto add = [&](const Var<T, D>& parameter) {
    if (seen.insert(parameter.id()).second) list.push_back(parameter);
  };
  add(model.output_weight());
  detail::for_each_matrix<false>(model, [&](const auto& parameter, const auto& matrix, bool maps) {
    if (maps && matrix.rank() == 2) add(parameter);
  });
  return list;
}

/// The parameters of a model that may be of 8-bit integers, each once: those of products, and the tables of embeddings. Not the
/// tables of positions.
template <class T, Device D>
std::vector<Var<T, D>> quantizable_parameters(const Transformer<T, D>& model) {
  auto list = product_parameters(model);
  const auto &source = model.encoder.embed_tokens->weight, &target = model.decoder.embed_tokens->weight;
  list.push_back(source);
  if (target.id() != source.id()) list.push_back(target);
  return list;
}

namespace detail {

/// Whether all numbers are finite: their exponents are not all ones. A model has billions, so it is a loop that compilers
/// vectorise.
inline bool all_finite(std::span<const float> numbers) {
  constexpr std::uint32_t exponent = 0x7f800000;
  std::uint32_t worst = 0;
  for (const float x : numbers) worst = std::max(worst, std::bit_cast<std::uint32_t>(x) & exponent);
  return worst != exponent;
}

}  // namespace detail

/// The rows of a matrix in 8-bit integers: scale = max |x| / 127, x / scale to the nearest, as `Precision::int8` has them. Throws
/// ValueError, which names the matrix, if a number is not finite or rows are too long for a product.
template <class T, Device D>
QuantizedRows quantized_rows(const std::string& name, const Tensor<T, D>& matrix) {
  check_value(matrix.rank() == 2 && matrix.dim(1) <= kernels::most_int8_products, "quantize", name, " has shape ",
              matrix.shape().text(), ", expected [rows, width] of a width up to ", kernels::most_int8_products);
  const Tensor<T> host = matrix.to_host();
  Tensor<float> x;
  if (const auto* rows = host.in_bfloat16()) x = attend::detail::converted<float>(*rows);
  else if constexpr (std::same_as<T, float>) x = host;
  else x = attend::detail::converted<float>(host);
  check_value(detail::all_finite(x.span()), "quantize", name, " has a number that is not finite");
  const QuantizedRows q{Tensor<std::int8_t>(x.shape()), Tensor<float>({x.dim(0)})};
  quantize_rows(Cpu{}, kernels::Matrix<const float>(as_rows(x)), q.rows.data(), q.scales.data());
  return q;
}

/// Throws ValueError where there is nothing to be made of a model.
template <class T, Device D>
void check_quantizable(const Transformer<T, D>& model) {
  check_value(!is_quantized(model), "quantize", "the model is of 8-bit integers already");
  check_value(!has_adapters(model), "quantize", "the model has low-rank adapters; merge them into its weights first");
}

/// Replaces the matrices of the model, and so of its copies, by 8-bit integers: it takes a quarter of the memory and translates
/// as with `Precision::int8`, but for what the embeddings lose. Only searches and what scores like them
/// (`decode::TransformerModel` and what is made of it) can then use it, and adapters be trained beside what it holds
/// (`add_adapters`); all else throws ValueError. Throws ValueError for adapters, for numbers that are not finite and for a model
/// that is of 8-bit integers; the model is then as it was.
inline void quantize(const Transformer<float>& model) {
  check_quantizable(model);
  std::unordered_map<const void*, std::string> names;
  for (const auto& t : named_tensors(model)) names.emplace(t.parameter.id(), t.name);
  const auto parameters = quantizable_parameters(model);
  std::vector<Tensor<float>> made;
  for (const auto& p : parameters) made.push_back(Tensor<float>::from_quantized(quantized_rows(names[p.id()], p.value())));
  for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].set_value(made[i]);
}

}  // namespace attend::nn
