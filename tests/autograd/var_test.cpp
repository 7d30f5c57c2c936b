#include "attend/autograd/var.hpp"

#include <stdexcept>
#include <thread>

#include "attend/ops/arithmetic.hpp"
#include "attend/ops/rearrange.hpp"
#include "attend/ops/reduce.hpp"
#include "catch.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;

namespace {

Var<double> leaf(std::initializer_list<double> values) {
  return Var<double>(Tensor<double>({static_cast<index_t>(values.size())}, values), true);
}

std::vector<double> gradient(const Var<double>& x) { return x.grad().values(); }

/// A user's own operation: y = x^3.
Var<double> cube(const Var<double>& x) {
  Tensor<double> y(x.shape());
  for (index_t i = 0; i < y.size(); ++i) y.data()[i] = x.data()[i] * x.data()[i] * x.data()[i];
  return record(y, {x}, [=](const Tensor<double>& dy) {
    Tensor<double> dx(x.shape());
    for (index_t i = 0; i < dx.size(); ++i) dx.data()[i] = 3 * x.data()[i] * x.data()[i] * dy.data()[i];
    x.accumulate(dx);
  });
}

}  // namespace

TEST_CASE("backward gives a leaf its gradient") {
  const auto x = leaf({1, 2, 3});
  const auto y = sum(x * x);
  CHECK(y.item() == 14);
  CHECK(y.requires_grad());
  CHECK(x.grad().empty());
  y.backward();
  CHECK(gradient(x) == std::vector<double>{2, 4, 6});
  x.zero_grad();
  CHECK(x.grad().empty());
}

TEST_CASE("a user's own operation through record") {
  const auto x = leaf({1, -2});
  sum(cube(x) * 2).backward();
  CHECK(gradient(x) == std::vector<double>{6, 24});
}

TEST_CASE("gradients add up over backward passes, until they are set to zero") {
  const auto x = leaf({1, 2});
  for (int pass = 1; pass <= 3; ++pass) {
    sum(x * x).backward();
    CHECK(gradient(x) == std::vector<double>{2.0 * pass, 4.0 * pass});
  }
}

TEST_CASE("a diamond: each path counts once") {
  const auto x = leaf({3});
  const auto a = x * 2, b = x * 5, c = a * b, d = c + a;  // 10 x^2 + 2 x
  sum(d).backward();
  CHECK(gradient(x) == std::vector<double>{62});
}

TEST_CASE("a ladder of diamonds is walked once, not once a path") {
  const auto x = leaf({1});
  auto y = x * 1;
  for (int i = 0; i < 60; ++i) y = y * 0.5 + y * 0.5;
  sum(y).backward();
  CHECK(gradient(x) == std::vector<double>{1});
}

TEST_CASE("a value added to itself") {
  const auto x = leaf({1, 2}), w = leaf({1, 10});
  const auto y = x * 3;
  sum((y + y) * w).backward();
  CHECK(gradient(x) == std::vector<double>{6, 60});
}

TEST_CASE("values that share a gradient's storage do not see each other's changes") {
  const auto a = leaf({1, 2}), b = leaf({3, 4});
  const auto y = a + b;
  y.backward(Tensor<double>({2}, {1, 1}));
  REQUIRE(gradient(a) == gradient(b));
  a.grad().fill(100);  // as clipping or an optimizer may do
  CHECK(gradient(b) == std::vector<double>{1, 1});

  // The same with values inside the graph: u gets a second share after it shared its first with v.
  const auto p = leaf({1, 2}), q = leaf({3, 4});
  const auto u = p * 1, v = q * 1, w = u + v, z = w + u * 5;
  sum(z).backward();
  CHECK(gradient(p) == std::vector<double>{6, 6});
  CHECK(gradient(q) == std::vector<double>{1, 1});
}

TEST_CASE("backward leaves the gradient that it was given as it is") {
  const auto x = leaf({1, 2});
  const Tensor<double> dy({2}, {5, 7});
  const auto y = reshape(x, {2, 1}), z = reshape(y, {2}) + x;
  z.backward(dy);
  CHECK(gradient(x) == std::vector<double>{10, 14});
  x.grad().fill(0);
  CHECK(dy.values() == std::vector<double>{5, 7});
  x.backward(dy);  // a leaf by itself
  CHECK(gradient(x) == std::vector<double>{5, 7});
  CHECK(x.grad().data() != dy.data());
}

TEST_CASE("a leaf serves many graphs") {
  const auto w = leaf({2});
  const auto first = w * 3, second = w * w;
  sum(first).backward();
  sum(second).backward();
  CHECK(gradient(w) == std::vector<double>{7});
}

