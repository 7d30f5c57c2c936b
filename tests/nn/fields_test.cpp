#include "attend/nn/fields.hpp"

#include <optional>

#include "attend/nn/feed_forward.hpp"
#include "attend/nn/multi_head_attention.hpp"
#include "check.hpp"

using namespace attend;

namespace {

/// A model as a user writes one: parts, a list of parts, an optional part, a parameter shared with one of them.
struct Model {
  using value_type = double;
  using device_type = Cpu;
  nn::FeedForward<double> first{3, 4, {.dropout = 0.5}};
  std::vector<nn::MultiHeadAttention<double>> list;
  std::optional<nn::Linear<double>> extra;
  Var<double> shared, free = nn::constant_parameter<double, Cpu>({2}, 1);

  explicit Model(bool with_extra) : shared(first.fc1.weight) {
    for (int i = 0; i < 2; ++i) list.emplace_back(nn::MultiHeadAttentionOptions{.d_model = 4, .heads = 2, .dropout = 0.1});
    if (with_extra) extra.emplace(3, 1);
  }
  template <class F>
  void fields(F&& field) {
    field("first", first);
    field("list", list);
    field("extra", extra);
    field("shared", shared);
    field("free", free);
  }
};

constexpr index_t size_of_list = 2 * (4 * (4 * 4 + 4));

}  // namespace

TEST_CASE("state holds each tensor once, under the first of its names") {
  const Model model(true);
  const auto names = test::names(model);
  CHECK(names.front() == "first.fc1.weight");
  CHECK(names[4] == "list.0.q_proj.weight");
  CHECK(names[4 + 8] == "list.1.q_proj.weight");
  CHECK(names[4 + 16] == "extra.weight");
  CHECK(names.back() == "free");
  CHECK(names.size() == 4 + 16 + 2 + 1);
  CHECK(nn::named_tensors(model).size() == names.size() + 1);  // `shared` once more
  CHECK(test::names(Model(false)).size() == names.size() - 2);
}

TEST_CASE("parameters counts what is shared and what is packed once") {
  const Model model(true);
  CHECK(nn::parameters(model).size() == 4 + 2 * 4 + 2 + 1);
  CHECK(nn::parameter_count(model) == 3 * 4 + 4 + 4 * 3 + 3 + size_of_list + 4 + 2);
  model.free.set_requires_grad(false);  // training leaves it alone
  CHECK(nn::parameter_count(model) == 3 * 4 + 4 + 4 * 3 + 3 + size_of_list + 4);
}

TEST_CASE("a named tensor gives its part of the gradient") {
  const nn::MultiHeadAttention<double> attention({.d_model = 4, .heads = 2});
  const auto parts = nn::state(attention);
  CHECK_THROWS_AS(parts[0].grad(), Error);
  const auto x = test::random_leaf({5, 4}, 0);
  const auto y = attention(x, {.segments = Segments::ragged({5})});
  y.backward(test::random_tensor(y.shape(), 1));
  CHECK(parts[2].name == "k_proj.weight");
  CHECK(parts[2].grad().data() == attention.weight.grad().data() + 16);
  CHECK(parts[2].grad().shape() == Shape{4, 4});
  nn::zero_grad(attention);
  for (const auto& p : nn::parameters(attention)) CHECK(p.grad().empty());
}

TEST_CASE("set_training reaches every dropout, and EvaluationScope puts each back") {
  Model model(true);
  CHECK(nn::is_training(model));
  model.list[1].dropout.training = false;
  {
    const nn::EvaluationScope evaluation(model);
    CHECK_FALSE(nn::is_training(model));
    {
      const nn::EvaluationScope again(model);
      CHECK_FALSE(nn::is_training(model));
    }
    CHECK_FALSE(nn::is_training(model));
  }
  CHECK(model.first.dropout.training);
  CHECK(model.list[0].dropout.training);
  CHECK_FALSE(model.list[1].dropout.training);
  nn::set_training(model, false);
  CHECK_FALSE(nn::is_training(model));
  nn::set_training(model, true);
  CHECK(model.list[1].dropout.training);
  nn::Linear<double> none(2, 2);
  CHECK_FALSE(nn::is_training(none));  // nothing that could differ
}

TEST_CASE("copy_parameters makes a second model equal and leaves it independent") {
  const Model from(true), to(true);
  test::randomise(from);
  nn::copy_parameters(from, to);
  CHECK(test::distance(from.list[1].weight.value(), to.list[1].weight.value()) == 0);
  CHECK(from.list[1].weight.data() != to.list[1].weight.data());
  CHECK_THROWS_AS(nn::copy_parameters(from, Model(false)), ShapeError);
}
