#pragma once

#include <algorithm>
#include <cstdint>

#include "attend/cuda/device/device.cuh"
#include "attend/cuda/device/segments.cuh"
#include "attend/kernels/attention.hpp"

/// What the kernels of attention have in common.
namespace attend::cuda {

/// An AttentionLayout as kernels read it. How long a sentence is, the tables alone know: they may change between two runs of a
/// captured launch.
template <class W>
struct AttentionSizes {
  SegmentTables queries, keys;
  int heads, group, d_k, d_v;
  int tiles;  ///< for how many tiles of a sentence's rows the grid has blocks
  bool causal, dropout;
  W scale, kept_scale;  ///< of the scores, and of weights that dropout keeps: 1 without it
  std::uint32_t threshold;
  RandomStream random;
  index_t q_stride, k_stride, v_stride, out_stride;
  index_t bias_sentence, bias_head, bias_query;
};

/// `longest`: the most rows that a sentence has of those which blocks share among themselves, `tile` rows each.
template <class W>
AttentionSizes<W> attention_sizes(const AttentionLayout& a, index_t longest, int tile) {
  AttentionSizes<W> s;
  s.queries = tables(a.queries), s.keys = tables(a.keys);
  s.heads = static_cast<int>(a.heads), s.group = static_cast<int>(a.group), s.d_k = static_cast<int>(a.d_k),
  s.d_v = static_cast<int>(a.d_v);
  s.tiles = static_cast<int>(std::max<index_t>(1, (longest + tile - 1) / tile));
  s.causal = a.causal, s.dropout = a.dropout > 0;
  s.scale = static_cast<W>(a.scale), s.kept_scale = static_cast<W>(1 / (1 - a.dropout));
  s.threshold = static_cast<std::uint32_t>(a.dropout * 0x1p32);
  s.random = random_stream(a.random);
  s.q_stride = a.q_stride, s.k_stride = a.k_stride, s.v_stride = a.v_stride, s.out_stride = a.out_stride;
  s.bias_sentence = a.bias_sentence, s.bias_head = a.bias_head, s.bias_query = a.bias_query;
  return s;
}
/// The blocks of a grid: one for each tile of each of `heads` heads of each sentence. Neighbours have the heads of the same rows.
template <class W>
unsigned attention_blocks(const AttentionLayout& a, const AttentionSizes<W>& sizes, index_t heads) {
  return static_cast<unsigned>(a.queries.count() * heads * sizes.tiles);
}
/// The same for all heads of queries.
template <class W>
unsigned attention_blocks(const AttentionLayout& a, const AttentionSizes<W>& sizes) {
  return attention_blocks(a, sizes, a.heads);
}

/// What a block of such a grid works on.
struct AttentionBlock {
  int sentence, head, first;  ///< `first`: of its rows among those of the sentence
  int queries, keys;          ///< of the sentence
  index_t query_row, key_row;
  bool causal;

  template <class W>
  __device__ AttentionBlock(const AttentionSizes<W>& a, int tile) : AttentionBlock(a, tile, a.heads) {}
  /// Of a grid with blocks for so many heads.
  template <class W>
  __device__ AttentionBlock(const AttentionSizes<W>& a, int tile, int heads) : causal(a.causal) {
    const int block = static_cast<int>(blockIdx.x), part = block / heads;
    head = block - part * heads;
    sentence = part / a.tiles;
    first = (part - sentence * a.tiles) * tile;
    queries = a.queries.length[sentence];
    keys = a.keys.keys[sentence];
    query_row = a.queries.begin[sentence];
    key_row = a.keys.begin[sentence];
  }

  /// The keys that the queries before `end` see.
  __device__ int seen_before(int end) const { return causal && end < keys ? end : keys; }
  __device__ bool sees(int query, int key) const { return query < queries && key < keys && (!causal || key <= query); }
  /// Where what is kept of a query's softmax stands.
  __device__ index_t kept_at(int query, int heads) const { return (query_row + query) * heads + head; }
  /// The bias of this head's query 0, or null.
  template <class T, class W>
  __device__ const T* bias(const AttentionSizes<W>& a, const T* all) const {
    return all ? all + sentence * a.bias_sentence + head * a.bias_head : nullptr;
  }
  /// scale * product + bias, or minus infinity where the query does not see the key. `bias`: that of query 0, or null.
  template <class T, class W>
  __device__ W score(const AttentionSizes<W>& a, const T* bias, int query, int key, W product) const {
    if (!sees(query, key)) return -infinity<W>();
    const W scaled = product * a.scale;
    return bias ? scaled + static_cast<W>(bias[query * a.bias_query + key]) : scaled;
  }
  /// Bit i: whether dropout keeps the weight of this query and key `key + i`, for i < 4. `key` is a multiple of 4.
  template <class W>
  __device__ unsigned kept(const AttentionSizes<W>& a, int query, int key) const {
    const auto width = static_cast<std::uint64_t>((keys + 15) / 16 * 16);  // as cpu::attention_dropout has it
    const auto task =
        static_cast<std::uint64_t>(sentence) * static_cast<std::uint64_t>(a.heads) + static_cast<std::uint64_t>(head);
    const uint4 word =
        a.random.words((task << 30) + (static_cast<std::uint64_t>(query) * width + static_cast<std::uint64_t>(key)) / 4);
    return (word.x >= a.threshold ? 1u : 0u) | (word.y >= a.threshold ? 2u : 0u) | (word.z >= a.threshold ? 4u : 0u) |
           (word.w >= a.threshold ? 8u : 0u);
  }
};

}  // namespace attend::cuda
