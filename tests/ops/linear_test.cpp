#include "attend/ops/linear.hpp"

#include "attend/ops/arithmetic.hpp"
#include "operation.hpp"

using namespace attend;

TEST_CASE("linear: known values, any leading dimensions") {
  const Var<double> x(Tensor<double>({2, 1, 3}, {1, 2, 3, 4, 5, 6}));
  const Var<double> w(Tensor<double>({2, 3}, {1, 0, -1, 2, 1, 0})), b(Tensor<double>({2}, {10, 20}));
  const auto y = linear(x, w, b);
  CHECK(y.shape() == Shape{2, 1, 2});
  CHECK(y.value().values() == std::vector<double>{8, 24, 8, 33});
  CHECK(linear(x, w).value().values() == std::vector<double>{-2, 4, -2, 13});
}

TEST_CASE("linear agrees with differences, float with double") {
  const auto full = [](const auto& in) { return linear(in[0], in[1], in[2]); };
  operation::check(full, {operation::random({3, 6}), operation::random({5, 6}, 1), operation::random({5}, 2)});
  operation::check(full, {operation::random({2, 3, 1}), operation::random({4, 1}, 1), operation::random({4}, 2)});
  operation::check([](const auto& in) { return linear(in[0], in[1]); },
                   {operation::random({4, 7}), operation::random({3, 7}, 1)});
}

TEST_CASE("linear_rows is the part of the whole product, and so is its gradient") {
  const auto x = operation::random({4, 3}), w = operation::random({6, 3}, 1), b = operation::random({6}, 2);
  const auto part = [](const auto& in) { return linear_rows(in[0], in[1], in[2], 1, 3); };
  operation::check(part, {x, w, b});
  const Var<double> vx(x), vw(w), vb(b);
  const auto whole = linear(vx, vw, vb), some = linear_rows(vx, vw, vb, 1, 3);
  for (index_t r = 0; r < 4; ++r)
    for (index_t j = 0; j < 3; ++j) CHECK(some.value()(r, j) == Approx(whole.value()(r, j + 1)).epsilon(1e-14));
  // Parts of one weight add up in one gradient.
  operation::check([](const auto& in) { return linear_rows(in[0], in[1], in[2], 0, 3) * linear_rows(in[0], in[1], in[2], 3, 3); },
                   {x, w, b});
}

TEST_CASE("linear of no rows") {
  const Var<float> x(Tensor<float>(Shape{0, 3}), true), w(Tensor<float>({2, 3}, 1.0f), true), b(Tensor<float>({2}, 1.0f), true);
  CHECK(linear(x, w, b).shape() == Shape{0, 2});
}

TEST_CASE("linear names what does not fit") {
  const Var<float> x(Tensor<float>({2, 3}, 0.0f)), w(Tensor<float>({4, 5}, 0.0f)), good(Tensor<float>({4, 3}, 0.0f)),
      b(Tensor<float>({5}, 0.0f));
  CHECK_THROWS_WITH(linear(x, w), "linear: x has shape [2, 3], expected [..., 5]");
  CHECK_THROWS_WITH(linear(x, good, b), "linear: bias has shape [5], expected [4]");
  CHECK_THROWS_WITH(linear(x, b), "linear: weight has shape [5], expected [out, in]");
  CHECK_THROWS_AS(linear_rows(x, good, {}, 2, 3), IndexError);
  CHECK_THROWS_AS(linear_rows(x, good, {}, -1, 2), IndexError);
}
