// Greedy and beam search in bfloat16, with weights that have learnt nothing: such do not know when to stop, so all
// translations get one length.

#include "attend/cuda.hpp"
#include "attend/decode/beam.hpp"
#include "attend/decode/greedy.hpp"
#include "attend/decode/transformer.hpp"
#include "inputs.hpp"
#include "parts.hpp"
#include "timing.hpp"

using namespace attend;

namespace gpu {

/// decode NETWORK FILE LENGTH BEAM. Says {"tokens": of all translations}; a measurement gives {"seconds": of all sentences,
/// "result": the sum of their scores, "peak": bytes}.
void decode(Arguments arguments) {
  if (arguments.size() != 4) throw ValueError("decode: expected NETWORK FILE LENGTH BEAM");
  const auto options = transformer_options(arguments[0]);
  const index_t length = std::stoll(arguments[2]), beam = std::stoll(arguments[3]);
  seed(1);
  attend::decode::TransformerModel<bfloat16, Cuda> model{nn::Transformer<bfloat16, Cuda>(options)};

  struct Batch {
    Tensor<token_t> source;
    Segments segments;
  };
  std::vector<Batch> batches;
  Words words(options.encoder.vocabulary);
  index_t sentences = 0;
  for (const auto& pairs : read_batches(arguments[1])) {
    std::vector<token_t> tokens;
    std::vector<index_t> lengths;
    for (const auto& [n, unused] : pairs) {
      const auto sentence = words.sentence(n);
      tokens.insert(tokens.end(), sentence.begin(), sentence.end());
      tokens.push_back(end_token);
      lengths.push_back(n + 1);
    }
    batches.push_back(
        {Tensor<token_t>({static_cast<index_t>(tokens.size())}, std::span<const token_t>(tokens)), Segments::ragged(lengths)});
    sentences += batches.back().segments.count();
  }

  double score = 0;
  const auto pass = [&] {
    score = 0;
    for (const auto& [source, segments] : batches) {
      auto state = model.begin(source.to<Cuda>(), segments);
      const index_t count = segments.count();
      if (beam == 1) {
        for (const auto& h : attend::decode::greedy(model, state, count, {.max_length = length, .min_length = length}))
          score += h.score;
      } else {
        const attend::decode::BeamOptions search{.max_length = length, .min_length = length, .beam = beam};
        for (const auto& best : attend::decode::beam_search(model, state, count, search)) score += best.front().score;
      }
    }
  };
  for (int i = 0; i < 3; ++i) pass();  // the first fills the pools, the second may be captured
  reset_memory();
  serve(Line().add("tokens", static_cast<double>(sentences * length)), [&] {
    Line line;
    line.add("seconds", host_seconds(0, pass)).add("result", score);
    add_memory(line);
    return line;
  });
}

}  // namespace gpu
