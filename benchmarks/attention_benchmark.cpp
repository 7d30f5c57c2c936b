// Attention of 8 heads of width 64: on 80 sentences of 20 to 30 tokens, and on 8 of 512.

#include "attend/ops/attention.hpp"
#include "measure.hpp"

using namespace attend;

namespace {

constexpr index_t heads = 8, width = 512;

/// Two products for each pair of a query and a key that it sees; a causal query sees half of them.
Work work(const Segments& queries, const Segments& keys, bool causal) {
  double pairs = 0;
  for (index_t i = 0; i < queries.count(); ++i)
    pairs += static_cast<double>(queries.length(i) * keys.length(i)) / (causal ? 2 : 1);
  return {.flops = 4 * pairs * width, .items = static_cast<double>(queries.rows())};
}

void attention_benchmark(const std::string& name, const Segments& queries, const Segments& keys, bool causal) {
  // The backward has five products where the forward has two.
  measure_operation("attention/" + name, work(queries, keys, causal), 3.5, [=] {
    const auto q = random_parameter({queries.rows(), width}), k = random_parameter({keys.rows(), width}),
               v = random_parameter({keys.rows(), width});
    return Operation{{q, k, v}, [=] { return attention(q, k, v, queries, keys, {.heads = heads, .causal = causal}); }};
  });
}

const bool registered = [] {
  const auto sentences = sentences_of_20_to_30(80), dense = Segments::dense(8, 512);
  std::vector<index_t> reversed;
  for (index_t i = sentences.count(); i > 0; --i) reversed.push_back(sentences.length(i - 1));
  attention_benchmark("ragged_self", sentences, sentences, false);
  attention_benchmark("ragged_causal", sentences, sentences, true);
  attention_benchmark("ragged_cross", sentences, Segments::ragged(reversed), false);
  attention_benchmark("dense_8x512", dense, dense, false);
  attention_benchmark("dense_causal_8x512", dense, dense, true);
  return true;
}();

}  // namespace
