#pragma once

#include <span>
#include <string>
#include <vector>

#include "attend/nn/transformer.hpp"
#include "attend/text/sentencepiece.hpp"
#include "report.hpp"

namespace translate {

/// What the attentions of a model looked at while it read a target as the translation of a source: of each layer, all heads.
struct Looks {
  std::vector<attend::AttentionWeights<float>> encoder, decoder, cross;
  attend::Tensor<float> log_probabilities{attend::Shape{0, 0}};  // [target pieces, vocabulary]
};

/// The weights of one sentence by each layer, on the processor in float.
template <class T, attend::Device D>
std::vector<attend::AttentionWeights<float>> on_host(const std::vector<attend::AttentionWeights<T, D>>& layers) {
  using namespace attend;
  std::vector<AttentionWeights<float>> all;
  for (const auto& layer : layers) {
    std::vector<float> values;
    for (index_t h = 0; h < layer.heads(); ++h)
      for (const T value : layer.matrix(0, h).values()) values.push_back(static_cast<float>(value));
    const Shape shape = layer.matrix(0, 0).shape();
    AttentionLayout layout;
    layout.queries = Segments::ragged({shape[0]}), layout.keys = Segments::ragged({shape[1]}), layout.heads = layer.heads();
    const index_t size = layout.lay_out_weights();
    all.emplace_back(Tensor<float>({size}, std::span<const float>(values)), layout);
  }
  return all;
}

/// `source` is what the encoder reads, its end included, `inputs` what the decoder reads: the begin token and the translation.
/// Row j of what the decoder looks at predicts the piece after inputs[j].
template <class T, attend::Device D>
Looks look(attend::nn::Transformer<T, D>& model, const std::vector<attend::token_t>& source,
           const std::vector<attend::token_t>& inputs) {
  using namespace attend;
  const NoGrad no_grad;
  const nn::EvaluationScope evaluation(model);
  const auto tensor = [](const std::vector<token_t>& ids) {
    return Tensor<token_t>({count_of(ids)}, std::span<const token_t>(ids)).template to<D>();
  };
  const auto alone = [](const std::vector<token_t>& ids) { return Segments::ragged({count_of(ids)}); };
  std::vector<AttentionWeights<T, D>> encoder, decoder, cross;
  const auto memory = model.encode(tensor(source), alone(source), {.self_weights = &encoder});
  const auto x = model.decode(tensor(inputs), alone(inputs), memory, {.self_weights = &decoder, .cross_weights = &cross});
  const auto logits = model.logits(x).value();
  const Tensor<Wide<T>, D> log_probabilities(logits.shape());
  log_softmax_forward(D{}, logits.dim(0), logits.dim(1), logits.data(), log_probabilities.data());
  Looks looks{on_host(encoder), on_host(decoder), on_host(cross)};
  looks.log_probabilities = log_probabilities.to_host();
  return looks;
}

/// What each decoder layer looked at in the source, mean over its heads, when the model reads `target` as the translation of
/// `source`. Row j is the look that predicted target piece j.
inline std::vector<report::AttentionMap> attention_maps(attend::nn::Transformer<float>& model,
                                                        const attend::text::SentencePiece& tokenizer, const std::string& source,
                                                        const std::string& target) {
  using namespace attend;
  auto source_ids = tokenizer.encode(source), target_ids = tokenizer.encode(target);
  source_ids.push_back(tokenizer.eos());
  std::vector<token_t> inputs{tokenizer.bos()};
  inputs.insert(inputs.end(), target_ids.begin(), target_ids.end());
  target_ids.push_back(tokenizer.eos());

  const auto pieces = [&](const std::vector<token_t>& ids) {
    std::vector<std::string> names;
    for (const token_t id : ids) names.push_back(id == tokenizer.eos() ? "end" : tokenizer.piece(id));
    return names;
  };
  std::vector<report::AttentionMap> maps;
  for (const auto& layer : look(model, source_ids, inputs).cross) {
    report::AttentionMap map{pieces(source_ids), pieces(target_ids), {}, ""};
    map.title = "Layer " + std::to_string(maps.size() + 1) + ", mean of " + std::to_string(layer.heads()) + " heads";
    map.weights.assign(target_ids.size(), std::vector<float>(source_ids.size(), 0.0f));
    for (index_t h = 0; h < layer.heads(); ++h) {
      const auto weights = layer.matrix(0, h);  // [target, source]
      for (index_t i = 0; i < weights.dim(0); ++i)
        for (index_t j = 0; j < weights.dim(1); ++j)
          nth(map.weights, i)[static_cast<std::size_t>(j)] += weights(i, j) / static_cast<float>(layer.heads());
    }
    maps.push_back(std::move(map));
  }
  return maps;
}

}  // namespace translate
