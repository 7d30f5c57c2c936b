#include "attend/ops/matmul.hpp"

#include <utility>

#include "attend/ops/arithmetic.hpp"
#include "attend/ops/rearrange.hpp"
#include "attend/ops/reduce.hpp"
#include "operation.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;

namespace {

const std::vector<std::pair<std::vector<index_t>, std::vector<index_t>>> batches{
    {{}, {}},         {{2}, {}},           {{}, {2}},  {{2}, {2}},      {{2, 3}, {3}},
    {{2, 1}, {1, 3}}, {{2, 1, 2}, {3, 1}}, {{1}, {2}}, {{2, 3}, {2, 1}}};

Shape with_matrix(std::vector<index_t> batch, index_t rows, index_t columns, bool transposed) {
  batch.push_back(transposed ? columns : rows);
  batch.push_back(transposed ? rows : columns);
  return Shape(batch);
}

}  // namespace

TEST_CASE("matmul equals its composition from products and sums, for every way to broadcast and to transpose") {
  for (const auto& batch : batches)
    for (const bool ta : {false, true})
      for (const bool tb : {false, true}) {
        const std::vector<Tensor<double>> inputs{operation::random(with_matrix(batch.first, 3, 4, ta)),
                                                 operation::random(with_matrix(batch.second, 4, 5, tb), 1)};
        INFO(inputs[0].shape().text() << " and " << inputs[1].shape().text());
        const auto product = [=](const auto& in) { return matmul(in[0], in[1], {.transpose_a = ta, .transpose_b = tb}); };
        // [..., m, k, 1] * [..., 1, k, n], summed over k
        const auto composed = [=](const auto& in) {
          auto a = ta ? transpose(in[0], -1, -2) : in[0], b = tb ? transpose(in[1], -1, -2) : in[1];
          std::vector<index_t> left(a.shape().begin(), a.shape().end()), right(b.shape().begin(), b.shape().end());
          left.push_back(1);
          right.insert(right.end() - 2, 1);
          return sum(reshape(a, Shape(left)) * reshape(b, Shape(right)), -2);
        };
        operation::check(product, inputs);
        const auto got = operation::value_and_gradients<double>(product, inputs);
        const auto expected = operation::value_and_gradients<double>(composed, inputs);
        for (std::size_t k = 0; k < 3; ++k) {
          REQUIRE(got[k].shape() == expected[k].shape());
          for (index_t i = 0; i < got[k].size(); ++i) REQUIRE(got[k].data()[i] == Approx(expected[k].data()[i]).margin(1e-12));
        }
      }
}

TEST_CASE("matmul adds to gradients that are there") {
  operation::check([](const auto& in) { return matmul(in[0], in[1]) + matmul(in[0] * 2, in[1]); },
                   {operation::random({2, 1, 3, 4}), operation::random({3, 4, 2}, 1)});
  operation::check([](const auto& in) { return matmul(in[0], in[0], {.transpose_b = true}); }, {operation::random({2, 3, 4})});
}

TEST_CASE("matmul of vectors, of no columns and of no batch") {
  const Var<double> row(Tensor<double>({1, 3}, {1, 2, 3})), column(Tensor<double>({3, 1}, {4, 5, 6}));
  CHECK(matmul(row, column).item() == 32);
  CHECK(matmul(column, row).shape() == Shape{3, 3});
  const auto empty_sum = matmul(Var<double>(Tensor<double>({2, 0})), Var<double>(Tensor<double>({0, 3})));
  CHECK(empty_sum.value().values() == std::vector<double>(6, 0.0));
  CHECK(matmul(Var<double>(Tensor<double>({0, 2, 3})), column).shape() == Shape{0, 2, 1});
  CHECK(matmul(Var<double>(Tensor<double>({5, 0, 3})), column).shape() == Shape{5, 0, 1});
}

TEST_CASE("matmul refuses matrices that do not fit") {
  const Var<float> a(Tensor<float>({2, 3, 4}, 0.0f)), b(Tensor<float>({5, 6}, 0.0f));
  CHECK_THROWS_WITH(matmul(a, b), ContainsSubstring("matmul: a has shape [2, 3, 4] and b [5, 6]"));
  CHECK_THROWS_AS(matmul(a, Var<float>(Tensor<float>({4}, 0.0f))), ShapeError);
  CHECK_THROWS_AS(matmul(a, Var<float>(Tensor<float>({3, 4, 2}, 0.0f))), ShapeError);
  CHECK_THROWS_AS(matmul(a, a), ShapeError);
  CHECK_THROWS_AS(matmul(a, a, {.transpose_a = true, .transpose_b = true}), ShapeError);
  CHECK(matmul(a, a, {.transpose_b = true}).shape() == Shape{2, 3, 3});
}
