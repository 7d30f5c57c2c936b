#pragma once

#include <string>
#include <utility>
#include <vector>

#include "attend/decode/beam.hpp"
#include "attend/decode/greedy.hpp"
#include "attend/decode/transformer.hpp"
#include "attend/translate/translator_options.hpp"

/// The searches that a `generation_config.json` describes, on tokens. Of pretrained models of all families.
namespace file_search {

/// What this library finds for sources that lie end to end: a list of hypotheses for each.
inline std::vector<std::vector<attend::decode::Hypothesis>> run(const attend::nn::Transformer<float>& network,
                                                                const attend::Tensor<attend::token_t>& sources,
                                                                const attend::Segments& segments, attend::token_t bos,
                                                                attend::token_t eos, const attend::decode::TranslatorOptions& o) {
  using namespace attend;
  decode::TransformerModel<float> model(network);
  auto state = model.begin(sources, segments);
  const decode::Constraints constraints{.first = o.first,
                                        .banned = o.banned,
                                        .no_repeat_ngram = o.no_repeat_ngram,
                                        .force_end = o.force_end,
                                        .renormalize = o.renormalize,
                                        .repetition_penalty = o.repetition_penalty};
  if (o.beam > 1)
    return decode::beam_search(model, state, segments.count(),
                               {.bos = bos,
                                .eos = eos,
                                .max_length = o.max_length,
                                .min_length = o.min_length,
                                .beam = o.beam,
                                .n_best = o.n_best,
                                .alpha = o.length_penalty,
                                .normalization = o.normalization,
                                .stop = o.stop,
                                .keep_unfinished = o.keep_unfinished,
                                .constraints = constraints});
  std::vector<std::vector<decode::Hypothesis>> results;
  for (auto& h : decode::greedy(
           model, state, segments.count(),
           {.bos = bos, .eos = eos, .max_length = o.max_length, .min_length = o.min_length, .constraints = constraints}))
    results.push_back({std::move(h)});
  return results;
}

/// The tokens of a hypothesis as transformers has them, with the end token.
inline std::vector<attend::token_t> whole(const attend::decode::Hypothesis& h, attend::token_t eos,
                                          const attend::decode::TranslatorOptions& o) {
  auto tokens = h.tokens;
  // If the end is not forced, greedy search still looks whether it would come after the last token that may.
  if (h.finished && (o.force_end || o.beam > 1 || attend::count_of(tokens) < o.max_length)) tokens.push_back(eos);
  return tokens;
}

}  // namespace file_search
