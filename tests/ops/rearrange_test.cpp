#include "attend/ops/rearrange.hpp"

#include "attend/ops/arithmetic.hpp"
#include "operation.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("permute puts every element where its axes say") {
  const Tensor<double> x = operation::random({2, 3, 4, 5});
  std::vector<index_t> axes{0, 1, 2, 3};
  do {
    const auto y = permute(Var<double>(x), std::span<const index_t>(axes)).value();
    bool good = true;
    for (index_t i = 0; i < 2; ++i)
      for (index_t j = 0; j < 3; ++j)
        for (index_t k = 0; k < 4; ++k)
          for (index_t l = 0; l < 5; ++l) {
            const std::array<index_t, 4> at{i, j, k, l};
            const auto from = [&](std::size_t d) { return at[static_cast<std::size_t>(axes[d])]; };
            good = good && y(from(0), from(1), from(2), from(3)) == x(i, j, k, l);
          }
    INFO(axes[0] << axes[1] << axes[2] << axes[3]);
    CHECK(good);
  } while (std::next_permutation(axes.begin(), axes.end()));
}

TEST_CASE("rearrangements agree with differences, float with double") {
  const std::vector<Tensor<double>> inputs{operation::random({3, 4, 5}), operation::random({3, 2, 5}, 1)};
  operation::check([](const auto& in) { return reshape(in[0], {5, 12}); }, inputs);
  operation::check([](const auto& in) { return permute(in[0], {2, 0, 1}); }, inputs);
  operation::check([](const auto& in) { return permute(in[0], {-1, 1, 0}); }, inputs);
  operation::check([](const auto& in) { return transpose(in[0], 0, 1); }, inputs);
  operation::check([](const auto& in) { return transpose(in[0], -1, -2); }, inputs);
  operation::check([](const auto& in) { return slice(in[0], 0, 1, 2); }, inputs);
  operation::check([](const auto& in) { return slice(in[0], 1, 2, 1); }, inputs);
  operation::check([](const auto& in) { return slice(in[0], -1, 1, 3); }, inputs);
  operation::check([](const auto& in) { return slice(in[0], 1, 0, 2) * slice(in[0], 1, 2, 2); }, inputs);
  operation::check([](const auto& in) { return concatenate({in[0], in[1], in[0]}, 1); }, inputs);
  operation::check([](const auto& in) { return concatenate({in[1], in[1]}, -1); }, inputs);
  operation::check([](const auto& in) { return concatenate({in[1]}, 0); }, inputs);
}

TEST_CASE("rearrangements of many elements do not depend on threads") {
  const std::vector<Tensor<double>> inputs{operation::random({60, 70, 33})};
  operation::check([](const auto& in) { return permute(in[0], {2, 1, 0}); }, inputs, {.entries = 2});
  operation::check([](const auto& in) { return permute(in[0], {0, 2, 1}); }, inputs, {.entries = 2});
  operation::check([](const auto& in) { return permute(in[0], {1, 0, 2}); }, inputs, {.entries = 2});
  operation::check(
      [](const auto& in) {
        return concatenate({slice(in[0], 1, 5, 40), slice(in[0], 1, 0, 7)}, 1);
      },
      inputs, {.entries = 2});
}

TEST_CASE("slice and concatenate undo each other") {
  const Var<double> x(operation::random({3, 7, 2}));
  const auto y = concatenate({slice(x, 1, 0, 3), slice(x, 1, 3, 0), slice(x, 1, 3, 4)}, 1);
  CHECK(y.shape() == x.shape());
  CHECK(y.value().values() == x.value().values());
  CHECK(slice(x, 1, 7, 0).shape() == Shape{3, 0, 2});
  CHECK(slice(x, 0, 1, 2).data() == x.data() + 14);  // a view: nothing was copied
  CHECK(reshape(x, {42}).data() == x.data());
}

TEST_CASE("rearrangements of scalars, of one element and of nothing") {
  const Var<float> scalar(Tensor<float>({}, 3.0f)), none(Tensor<float>({0, 3}));
  CHECK(permute(scalar, {}).item() == 3);
  CHECK(reshape(scalar, {1, 1}).shape() == Shape{1, 1});
  CHECK(transpose(none, 0, 1).shape() == Shape{3, 0});
  CHECK(concatenate({none, none}, 0).shape() == Shape{0, 3});
  CHECK(concatenate({none, Var<float>(Tensor<float>({2, 3}, 1.0f))}, 0).shape() == Shape{2, 3});
}

TEST_CASE("rearrangements refuse what does not fit") {
  const Var<float> x(Tensor<float>({3, 4, 5}, 0.0f)), y(Tensor<float>({3, 4}, 0.0f));
  CHECK_THROWS_AS(reshape(x, {7}), ShapeError);
  CHECK_THROWS_WITH(permute(x, {0, 1, 1}), ContainsSubstring("axes {0, 1, 1} do not name each of the 3 dimensions"));
  CHECK_THROWS_AS(permute(x, {0, 1}), ShapeError);
  CHECK_THROWS_AS(permute(x, {0, 1, 3}), ShapeError);
  CHECK_THROWS_AS(transpose(x, 0, 3), IndexError);
  CHECK_THROWS_WITH(slice(x, 1, 3, 2), ContainsSubstring("slice: 2 from 3 along axis 1 of x [3, 4, 5]"));
  CHECK_THROWS_AS(slice(x, 1, -1, 2), IndexError);
  CHECK_THROWS_AS(slice(x, 1, 1, -2), IndexError);
  CHECK_THROWS_AS(slice(x, 3, 0, 1), IndexError);
  CHECK_THROWS_AS(slice(x, 0, 1, std::numeric_limits<index_t>::max()), IndexError);
  CHECK_THROWS_WITH(concatenate({x, y}, 0), ContainsSubstring("part 1 has shape [3, 4]"));
  CHECK_THROWS_AS(concatenate({x, Var<float>(Tensor<float>({3, 4, 6}))}, 1), ShapeError);
  CHECK_THROWS_AS(concatenate({x}, 3), IndexError);
  CHECK_THROWS_AS(concatenate(std::vector<Var<float>>{}, 0), ShapeError);
}
