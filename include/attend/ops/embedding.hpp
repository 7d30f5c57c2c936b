#pragma once

#include <string>
#include <vector>

#include "attend/autograd/var.hpp"
#include "attend/cpu/embedding.hpp"

namespace attend {

/// Throws IndexError `operation: token 17 at position 3 is outside the vocabulary of 12` if a token is not in [0, vocabulary).
/// Reads nothing but the tokens.
template <Device D>
void check_tokens(const char* operation, const Tensor<token_t, D>& tokens, index_t vocabulary) {
  const index_t n = tokens.size(), at = find_invalid_token(D{}, kernels::TokenList{tokens.data(), n, vocabulary});
  if (at < n)
    throw IndexError(operation, ": token ", tokens.reshape({n}).rows(at, 1).item(), " at position ", at,
                     " is outside the vocabulary of ", vocabulary);
}

/// y[i] = scale * table[tokens[i]].  dtable[t] = scale * the sum of dy[i] over all i with tokens[i] = t, in the order of i.
/// Shapes: table [vocabulary, width], tokens [...], y [..., width]. Throws ShapeError; IndexError for a token outside the
/// vocabulary, before anything is read; on a GPU, which finds it in passing, when the host next waits. A table without elements
/// (`Tensor::instead`) gets no gradient. Source: Vaswani et al. 2017, section 3.4 (scale = sqrt(d_model)).
template <class T, Device D>
Var<T, D> embedding(const Var<T, D>& table, const Tensor<token_t, D>& tokens, double scale = 1) {
  if (table.shape().rank() != 2)
    throw ShapeError("embedding: table has shape ", table.shape().text(), ", expected [vocabulary, width]");
  const index_t vocabulary = table.dim(0), width = table.dim(1);
  check_tokens("embedding", tokens, vocabulary);
  std::vector<index_t> dims(tokens.shape().begin(), tokens.shape().end());
  dims.push_back(width);
  Tensor<T, D> y{Shape(dims)};  // [..., width]
  const auto factor = static_cast<Wide<T>>(scale);
  const auto list = [=] { return kernels::TokenList{tokens.data(), tokens.size(), vocabulary}; };
  if constexpr (std::same_as<T, float> && std::same_as<D, Cpu>) {
    if (const auto* rows = table.value().quantized()) {
      embedding_forward(D{}, list(), factor, kernels::as_rows(*rows), y.data());
      return Var<T, D>(std::move(y));
    }
    if (const auto* rows = table.value().in_bfloat16()) {
      embedding_forward(D{}, list(), width, factor, rows->data(), y.data());
      return Var<T, D>(std::move(y));
    }
  }
  embedding_forward(D{}, list(), width, factor, table.data(), y.data());
  return record(std::move(y), {table}, [=](const Tensor<T, D>& dy) {
    table.accumulate_with([&](auto dtable) { embedding_backward(D{}, list(), width, factor, dy.data(), dtable); });
  });
}

}  // namespace attend
