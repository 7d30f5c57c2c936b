#include "attend/nn/quantized.hpp"

#include <algorithm>

#include "attend/decode/transformer.hpp"
#include "catch.hpp"
#include "nn/check.hpp"

using namespace attend;

namespace {

nn::TransformerOptions options(bool one_matrix) {
  return {.vocabulary = 71,
          .d_model = 24,
          .heads = 2,
          .d_ff = 40,
          .layers = 2,
          .max_length = 32,
          .share_embeddings = one_matrix,
          .tie_head = one_matrix};
}

/// A model whose embeddings lose nothing in 8 bits: each row has -127 to 127 times a power of two, and one of them is the
/// largest.
nn::Transformer<float> model(bool one_matrix) {
  seed(9);
  nn::Transformer<float> m(options(one_matrix));
  test::randomise(m, 0.2);
  for (const auto* table : {&m.encoder.embed_tokens->weight, &m.decoder.embed_tokens->weight})
    for (index_t i = 0; i < table->dim(0); ++i)
      for (index_t j = 0; j < table->dim(1); ++j)
        table->value()(i, j) = static_cast<float>(j == i % 24 ? 127 : (37 * i + 11 * j) % 255 - 127) / 128;
  return m;
}

/// The log-probabilities of three steps for two sentences, whose rows change places on the way.
std::vector<float> steps(const decode::TransformerModel<float>& m, std::span<const token_t> head = {}) {
  std::vector<float> all;
  auto state = m.begin(Tensor<token_t>({9}, {3, 4, 5, 2, 6, 70, 8, 9, 2}), Segments::ragged({4, 5}), head);
  for (const token_t token : {1, 7, 5}) {
    const auto y = m.step(state, std::vector<token_t>{token, 6}).values();
    all.insert(all.end(), y.begin(), y.end());
    m.reorder(state, std::vector<index_t>{1, 0});
  }
  return all;
}

}  // namespace

TEST_CASE("a model of 8-bit integers steps with the bits of its floats in int8, be the precision full or int8") {
  for (const bool one_matrix : {false, true}) {
    const auto floats = model(one_matrix), quantized = model(one_matrix);
    nn::quantize(quantized);
    const decode::TransformerModel<float> expected(floats, Precision::int8);
    const std::vector<token_t> head{2, 5, 6, 44, 70};
    const auto all = steps(expected), some = steps(expected, head);
    CHECK(steps(decode::TransformerModel<float>(floats)) != all);
    for (const auto precision : {Precision::full, Precision::int8}) {
      const decode::TransformerModel<float> m(quantized, precision);
      CHECK(steps(m) == all);
      CHECK(steps(m, head) == some);
    }
    CHECK_THROWS_AS(decode::TransformerModel<float>(quantized, Precision::bf16), ValueError);
    CHECK_THROWS_WITH(decode::TransformerModel<float>(quantized, Precision::bf16),
                      "TransformerModel: the precision is bf16, and the model is of 8-bit integers; expected full or int8");
  }
}

TEST_CASE("a model whose weights become 8-bit integers while it is decoded goes on with these") {
  const auto m = model(true);
  const decode::TransformerModel<float> decoding(m);
  const auto before = steps(decoding);
  nn::quantize(m);
  CHECK(steps(decoding) == steps(decode::TransformerModel<float>(model(true), Precision::int8)));
  CHECK(steps(decoding) != before);
}
