#include "attend/ops/rotary.hpp"

#include "operation.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;

namespace {

const auto both_orders = [] { return GENERATE(RotaryOrder::halves, RotaryOrder::interleaved); };

}  // namespace

TEST_CASE("rotary: gradients, on ragged, padded and empty sentences, all of a head or some, with columns behind the heads") {
  const auto order = both_orders();
  const index_t turned = GENERATE(2, 6, 8);
  for (const auto& segments : {Segments::ragged({3, 0, 1, 4}), Segments::dense(2, 4, std::vector<index_t>{4, 2})})
    operation::check(
        [&](const auto& x) {
          using T = typename std::remove_cvref_t<decltype(x[0])>::value_type;
          return rotary(x[0], operation::beside(x[0], rotary_turns<Wide<T>>(5, turned, 100)), {segments}, {3, 8, order});
        },
        {operation::random({8, 3 * 8 + 5}, 1)});
}

TEST_CASE("rotary: rows that all stand at one place, which the host knows") {
  const auto order = both_orders();
  operation::check(
      [&](const auto& x) {
        using T = typename std::remove_cvref_t<decltype(x[0])>::value_type;
        return rotary(x[0], operation::beside(x[0], rotary_turns<Wide<T>>(5, 4)), {.place = 3}, {2, 4, order});
      },
      {operation::random({3, 11}, 1)});
}

TEST_CASE("rotary: a place that the device alone knows is the place that the host would have said") {
#if defined(ATTEND_TEST_CUDA)
  if (!device::present()) return;
  using Where = Cuda;
#else
  using Where = Cpu;
#endif
  const auto x = Var<float, Where>(operation::random<float>({3, 11}, 1).to<Where>());
  const auto turns = rotary_turns<float>(6, 4).to<Where>();
  const Tensor<index_t, Where> step({1}, 2);
  const RotaryOptions o{2, 5, both_orders()};
  const auto told = rotary(x, turns, {.place = 1, .step = step.data()}, o).value().to_host();
  const auto known = rotary(x, turns, {.place = 3}, o).value().to_host();
  const auto whole = rotary(Var<float, Where>(x.value().rows(1, 1)), turns, {.place = 3}, o).value().to_host();
  for (index_t i = 0; i < x.size(); ++i) CHECK(told.data()[i] == known.data()[i]);
  for (index_t i = 0; i < 11; ++i) CHECK(whole(0, i) == known(1, i));
}

#if !defined(ATTEND_TEST_CUDA)

namespace {

/// What the paper does to one head, pair by pair, with angles that are computed where they are needed.
Tensor<double> by_angles(const Tensor<double>& x, const std::vector<index_t>& places, const RotaryOptions& o, index_t turned,
                         double base) {
  const auto y = x.clone();
  const bool halves = o.order == RotaryOrder::halves;
  for (index_t r = 0; r < x.dim(0); ++r)
    for (index_t h = 0; h < o.heads; ++h)
      for (index_t i = 0; i < turned / 2; ++i) {
        const index_t a = h * o.width + (halves ? i : 2 * i), b = h * o.width + (halves ? i + turned / 2 : 2 * i + 1);
        const double angle = static_cast<double>(places[static_cast<std::size_t>(r)]) /
                             std::pow(base, 2 * static_cast<double>(i) / static_cast<double>(turned));
        y(r, a) = x(r, a) * std::cos(angle) - x(r, b) * std::sin(angle);
        y(r, b) = x(r, a) * std::sin(angle) + x(r, b) * std::cos(angle);
      }
  return y;
}

}  // namespace

TEST_CASE("rotary turns pairs by angles that grow with the place and shrink with the pair") {
  const RotaryOptions o{2, 6, both_orders()};
  const index_t turned = GENERATE(4, 6);
  const auto x = operation::random({7, 15}, 1);
  const auto y = rotary(Var<double>(x), rotary_turns<double>(4, turned, 50), {Segments::ragged({3, 4})}, o);
  const auto expected = by_angles(x, {0, 1, 2, 0, 1, 2, 3}, o, turned, 50);
  for (index_t i = 0; i < x.size(); ++i) CHECK(y.value().data()[i] == Approx(expected.data()[i]).margin(1e-14));
  for (index_t j = 0; j < 15; ++j) CHECK(y.value()(3, j) == x(3, j));  // at place 0 nothing turns
}

TEST_CASE("rotary: a product of two rows depends on their distance and not on where they stand") {
  const RotaryOptions o{1, 8, both_orders()};
  const auto q = Var<double>(operation::random({1, 8}, 1)), k = Var<double>(operation::random({1, 8}, 2));
  const auto turns = rotary_turns<double>(40, 8);
  const auto product = [&](index_t of_q, index_t of_k) {
    const auto a = rotary(q, turns, {.place = of_q}, o).value(), b = rotary(k, turns, {.place = of_k}, o).value();
    double sum = 0;
    for (index_t i = 0; i < 8; ++i) sum += a(0, i) * b(0, i);
    return sum;
  };
  for (const index_t apart : {0, 1, 7}) {
    const double first = product(apart, 0);
    for (const index_t k_place : {1, 5, 30}) CHECK(product(k_place + apart, k_place) == Approx(first).margin(1e-12));
  }
  CHECK(std::abs(product(3, 0) - product(0, 3)) > 1e-3);
}

TEST_CASE("rotary names what does not fit") {
  const Var<double> x(operation::random({8, 9}, 1));
  const auto turns = rotary_turns<double>(5, 4);
  const auto try_with = [&](const Tensor<double>& t, const Places& places, const RotaryOptions& o) {
    (void)rotary(x, t, places, o);
  };
  CHECK_NOTHROW(try_with(turns, {Segments::ragged({5, 3})}, {2, 4}));
  CHECK_THROWS_WITH(try_with(turns, {Segments::ragged({6, 2})}, {2, 4}),
                    ContainsSubstring("a sentence of 6 tokens is longer than the 5 positions"));
  CHECK_THROWS_WITH(try_with(turns, {.place = 5}, {2, 4}), ContainsSubstring("6 tokens is longer than the 5"));
  CHECK_THROWS_WITH(try_with(turns, {.place = -1}, {2, 4}), ContainsSubstring("place -1"));
  CHECK_THROWS_WITH(try_with(turns, {Segments::ragged({7})}, {2, 4}), ContainsSubstring("x has 8 rows, expected 7"));
  CHECK_THROWS_WITH(try_with(turns, {Segments::ragged({8})}, {3, 4}), ContainsSubstring("expected at least 3 heads of 4"));
  CHECK_THROWS_WITH(try_with(turns, {Segments::ragged({5, 3})}, {2, 3}), ContainsSubstring("turns have shape [5, 4]"));
  CHECK_THROWS_WITH(try_with(Tensor<double>({5, 3}), {Segments::ragged({5, 3})}, {2, 4}),
                    ContainsSubstring("turns have shape [5, 3]"));
  CHECK_THROWS_AS(rotary_turns<double>(5, 3), ValueError);
  CHECK_THROWS_AS(rotary_turns<double>(5, 0), ValueError);
  CHECK_THROWS_AS(rotary_turns<double>(5, 4, 0), ValueError);
}

#endif
