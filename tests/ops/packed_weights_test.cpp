#include "attend/ops/packed_weights.hpp"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "attend/core/random.hpp"
#include "attend/ops/linear.hpp"
#include "catch.hpp"

using namespace attend;

namespace {

Var<float> random(const Shape& shape, std::uint64_t stream) {
  const Tensor<float> x(shape);
  const Generator::Stream numbers{5, stream};
  for (index_t i = 0; i < x.size(); ++i) x.data()[i] = static_cast<float>(numbers.normal(static_cast<std::uint64_t>(i)));
  return Var<float>(x, true);
}

Var<float> quantized(const Var<float>& w) {
  const QuantizedRows q{Tensor<std::int8_t>(w.shape()), Tensor<float>({w.dim(0)})};
  quantize_rows(Cpu{}, kernels::Matrix<const float>(as_rows(w.value())), q.rows.data(), q.scales.data());
  return Var<float>(Tensor<float>::from_quantized(q), true);
}

}  // namespace

TEST_CASE("PackedWeights: linear gives the same bits with them as without") {
  const auto x = random({5, 40}, 0), w = random({70, 40}, 1), b = random({70}, 2);
  const NoGrad no_grad;
  const auto whole = linear(x, w, b).value().values(), bare = linear(x, w).value().values(),
             part = linear_rows(x, w, b, 10, 33).value().values();
  const PackedWeights<float> packed;
  for (int round = 0; round < 2; ++round) {
    CHECK(linear(x, w, b, &packed).value().values() == whole);
    CHECK(linear(x, w, {}, &packed).value().values() == bare);
    CHECK(linear_rows(x, w, b, 10, 33, &packed).value().values() == part);
  }
}

TEST_CASE("PackedWeights: forgets weights that have changed when it is told to look") {
  const auto x = random({2, 8}, 0), w = random({6, 8}, 1);
  const NoGrad no_grad;
  const PackedWeights<float> packed;
  const auto now = [&] {
    packed.refresh();
    return linear(x, w, {}, &packed).value().values();
  };
  const auto before = now();
  w.value().assign(random({6, 8}, 2).value());
  const auto after = now();
  CHECK(after != before);
  CHECK(after == linear(x, w).value().values());
  w.value().data()[0] += 1;
  weights_changed();
  CHECK(now() == linear(x, w).value().values());
}

TEST_CASE("PackedWeights: threads multiply by the same ones while another makes them be packed anew") {
  const auto x = random({3, 40}, 0), w = random({70, 40}, 1), v = random({30, 70}, 2);
  const auto both = [&](const PackedWeights<float>* packed) {
    const NoGrad no_grad;
    return linear(linear(x, w, {}, packed), v, {}, packed).value().values();
  };
  const auto expected = both(nullptr);
  const PackedWeights<float> packed;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 300; ++i) {
        if (t == 0 && i % 3 == 0) weights_changed();
        packed.refresh();
        if (both(&packed) != expected) ++wrong;
      }
    });
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("PackedWeights: int8 is near, leaves recorded graphs alone, and is for float only") {
  const auto x = random({3, 64}, 0), w = random({50, 64}, 1), b = random({50}, 2);
  const PackedWeights<float> packed(Precision::int8);
  const auto exact = linear(x, w, b, &packed).value();  // recorded
  CHECK(exact.values() == linear(x, w, b).value().values());
  const NoGrad no_grad;
  const auto y = linear(x, w, b, &packed).value();
  CHECK(y.values() != exact.values());
  for (index_t i = 0; i < y.size(); ++i) CHECK(y.data()[i] == Approx(exact.data()[i]).margin(0.4));  // sums of size 8
  CHECK_THROWS_WITH(PackedWeights<double>(Precision::int8), "PackedWeights: int8 is for float models on the CPU");
}

TEST_CASE("PackedWeights: bf16 gives the bits that operations give in bf16, and is for float only") {
  const auto x = random({3, 65}, 0), w = random({50, 65}, 1), b = random({50}, 2);
  const PackedWeights<float> packed(Precision::bf16);
  const NoGrad no_grad;
  const auto y = linear(x, w, b, &packed).value().values();
  CHECK(y != linear(x, w, b).value().values());
  const MatmulPrecision precision(Precision::bf16);
  CHECK(y == linear(x, w, b).value().values());
  CHECK_THROWS_WITH(PackedWeights<double>(Precision::bf16), "PackedWeights: bf16 is for float models on the CPU");
}

TEST_CASE("PackedWeights: a product over nothing is the bias, and a new tensor of one value makes nothing be packed anew") {
  const NoGrad no_grad;
  for (const auto precision : {Precision::full, Precision::bf16, Precision::int8}) {
    const PackedWeights<float> packed(precision);
    const auto b = random({3}, 2);
    const auto y = linear(Var<float>(Tensor<float>({2, 0})), Var<float>(Tensor<float>({3, 0})), b, &packed).value().values();
    const auto bias = b.value().values();
    CHECK(std::equal(bias.begin(), bias.end(), y.begin()));
    CHECK(std::equal(bias.begin(), bias.end(), y.begin() + 3));
  }
  const auto before = weights_version();
  const Tensor<float> fresh({4}, 1.0f);
  CHECK(weights_version() == before);
  fresh.fill(2);
  CHECK(weights_version() > before);
}

