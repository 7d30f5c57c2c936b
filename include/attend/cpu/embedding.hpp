#if !defined(ATTEND_CPU_EMBEDDING) || defined(ATTEND_READING)
#ifndef ATTEND_READING
#define ATTEND_CPU_EMBEDDING

#include <algorithm>

#include "attend/core/threads.hpp"
#include "attend/core/types.hpp"
#include "attend/cpu/targets.hpp"
#include "attend/kernels/embedding.hpp"
#include "attend/kernels/int8_rows.hpp"
#include "attend/kernels/matrix.hpp"

#endif  // ATTEND_READING

namespace attend::kernels {

/// The position of the first token outside the vocabulary, or the number of tokens if there is none.
inline index_t find_invalid_token(Cpu, const TokenList& tokens) {
  return std::find_if(tokens.data, tokens.data + tokens.count,
                      [n = tokens.vocabulary](token_t token) { return token < 0 || token >= n; }) -
         tokens.data;
}

/// y[i] = scale * table[tokens[i]]; the tokens are in the vocabulary. table [vocabulary, width], y [tokens, width]. V is T or
/// bfloat16.
template <class T, class V>
void embedding_forward(Cpu, const TokenList& tokens, index_t width, T scale, const V* table, T* y) {
  ATTEND_FASTEST(embedding_forward, tokens, width, scale, table, y);
  parallel_rows(tokens.count, width, [=](index_t begin, index_t end) {
    for (index_t i = begin; i < end; ++i) {
      const V* row = table + tokens.data[i] * width;
      T* out = y + i * width;
      for (index_t j = 0; j < width; ++j) out[j] = scale * static_cast<T>(row[j]);
    }
  });
}

/// The same from a table in 8-bit integers, with the bits that it has as numbers of type T.
template <class T>
void embedding_forward(Cpu, const TokenList& tokens, T scale, const Int8Rows<T>& table, T* y) {
  ATTEND_FASTEST(embedding_forward, tokens, scale, table, y);
  const index_t width = table.columns;
  parallel_rows(tokens.count, width, [=](index_t begin, index_t end) {
    for (index_t i = begin; i < end; ++i) {
      const token_t token = tokens.data[i];
      const std::int8_t* row = table.data + token * width;
      const T of_row = table.scales[token];
      T* out = y + i * width;
      for (index_t j = 0; j < width; ++j) out[j] = scale * (of_row * static_cast<T>(row[j]));
    }
  });
}

/// dtable[t] = scale * the sum of dy[i] over all i with tokens[i] = t, in the order of i. Threads split the columns, so that no
/// two write to one number.
template <class T>
void embedding_backward(Cpu, const TokenList& tokens, index_t width, T scale, const T* dy, Gradient<T> into) {
  ATTEND_FASTEST(embedding_backward, tokens, width, scale, dy, into);
  const index_t n = tokens.count;
  T* const dtable = into.data;
  if (!into.add)
    parallel_rows(tokens.vocabulary, width,
                  [=](index_t begin, index_t end) { std::fill(dtable + begin * width, dtable + end * width, T(0)); });
  parallel_for(width, std::max<index_t>(32, 16384 / std::max<index_t>(1, n)), [=](index_t begin, index_t end) {
    for (index_t i = 0; i < n; ++i) {
      const T* row = dy + i * width;
      T* out = dtable + tokens.data[i] * width;
      for (index_t j = begin; j < end; ++j) out[j] += scale * row[j];
    }
  });
}

}  // namespace attend::kernels

#define ATTEND_READ_AGAIN "attend/cpu/embedding.hpp"
#include "attend/cpu/each_target.hpp"
#endif
