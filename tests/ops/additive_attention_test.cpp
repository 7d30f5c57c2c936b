#include "attend/ops/additive_attention.hpp"

#include "attend/ops/activations.hpp"
#include "attend/ops/arithmetic.hpp"
#include "attend/ops/matmul.hpp"
#include "attend/ops/rearrange.hpp"
#include "attend/ops/softmax.hpp"
#include "operation.hpp"

using namespace attend;

TEST_CASE("additive attention agrees with differences, float with double") {
  operation::check(
      [](const auto& in) {
        return additive_attention(in[0], in[1], in[2], in[3], {Segments::ragged({3, 1, 4}), Segments::ragged({2, 5, 0})});
      },
      {operation::random({8, 3}), operation::random({7, 3}, 1), operation::random({1, 3}, 2), operation::random({7, 4}, 3)});
  operation::check(
      [](const auto& in) {
        const auto padded = Segments::dense(2, 3, std::vector<index_t>{3, 1});
        return additive_attention(in[0], in[1], in[2], in[3], {padded, padded});
      },
      {operation::random({6, 3}), operation::random({6, 3}, 1), operation::random({3}, 2), operation::random({6, 2}, 3)});
}

TEST_CASE("additive attention equals its composition from simple operations") {
  const auto q = operation::random({3, 5}), k = operation::random({4, 5}, 1), s = operation::random({5, 1}, 2),
             v = operation::random({4, 2}, 3);
  AttentionWeights<double> weights;
  const auto fused = additive_attention(Var<double>(q), Var<double>(k), Var<double>(s.reshape({5})), Var<double>(v),
                                        {Segments::ragged({3}), Segments::ragged({4}), &weights});
  const auto sums = reshape(Var<double>(q), {3, 1, 5}) + reshape(Var<double>(k), {1, 4, 5});
  const auto w = softmax(reshape(matmul(attend::tanh(sums), Var<double>(s)), {3, 4}));
  const auto composed = matmul(w, Var<double>(v));
  for (index_t i = 0; i < fused.size(); ++i) CHECK(fused.data()[i] == Approx(composed.data()[i]).margin(1e-14));
  for (index_t i = 0; i < w.size(); ++i) CHECK(weights.matrix(0, 0).data()[i] == Approx(w.data()[i]).margin(1e-14));
}

TEST_CASE("additive attention names what does not fit") {
  const auto zeros = [](const Shape& s) { return Var<float>(Tensor<float>(s, 0.0f)); };
  const auto s = Segments::ragged({2});
  CHECK_THROWS_AS(additive_attention(zeros({2, 3}), zeros({2, 4}), zeros({3}), zeros({2, 1}), {s, s}), ShapeError);
  CHECK_THROWS_AS(additive_attention(zeros({2, 3}), zeros({2, 3}), zeros({4}), zeros({2, 1}), {s, s}), ShapeError);
  CHECK_THROWS_AS(additive_attention(zeros({3, 3}), zeros({2, 3}), zeros({3}), zeros({2, 1}), {s, s}), ShapeError);
}
