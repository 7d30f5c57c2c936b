#include "attend/ops/map.hpp"

#include "operation.hpp"

using namespace attend;

namespace {

struct Softsign {  // x / (1 + |x|)
  template <class T>
  ATTEND_FUNCTOR T value(T x) const {
    return x / (T(1) + (x < T(0) ? -x : x));
  }
  template <class T>
  ATTEND_FUNCTOR T slope(T x) const {
    const T d = T(1) + (x < T(0) ? -x : x);
    return T(1) / (d * d);
  }
};

struct Doubled {  // a functor that has state and needs only its value
  double factor;
  template <class T>
  ATTEND_FUNCTOR T value(T x) const {
    return math::exp(static_cast<T>(factor) * x);
  }
  template <class T>
  ATTEND_FUNCTOR T slope_from_value(T y) const {
    return static_cast<T>(factor) * y;
  }
};

}  // namespace

TEST_CASE("map runs a user's functor forward and backward") {
  operation::check([](const auto& in) { return map(in[0], Softsign{}); }, {operation::random({3, 7})});
  operation::check([](const auto& in) { return map(in[0], Doubled{0.5}); }, {operation::random({2, 1, 5})});
}

TEST_CASE("map is the same over many elements and threads") {
  operation::check([](const auto& in) { return map(in[0], Softsign{}); }, {operation::random({40001})}, {.entries = 5});
}

TEST_CASE("map adds to a gradient that is there already") {
  const Var<double> x(operation::random({9}), true);
  const auto y = map(x, Softsign{});
  y.backward(Tensor<double>({9}, 1.0));
  map(x, Softsign{}).backward(Tensor<double>({9}, 1.0));
  for (index_t i = 0; i < 9; ++i) CHECK(x.grad()(i) == Approx(2 * Softsign{}.slope(x.value()(i))));
}

TEST_CASE("map of nothing and of a scalar") {
  CHECK(map(Var<float>(Tensor<float>({0, 3})), Softsign{}).shape() == Shape{0, 3});
  CHECK(map(Var<float>(Tensor<float>({}, 1.0f)), Softsign{}).item() == 0.5f);
}

TEST_CASE("map backward uses the values of its forward, even where a leaf has been given others since") {
  const Var<double> x(Tensor<double>({2}, {1.0, 3.0}), true);
  const auto y = map(x, Softsign{});
  x.set_value(Tensor<double>({2}, {100.0, 100.0}));
  y.backward(Tensor<double>({2}, 1.0));
  CHECK(x.grad()(0) == Approx(1.0 / 4));
  CHECK(x.grad()(1) == Approx(1.0 / 16));
}
