#include "attend/nn/positions.hpp"

#include "check.hpp"

using namespace attend;
using nn::PositionKind;

TEST_CASE("Positions: learned ones are parameters, the others are none") {
  const nn::Positions<double> learned(PositionKind::learned, 5, 3), fixed(PositionKind::sinusoidal, 5, 3),
      none(PositionKind::none, 5, 3);
  CHECK(test::names(learned) == test::Names{"weight"});
  CHECK(nn::parameter_count(learned) == 15);
  CHECK(test::names(fixed).empty());
  CHECK(nn::parameter_count(fixed) == 0);
  CHECK(test::names(none).empty());
}

TEST_CASE("Positions: gradients of each kind") {
  const auto kind =
      GENERATE(PositionKind::learned, PositionKind::sinusoidal, PositionKind::sinusoidal_halves, PositionKind::none);
  const nn::Positions<double> positions(kind, 5, 3);
  const auto x = test::random_leaf({6, 3}, 0);
  const auto segments = Segments::ragged({4, 2});
  test::check_gradients(positions, [&] { return positions(x, segments); }, {x});
}

TEST_CASE("Positions: sinusoids of the wanted base, the same in every sentence") {
  const nn::Positions<double> positions(PositionKind::sinusoidal, 5, 3, 1000);
  const auto table = sinusoid<double>(5, 3, 1000);
  const Var<double> zeros(Tensor<double>({6, 3}, 0.0));
  const auto y = positions(zeros, Segments::ragged({4, 2}));
  CHECK(test::distance(y.value().rows(0, 4), table.rows(0, 4)) == 0);
  CHECK(test::distance(y.value().rows(4, 2), table.rows(0, 2)) == 0);
}

TEST_CASE("Positions: an offset keeps rows before that of place 0, as BART has it, in whole sentences and step by step") {
  const auto kind = GENERATE(PositionKind::learned, PositionKind::sinusoidal, PositionKind::sinusoidal_halves);
  const nn::Positions<double> positions(kind, 5, 3, 10000, {.offset = 2});
  CHECK(positions.table.shape() == Shape{7, 3});
  const auto x = test::random_leaf({6, 3}, 0);
  const auto segments = Segments::ragged({5, 1});
  const auto y = positions(x, segments), step = positions.at(x, 4);
  Tensor<double> last = x.value().clone();
  const index_t two = 2;
  const auto told = positions(Var<double>(last), Places{.place = 2, .step = &two});
  for (index_t j = 0; j < 3; ++j) {
    CHECK(y.value()(4, j) == x.value()(4, j) + positions.table.value()(6, j));
    CHECK(y.value()(5, j) == x.value()(5, j) + positions.table.value()(2, j));
    CHECK(step.value()(3, j) == x.value()(3, j) + positions.table.value()(6, j));
    CHECK(told.value()(3, j) == step.value()(3, j));
  }
  test::check_gradients(positions, [&] { return positions(x, segments); }, {x});
  CHECK_THROWS_AS(positions(x, Segments::ragged({6})), ShapeError);
  CHECK_THROWS_AS(positions.at(x, 5), ShapeError);
}

TEST_CASE("Positions: a sentence that is too long is an error, but for models without positions") {
  const auto x = test::random_leaf({6, 3}, 0);
  const auto segments = Segments::ragged({6});
  CHECK_THROWS_AS(nn::Positions<double>(PositionKind::learned, 5, 3)(x, segments), ShapeError);
  CHECK_THROWS_AS(nn::Positions<double>(PositionKind::sinusoidal, 5, 3)(x, segments), ShapeError);
  CHECK(nn::Positions<double>(PositionKind::none, 5, 3)(x, segments).id() == x.id());
  CHECK_THROWS_AS(nn::Positions<double>(PositionKind::learned, 0, 3), ValueError);
  CHECK_THROWS_AS(nn::Positions<double>(PositionKind::sinusoidal, 5, 3, -1), ValueError);
}