TEST_CASE("PackedWeights: see what was written by hand, in whichever of the matrices") {
  const auto x = random({2, 40}, 0), w = random({70, 40}, 1), v = random({3000, 40}, 2), b = random({70}, 3);
  const NoGrad no_grad;
  for (const auto precision : {Precision::full, Precision::bf16, Precision::int8}) {
    const PackedWeights<float> packed(precision);
    const auto same_as = [](const PackedWeights<float>& weights, const Var<float>& input, const Var<float>& matrix) {
      return linear(input, matrix, {}, &weights).value().values();
    };
    const auto is_new = [&] {  // the same as what was packed just now
      const PackedWeights<float> fresh(precision);
      packed.refresh();
      return same_as(packed, x, w) == same_as(fresh, x, w) && same_as(packed, x, v) == same_as(fresh, x, v);
    };
    REQUIRE(is_new());
    for (float& value : w.value().span()) value -= 0.25f;
    CHECK(is_new());
    for (index_t i = 0; i < v.size(); i += 512) v.data()[i] += 1;  // a part of each row or so
    v.data()[v.size() - 1] -= 1;
    CHECK(is_new());
    for (index_t i = 1000; i < 5096; ++i) v.data()[i] = 0;  // as many as no gap between samples has
    CHECK(is_new());
    w.value().span().back() += 3;
    CHECK(is_new());
    v.data()[777] += 5;  // one value that no sample holds
#if defined(NDEBUG) || defined(__OPTIMIZE__)
    weights_changed();
#endif
    CHECK(is_new());
    const auto before = weights_version();
    packed.refresh();
    CHECK(weights_version() == before);
  }
}

TEST_CASE("PackedWeights: 8-bit rows multiply as their floats do in int8, be the precision full or int8, and not in bf16") {
  const auto x = random({5, 40}, 0), w = random({70, 40}, 1), b = random({70}, 2), q = quantized(w);
  const PackedWeights<float> int8(Precision::int8), bf16(Precision::bf16);
  const std::string refusal = "linear: the weight [70, 40] is of 8-bit integers";
  CHECK_THROWS_WITH(linear(x, q, b, &int8), Catch::Matchers::StartsWith(refusal));  // would be recorded
  const NoGrad no_grad;
  const auto whole = linear(x, w, b, &int8).value().values(), part = linear_rows(x, w, b, 10, 33, &int8).value().values();
  for (const auto precision : {Precision::full, Precision::int8}) {
    const PackedWeights<float> packed(precision);
    for (int round = 0; round < 2; ++round) {
      CHECK(linear(x, q, b, &packed).value().values() == whole);
      CHECK(linear_rows(x, q, b, 10, 33, &packed).value().values() == part);
      packed.refresh();
    }
    const auto other = quantized(random({70, 40}, 3));
    q.set_value(other.value());
    packed.refresh();
    CHECK(linear(x, q, b, &packed).value().values() == linear(x, other, b, &packed).value().values());
    CHECK(linear(x, q, b, &packed).value().values() != whole);
    q.set_value(quantized(w).value());
  }
  CHECK_THROWS_WITH(linear(x, q, b, &bf16), "PackedWeights: the precision is bf16, and the model is of 8-bit integers");
}

TEST_CASE("PackedWeights: rows in bfloat16 multiply as the floats that they are, in every precision") {
  const auto x = random({5, 40}, 0), w = random({70, 40}, 1), b = random({70}, 2);
  const Tensor<bfloat16> rows(w.shape());
  convert(Cpu{}, rows.size(), w.data(), rows.data());
  convert(Cpu{}, rows.size(), rows.data(), w.data());  // w is what the rows hold
  const Var<float> halves(Tensor<float>::from_bfloat16(rows), true);
  const std::string refusal = "linear: the weight [70, 40] is of numbers in bfloat16";
  const PackedWeights<float> full;
  CHECK_THROWS_WITH(linear(x, halves, b, &full), Catch::Matchers::StartsWith(refusal));  // would be recorded
  const NoGrad no_grad;
  for (const auto precision : {Precision::full, Precision::bf16, Precision::int8}) {
    const PackedWeights<float> packed(precision), expected(precision);
    const auto whole = linear(x, w, b, &expected).value().values(),
               part = linear_rows(x, w, b, 10, 33, &expected).value().values();
    for (int round = 0; round < 2; ++round) {
      CHECK(linear(x, halves, b, &packed).value().values() == whole);
      CHECK(linear_rows(x, halves, b, 10, 33, &packed).value().values() == part);
      packed.refresh();
    }
  }

  // Matrices that lie one behind the other are told apart by where they begin, in bytes.
  const PackedWeights<float> packed;
  const Var<float> first(Tensor<float>::from_bfloat16(rows.rows(0, 40))), second(Tensor<float>::from_bfloat16(rows.rows(40, 30)));
  CHECK(linear_rows(x, first, {}, 20, 20, &packed).value().values() == linear_rows(x, w, {}, 20, 20).value().values());
  CHECK(linear_rows(x, second, {}, 0, 20, &packed).value().values() == linear_rows(x, w, {}, 40, 20).value().values());
}
