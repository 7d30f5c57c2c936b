#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attend/nn/transformer.hpp"

/// A language of letters with spaces between, `c a f e`, whose translation has the first two letters swapped, `a c f e`; and a
/// model whose weights are set by hand to say so, and to look at each letter as it says it.
namespace swapping {

using namespace attend;

/// Letters a to h are tokens 4 to 11; any other letter is the unknown token, 3; marks are passed over.
struct SpacedLetters {
  [[nodiscard]] std::vector<token_t> encode(std::string_view text) const {
    std::vector<token_t> ids;
    for (const char c : text)
      if (c >= 'a' && c <= 'z') ids.push_back(c <= 'h' ? static_cast<token_t>(4 + c - 'a') : 3);
    return ids;
  }
  [[nodiscard]] std::string decode(std::span<const token_t> tokens) const {
    std::string text;
    for (const token_t t : tokens) {
      if (t < 3) continue;
      if (!text.empty()) text += ' ';
      text += t == 3 ? '?' : static_cast<char>('a' + t - 4);
    }
    return text;
  }
  [[nodiscard]] index_t size() const { return 12; }
  [[nodiscard]] token_t pad() const { return 0; }
  [[nodiscard]] token_t bos() const { return 1; }
  [[nodiscard]] token_t eos() const { return 2; }
  [[nodiscard]] token_t unk() const { return 3; }
};

/// 12 tokens, 24 positions, one head and one decoder layer. The more `certain`, the more probable is the right letter.
inline nn::Transformer<float> model(float certain) {
  constexpr index_t tokens = 12, positions = 24, width = tokens + positions;
  nn::Transformer<float> m(nn::TransformerOptions{.vocabulary = tokens,
                                                  .d_model = width,
                                                  .heads = 1,
                                                  .d_ff = 8,
                                                  .layers = 1,
                                                  .encoder_layers = 0,
                                                  .dropout = 0,
                                                  .scale_embedding = false,
                                                  .positions = nn::PositionKind::learned,
                                                  .max_length = positions});
  // A row is one column of its token and one of its position. Queries and keys are positions, values tokens.
  for (const auto& parameter : nn::state(m)) {
    const std::string& name = parameter.name;
    const Tensor<float>& x = parameter.value;
    const auto ends = [&](std::string_view end) { return name.ends_with(end); };
    if (ends("norm.weight")) continue;
    x.fill(0);
    for (index_t t = 0; t < tokens; ++t) {
      if (ends("embed_tokens.weight")) x(t, t) = 1;
      if (ends("encoder_attn.v_proj.weight")) x(t, t) = 1;
      if (ends("encoder_attn.out_proj.weight")) x(t, t) = 20;
      if (ends("lm_head.weight")) x(t, t) = certain;
      if (ends("lm_head.bias")) x.data()[t] = 0.05f * static_cast<float>(t);  // no two tokens are alike
    }
    for (index_t p = 0; p < positions; ++p) {
      const index_t looked_at = p < 2 ? 1 - p : p;
      if (ends("embed_positions.weight")) x(p, tokens + p) = 1;
      if (ends("encoder_attn.q_proj.weight")) x(tokens + looked_at, tokens + p) = 8;
      if (ends("encoder_attn.k_proj.weight")) x(tokens + p, tokens + p) = 2;
    }
  }
  nn::set_training(m, false);
  return m;
}

}  // namespace swapping
