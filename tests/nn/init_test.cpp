#include "attend/nn/init.hpp"

#include <cmath>

#include "attend/nn/multi_head_attention.hpp"
#include "check.hpp"

using namespace attend;

TEST_CASE("xavier_uniform fills [-a, a] evenly, a = sqrt(6 / (in + out))") {
  seed(5);
  const Tensor<double> weight({100, 50});
  nn::xavier_uniform(weight);
  const double a = std::sqrt(6.0 / 150);
  double sum = 0, squares = 0, largest = 0;
  for (const double w : weight.span()) sum += w, squares += w * w, largest = std::max(largest, std::abs(w));
  CHECK(largest <= a);
  CHECK(largest > 0.99 * a);
  CHECK(sum / 5000 == Approx(0).margin(0.05 * a));
  CHECK(squares / 5000 == Approx(a * a / 3).epsilon(0.05));
  CHECK_THROWS_AS(nn::xavier_uniform(Tensor<double>({4})), ValueError);
}

TEST_CASE("normal has the wanted deviation") {
  seed(5);
  const Tensor<float> x({5000});
  nn::normal(x, 0.5);
  double sum = 0, squares = 0;
  for (const float v : x.span()) sum += v, squares += v * v;
  CHECK(sum / 5000 == Approx(0).margin(0.03));
  CHECK(squares / 5000 == Approx(0.25).epsilon(0.06));
}

TEST_CASE("a seed gives the same model, in float as in double; another gives another") {
  const auto first_weight = [](auto zero, std::uint64_t number) {
    seed(number);
    const nn::Linear<decltype(zero)> one(3, 4), two(3, 4);
    CHECK(one.weight.value()(0, 0) != two.weight.value()(0, 0));
    return static_cast<double>(two.weight.value()(3, 2));
  };
  CHECK(first_weight(0.0, 7) == first_weight(0.0, 7));
  CHECK(first_weight(0.0f, 7) == Approx(first_weight(0.0, 7)).epsilon(1e-6));
  CHECK(first_weight(0.0, 8) != first_weight(0.0, 7));
}

TEST_CASE("xavier_uniform_all fills matrices part by part and leaves vectors") {
  seed(6);
  const nn::MultiHeadAttention<double> attention({.d_model = 8, .heads = 2, .d_k = 4, .d_v = 32});
  for (const auto& p : nn::parameters(attention)) p.value().fill(9);
  nn::xavier_uniform_all(attention);
  for (const auto& t : nn::state(attention)) {
    INFO(t.name);
    const double a = t.value.rank() == 2 ? std::sqrt(6.0 / static_cast<double>(t.value.dim(0) + t.value.dim(1))) : 9;
    double largest = 0;
    for (const double w : t.value.span()) largest = std::max(largest, std::abs(w));
    CHECK(largest <= a);
    CHECK(largest > 0.8 * a);
  }
}

TEST_CASE("without_initial_values: vectors have theirs, and the generator goes on as if matrices were drawn") {
  const auto make = [](auto&& build) {
    seed(5);
    auto attention = build();
    return std::pair(attention, default_generator().drawn());
  };
  const nn::MultiHeadAttentionOptions options{.d_model = 6, .heads = 2};
  const auto [drawn, count] = make([&] { return nn::MultiHeadAttention<float>(options); });
  const auto [bare, bare_count] = make([&] { return nn::without_initial_values<nn::MultiHeadAttention<float>>(options); });
  CHECK(count == 4);
  CHECK(bare_count == count);
  CHECK(bare.bias->value().values() == std::vector<float>(18, 0));
  CHECK(bare.weight.shape() == drawn.weight.shape());
  CHECK_FALSE(nn::WithoutInitialValues::current());

  const Tensor<float> x({4, 4}, 3.0f);
  {
    const nn::WithoutInitialValues scope;
    nn::xavier_uniform(x);
    nn::normal(x, 1);
  }
  CHECK(x.values() == std::vector<float>(16, 3));
  nn::normal(x, 1);
  CHECK(x.values() != std::vector<float>(16, 3));
}
