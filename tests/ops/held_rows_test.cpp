#include "attend/ops/held_rows.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "attend/ops/cross_entropy.hpp"
#include "attend/ops/distillation_loss.hpp"
#include "attend/ops/linear.hpp"
#include "attend/ops/packed_weights.hpp"
#include "catch.hpp"
#include "operation.hpp"
#include "same_products.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;

namespace {

Var<float> random(const Shape& shape, std::uint64_t stream) { return Var<float>(operation::random<float>(shape, stream), true); }

/// A weight that holds its numbers in bfloat16 or in 8-bit integers, and one of the floats that these are. Neither learns.
struct Weight {
  Var<float> held, floats;
};
Var<float> weight_values(const Shape& shape) {  // of millions, in less time than normal ones
  const Tensor<float> w(shape);
  for (index_t i = 0; i < w.size(); ++i) w.data()[i] = static_cast<float>(i * 40503 % 65521) / 32768 - 1;
  return Var<float>(w);
}
Weight in_bfloat16(const Shape& shape) {
  const auto w = weight_values(shape);
  const auto rows = detail::converted<bfloat16>(w.value());
  return {Var<float>(Tensor<float>::from_bfloat16(rows)), Var<float>(detail::converted<float>(rows))};
}
Weight in_8_bits(const Shape& shape) {
  const auto w = weight_values(shape);
  const QuantizedRows q{Tensor<std::int8_t>(shape), Tensor<float>({shape[0]})};
  quantize_rows(Cpu{}, kernels::Matrix<const float>(as_rows(w.value())), q.rows.data(), q.scales.data());
  for (index_t i = 0; i < w.size(); ++i) w.data()[i] = q.scales.data()[i / shape[1]] * static_cast<float>(q.rows.data()[i]);
  return {Var<float>(Tensor<float>::from_quantized(q)), w};
}

using Numbers = std::vector<std::vector<float>>;

/// What f(weight, x, bias) gives, and the gradients of x and the bias.
template <class F>
Numbers computed(const Var<float>& weight, index_t rows, F&& f) {
  const auto x = random({rows, weight.dim(1)}, 2), b = random({weight.dim(0)}, 3);
  const Var<float> y = f(weight, x, b);
  y.backward(random(y.shape(), 4).value());
  CHECK(weight.grad().empty());
  return {y.value().values(), x.grad().values(), b.grad().values()};
}

Var<float> linear_of_all(const Var<float>& weight, const Var<float>& x, const Var<float>& b) { return linear(x, weight, b); }

Tensor<token_t> labels(index_t rows, index_t classes) {
  const Tensor<token_t> list({rows});
  for (index_t i = 0; i < rows; ++i) list.data()[i] = static_cast<token_t>(i * 7 % classes);
  return list;
}

}  // namespace

TEST_CASE("held rows: linear computes with them as with the floats that they stand for, and so do its gradients") {
  const auto precision = GENERATE(Precision::full, Precision::bf16);
  const MatmulPrecision products(precision);
  for (const auto& shape : {Shape{70, 40}, Shape{5, 1}, Shape{700, 1100}, Shape{0, 4}})
    for (const auto& w : {in_bfloat16(shape), in_8_bits(shape)}) {
      INFO(shape.text() << ' ' << w.held.value().instead());
      CHECK((computed(w.held, 6, linear_of_all) == computed(w.floats, 6, linear_of_all)));
      if (shape[0] < 50) continue;
      const auto part = [](const auto& weight, const auto& x, const auto& b) { return linear_rows(x, weight, b, 11, 33); };
      CHECK((computed(w.held, 6, part) == computed(w.floats, 6, part)));
    }
}

TEST_CASE("held rows: of a matrix that is made into floats by parts, the bits are those of the whole") {
  const auto precision = GENERATE(Precision::full, Precision::bf16);
  const MatmulPrecision products(precision);
  const bool wide = GENERATE(false, true);  // more than 2^24 numbers
  const Shape shape = wide ? Shape{4097, 4100} : Shape{8193, 2050};
  const auto w = wide ? in_8_bits(shape) : in_bfloat16(shape);
  INFO(name_of(precision) << ' ' << shape.text() << ' ' << w.held.value().instead());
  for (const index_t rows : {3, 20}) {
    const auto held = computed(w.held, rows, linear_of_all), floats = computed(w.floats, rows, linear_of_all);
    for (std::size_t i = 0; i < held.size(); ++i) CHECK(same_products(held[i], floats[i]));
  }
}

TEST_CASE("held rows: for_rows gives all of them, so many at a time") {
  const auto w = in_8_bits({700, 3});
  index_t next = 0;
  detail::for_rows(w.held.value(), 256, [&](index_t first, const auto& rows) {
    CHECK(first == next);
    CHECK(rows.rows == std::min<index_t>(256, 700 - first));
    CHECK(std::equal(rows.data, rows.data + rows.rows * 3, w.floats.data() + first * 3));
    next += rows.rows;
  });
  CHECK(next == 700);
  detail::for_rows(w.floats.value(), 256, [&](index_t first, const auto& rows) {
    CHECK(first == 0);
    CHECK(rows.data == w.floats.data());
  });
}

TEST_CASE("held rows: losses take them as a head, and as a teacher's, which need not be frozen") {
  const Shape shape{50, 12};
  for (const auto& w : {in_bfloat16(shape), in_8_bits(shape)}) {
    const auto loss = [](const auto& weight, const auto& x, const auto& b) {
      return linear_cross_entropy(x, weight, b, labels(9, 50), {.smoothing = 0.1});
    };
    CHECK((computed(w.held, 9, loss) == computed(w.floats, 9, loss)));
    const auto taught = [](const auto& weight, const auto& x, const auto& b) {
      const Var<float> theirs(weight.value(), true);
      const LinearLogits<float> teacher{random({9, 12}, 7), theirs, random({50}, 8)};
      return linear_distillation_loss<float, Cpu>({x, weight, b}, teacher, labels(9, 50), {.weight = 0.5});
    };
    CHECK((computed(w.held, 9, taught) == computed(w.floats, 9, taught)));

    const Var<float> learns(w.held.value(), true);
    const auto x = random({9, 12}, 2), b = random({50}, 3);
    const std::string why = std::string("the weight [50, 12] is of ") + w.held.value().instead() + ", which cannot learn";
    CHECK_THROWS_WITH(linear(x, learns, b),
                      "linear: " + why + "; freeze it, as nn::add_adapters does, or load the model in floats");
    CHECK_THROWS_WITH(linear_cross_entropy(x, learns, b, labels(9, 50)), ContainsSubstring("linear_cross_entropy: " + why));
    CHECK_THROWS_WITH((linear_distillation_loss<float, Cpu>({x, learns, b}, {x, w.floats, b}, labels(9, 50))),
                      ContainsSubstring("linear_distillation_loss: " + why));
    const NoGrad no_grad;
    CHECK(linear(x, learns, b).value().values() == linear(x, w.floats, b).value().values());
  }
}
