#if !defined(ATTEND_CPU_EMBEDDING) || defined(ATTEND_TARGET)
#ifndef ATTEND_TARGET
#define ATTEND_CPU_EMBEDDING

#include <algorithm>

#include "attend/core/threads.hpp"
#include "attend/core/types.hpp"
#include "attend/cpu/targets.hpp"
#endif

namespace attend::ATTEND_IN(kernels) {

  /// The position of the first token outside [0, vocabulary), or n if there is none.
  inline index_t find_invalid_token(Cpu, index_t n, index_t vocabulary, const token_t* tokens) {
    return std::find_if(tokens, tokens + n, [=](token_t token) { return token < 0 || token >= vocabulary; }) - tokens;
  }

  /// y[i] = scale * table[tokens[i]], rows of `width`; the tokens are in [0, vocabulary).
  template <class T>
  void embedding_forward(Cpu, index_t n, [[maybe_unused]] index_t vocabulary, index_t width, T scale, const T* table,
                         const token_t* tokens, T* y) {
    ATTEND_FASTEST(embedding_forward, n, vocabulary, width, scale, table, tokens, y);
    parallel_rows(n, width, [=](index_t begin, index_t end) {
      for (index_t i = begin; i < end; ++i) {
        const T* row = table + tokens[i] * width;
        T* out = y + i * width;
        for (index_t j = 0; j < width; ++j) out[j] = scale * row[j];
      }
    });
  }

  /// dtable = keep * dtable;  dtable[tokens[i]] += scale * dy[i], in the order of i. keep is 0 (dtable need not hold anything
  /// yet) or 1. Threads split the columns, so that no two write to one number.
  template <class T>
  void embedding_backward(Cpu, index_t n, index_t vocabulary, index_t width, T scale, const T* dy, const token_t* tokens, T keep,
                          T* dtable) {
    ATTEND_FASTEST(embedding_backward, n, vocabulary, width, scale, dy, tokens, keep, dtable);
    if (keep == T(0))
      parallel_rows(vocabulary, width,
                    [=](index_t begin, index_t end) { std::fill(dtable + begin * width, dtable + end * width, T(0)); });
    parallel_for(width, std::max<index_t>(32, 16384 / std::max<index_t>(1, n)), [=](index_t begin, index_t end) {
      for (index_t i = 0; i < n; ++i) {
        const T* row = dy + i * width;
        T* out = dtable + tokens[i] * width;
        for (index_t j = begin; j < end; ++j) out[j] += scale * row[j];
      }
    });
  }

}  // namespace attend::ATTEND_IN(kernels)

#if ATTEND_DISPATCH && !defined(ATTEND_TARGET)
#define ATTEND_TEXT "attend/cpu/embedding.hpp"
#include "attend/cpu/each_target.hpp"
#endif
#endif  // ATTEND_CPU_EMBEDDING