TEST_CASE("a second backward through a freed graph is refused, whole or in part") {
  const auto x = leaf({1, 2});
  const auto shared = x * 2;
  const auto first = sum(shared * 3), second = sum(shared * 5);
  first.backward();
  CHECK_THROWS_WITH(first.backward(), ContainsSubstring("freed by an earlier backward pass"));
  CHECK_THROWS_WITH(second.backward(), ContainsSubstring("freed a part of this graph"));
  CHECK_THROWS_AS(shared.backward(Tensor<double>({2}, 1.0)), Error);
  CHECK_THROWS_AS(shared * 2, Error);
  CHECK(gradient(x) == std::vector<double>{6, 6});
  sum(x * 2).backward();  // a new one is as good as ever
  CHECK(gradient(x) == std::vector<double>{8, 8});
}

TEST_CASE("two losses of one graph go through backward together") {
  const auto x = leaf({1, 2});
  const auto shared = x * 2;
  (sum(shared * 3) + sum(shared * 5)).backward();
  CHECK(gradient(x) == std::vector<double>{16, 16});
}

TEST_CASE("an exception in a backward leaves the rest usable") {
  const auto x = leaf({1});
  const auto inner = x * 2;
  const auto bad =
      record(inner.value().clone(), {inner}, [](const Tensor<double>&) { throw std::runtime_error("in a user's backward"); });
  CHECK_THROWS_WITH(sum(bad).backward(), "in a user's backward");
  sum(inner * 7).backward();
  CHECK(gradient(x) == std::vector<double>{14});
}

TEST_CASE("nothing is recorded under NoGrad, nor without a leaf that wants a gradient") {
  const auto x = leaf({1, 2});
  {
    const NoGrad outer;
    CHECK_FALSE(grad_enabled());
    {
      const NoGrad inner;
      CHECK_FALSE((x * 2).requires_grad());
    }
    CHECK_FALSE(grad_enabled());
    CHECK_THROWS_WITH(sum(x * 2).backward(), ContainsSubstring("NoGrad"));
  }
  CHECK(grad_enabled());
  const Var<double> constant(Tensor<double>({2}, 3.0));
  CHECK_FALSE((constant * constant).requires_grad());
  sum(constant * x).backward();
  CHECK(constant.grad().empty());
  CHECK(gradient(x) == std::vector<double>{3, 3});
  CHECK_FALSE(x.detach().requires_grad());
  CHECK(x.detach().data() == x.data());
}

TEST_CASE("a frozen leaf gets no gradient, those behind it do") {
  const auto x = leaf({2}), w = leaf({3});
  w.set_requires_grad(false);
  sum(x * w).backward();
  CHECK(gradient(x) == std::vector<double>{3});
  CHECK(w.grad().empty());
}

TEST_CASE("backward refuses a wrong shape") {
  const auto x = leaf({1, 2});
  CHECK_THROWS_WITH((x * 2).backward(), ContainsSubstring("is not a single number"));
  CHECK_THROWS_AS((x * 2).backward(Tensor<double>({3})), ShapeError);
  CHECK_THROWS_AS(x.accumulate(Tensor<double>({3})), ShapeError);
  CHECK_THROWS_AS(x.set_value(Tensor<double>({3})), ShapeError);
  CHECK_THROWS_AS(x.set_grad_buffer(Tensor<double>({3})), ShapeError);
}

TEST_CASE("a gradient buffer is written in place") {
  const Tensor<double> all({4}, 0.0);
  const auto a = leaf({1, 2}), b = leaf({3, 4});
  a.set_grad_buffer(all.rows(0, 2));
  b.set_grad_buffer(all.rows(2, 2));
  for (int pass = 1; pass <= 2; ++pass) {
    sum(a * b + a).backward();
    CHECK(all.values() == std::vector<double>{4.0 * pass, 5.0 * pass, 1.0 * pass, 2.0 * pass});
  }
  a.zero_grad();
  CHECK(all.values() == std::vector<double>{0, 0, 2, 4});
  CHECK(a.grad().data() == all.data());
}

TEST_CASE("a very long chain overflows no stack, neither in backward nor when it is freed") {
  constexpr int length = 200000;
  const auto x = leaf({1});
  {
    auto y = x * 1;
    for (int i = 0; i < length; ++i) y = y + x;
    sum(y).backward();
    CHECK(gradient(x) == std::vector<double>{length + 1});
  }
  {
    auto y = x * 1;
    for (int i = 0; i < length; ++i) y = y + x;  // freed without a backward
  }
  // The chain held by a handle in its middle, and wide fans.
  auto y = x * 1;
  Var<double> middle;
  for (int i = 0; i < length; ++i) {
    y = y * 1 + y * 0;
    if (i == length / 2) middle = y;
  }
  y = Var<double>();
  x.zero_grad();
  sum(middle).backward();
  CHECK(gradient(x) == std::vector<double>{1});
}

TEST_CASE("a graph is freed with its last handle, and the memory of its values with it") {
  const auto x = leaf({1, 2, 3});
  auto& pool = MemoryPool::instance();
  const auto before = pool.use().in_use;
  {
    const auto y = sum(cube(x * x) + x);
    CHECK(pool.use().in_use > before);
  }
  CHECK(pool.use().in_use == before);
  {
    const auto y = sum(cube(x * x) + x);
    y.backward();
    x.zero_grad();
  }
  CHECK(pool.use().in_use == before);
}

TEST_CASE("backward frees intermediate values while a handle to the result is kept") {
  const Var<double> x(Tensor<double>({100000}, 1.0), true);
  x.set_grad_buffer(Tensor<double>({100000}, 0.0));
  auto& pool = MemoryPool::instance();
  const auto before = pool.use().in_use;
  const auto y = sum(x * x * x);  // of which the backward reads x * x
  CHECK(pool.use().in_use > before + 800000);
  y.backward();
  CHECK(pool.use().in_use < before + 1000);
}

TEST_CASE("a computed value is freed once no handle and no backward reads it") {
  const Var<double> x(Tensor<double>({100000}, 1.0), true);
  auto& pool = MemoryPool::instance();
  const auto before = pool.use().in_use;
  auto y = x + x;  // neither its own backward nor the next reads it
  const auto z = sum(y);
  CHECK(pool.use().in_use > before + 800000);
  y = Var<double>();
  CHECK(pool.use().in_use < before + 1000);
  z.backward();
  CHECK(x.grad()(99999) == 2);
}

TEST_CASE("a sink gathers the gradient of a value and does not keep the value") {
  const auto x = leaf({1, 2});
  auto y = x * 3;
  const auto sink = y.sink();
  CHECK(sink.id() == y.id());
  CHECK(sink.shape() == Shape{2});
  CHECK(sink.requires_grad());
  CHECK(x.sink().shape() == Shape{2});
  const auto z = record(Tensor<double>({1}, 0.0), {y}, [sink](const Tensor<double>& dz) {
    sink.accumulate(Tensor<double>({2}, dz.item()));
    sink.accumulate_with([](kernels::Gradient<double> dy) { dy.data[0] = (dy.add ? dy.data[0] : 0) + 10; });
  });
  y = Var<double>();
  z.backward();
  CHECK(gradient(x) == std::vector<double>{33, 3});
  CHECK_THROWS_AS(sink.accumulate(Tensor<double>({3}, 1.0)), ShapeError);
}

TEST_CASE("only a leaf's value can be replaced") {
  const auto x = leaf({1, 2});
  const auto copy = x;
  x.set_value(Tensor<double>({2}, {5, 6}));
  CHECK(copy.value()(1) == 6);
  const auto y = x * 2;
  CHECK_THROWS_WITH(y.set_value(Tensor<double>({2}, 0.0)), "set_value: this value was computed and is no leaf");
}

TEST_CASE("a GradientRoom gathers what its thread adds to gradients of a buffer, and no others") {
  const auto all = Tensor<double>({5}, {1, 1, 1, 1, 1}), room = Tensor<double>({5}, {0, 10, 0, 0, 0});
  const auto a = leaf({1, 2}), b = leaf({3, 4}), elsewhere = leaf({5, 6});
  a.set_grad_buffer(all.rows(1, 2));
  b.set_grad_buffer(all.rows(3, 2));
  elsewhere.set_grad_buffer(Tensor<double>({2}, 0.0));
  const auto free = leaf({7, 8});
  const auto backward = [&] { sum(a * b + elsewhere * 2 + free).backward(); };
  {
    const GradientRoom<double, Cpu> scope(all, room);
    backward();
    {  // the innermost counts
      const auto inner = Tensor<double>({5}, 0.0);
      const GradientRoom<double, Cpu> nested(all, inner);
      b.accumulate(Tensor<double>({2}, {100, 200}));
      CHECK(inner.values() == std::vector<double>{0, 0, 0, 100, 200});
    }
    std::thread(backward).join();  // which has no room
  }
  CHECK(room.values() == std::vector<double>{0, 13, 4, 1, 2});
  CHECK(all.values() == std::vector<double>{1, 4, 5, 2, 3});
  CHECK(gradient(elsewhere) == std::vector<double>{4, 4});
  CHECK(gradient(free) == std::vector<double>{2, 2});
  backward();
  CHECK(all.values() == std::vector<double>{1, 7, 9, 3, 5});
  CHECK_THROWS_WITH((GradientRoom<double, Cpu>(all, Tensor<double>({4}))),
                    Catch::Matchers::ContainsSubstring("GradientRoom: room"));
}
