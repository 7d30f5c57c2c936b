#include "attend/nn/adapters.hpp"

#include <map>

#include "attend/nn/additive_attention.hpp"
#include "attend/nn/feed_forward.hpp"
#include "attend/nn/freeze.hpp"
#include "attend/nn/hidden_matrices.hpp"
#include "attend/nn/transformer.hpp"
#include "check.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;

namespace {

const std::vector<std::string> everything{"q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2"};

/// W + s B A, by plain loops.
Tensor<double> explicit_weight(const Tensor<double>& weight, const nn::Adapter<double>& adapter) {
  const auto sum = weight.clone();
  for (index_t i = 0; i < weight.dim(0); ++i)
    for (index_t j = 0; j < weight.dim(1); ++j)
      for (index_t r = 0; r < adapter.a.dim(0); ++r)
        sum(i, j) += adapter.scale * adapter.b.value()(i, r) * adapter.a.value()(r, j);
  return sum;
}

/// A Linear beside an activation, as a user has it, behind a vector and an optional.
struct Own {
  using value_type = double;
  using device_type = Cpu;
  std::vector<nn::Linear<double>> layers;
  std::optional<nn::Linear<double>> last;
  Var<double> gain;
  nn::Dropout dropout{0.5};
  template <class F>
  void fields(F&& field) {
    field("layers", layers);
    field("last", last);
    field("gain", gain);
    field("dropout", dropout);
  }
};
Own own() {
  Own model;
  model.layers = {nn::Linear<double>(3, 4), nn::Linear<double>(4, 4)};
  model.last = nn::Linear<double>(4, 2);
  model.gain = nn::constant_parameter<double, Cpu>({4}, 1);
  return model;
}

nn::Transformer<double> transformer(double dropout = 0) {
  seed(3);
  return nn::Transformer<double>(
      {.vocabulary = 11, .d_model = 4, .heads = 2, .d_ff = 6, .layers = 2, .dropout = dropout, .max_length = 8});
}
nn::Batch<> batch() {
  return {.source = Tensor<token_t>({5}, {1, 2, 3, 4, 5}),
          .source_segments = Segments::ragged({2, 3}),
          .target = Tensor<token_t>({4}, {1, 5, 1, 6}),
          .target_segments = Segments::ragged({2, 2}),
          .labels = Tensor<token_t>({4}, {5, 2, 6, 2})};
}

}  // namespace

TEST_CASE("adapters: gradients of a linear layer, with dropout too, and the adapter alone") {
  const bool bias = GENERATE(true, false), frozen = GENERATE(true, false);
  const double dropout = GENERATE(0.0, 0.4);
  CAPTURE(bias, frozen, dropout);
  nn::Linear<double> linear(5, 4, {.bias = bias});
  nn::add_adapters(linear, {.rank = 2, .alpha = 3, .dropout = dropout, .modules = {"*"}});
  test::randomise(linear);
  if (!frozen) nn::unfreeze(linear, "*");
  const auto x = test::random_leaf({2, 3, 5}, 0);
  std::vector<Var<double>> inputs{x, linear.adapter->a, linear.adapter->b};
  if (!frozen) inputs.push_back(linear.weight);
  const auto result = gradcheck(
      [&] {
        seed(5);
        return linear(x);
      },
      inputs);
  INFO(result.message);
  CHECK(result.passed);
  CHECK(linear.weight.grad().empty() == frozen);
}

TEST_CASE("adapters: gradients of an attention, of any of its projections") {
  const std::vector<std::string> modules =
      GENERATE(std::vector<std::string>{"q_proj", "v_proj"}, std::vector<std::string>{"k_proj"}, everything);
  const index_t d_memory = GENERATE(0, 7);
  nn::MultiHeadAttention<double> attention({.d_model = 6, .heads = 3, .d_k = 2, .d_v = 4, .d_memory = d_memory});
  auto fitting = modules;
  std::erase_if(fitting, [](const std::string& m) { return m.starts_with("fc"); });
  nn::add_adapters(attention, {.rank = 2, .modules = fitting});
  nn::unfreeze(attention, "*");
  test::randomise(attention);
  const auto queries = Segments::ragged({3, 1}), sources = Segments::ragged({2, 5});
  const auto x = test::random_leaf({4, 6}, 0), memory = test::random_leaf({7, d_memory ? d_memory : 6}, 1);
  const auto cross = [&] { return attention(x, {.queries = queries, .memory = {memory, sources}}); };
  test::check_gradients(attention, cross, {x, memory});
  if (d_memory == 0) test::check_gradients(attention, [&] { return attention(x, {.segments = queries, .causal = true}); }, {x});
}

TEST_CASE("adapters: a linear layer computes with W + s B A") {
  const bool rslora = GENERATE(true, false);
  nn::Linear<double> linear(5, 4);
  nn::add_adapters(linear, {.rank = 3, .alpha = 6, .rslora = rslora, .modules = {"*"}});
  test::randomise(linear);
  CHECK(linear.adapter->scale == Approx(rslora ? 6 / std::sqrt(3.0) : 2.0));
  const auto x = test::random_leaf({7, 5}, 0);
  const Var<double> whole(explicit_weight(linear.weight.value(), *linear.adapter));
  CHECK(test::distance(whole.value(), linear.weight.value()) > 0.1);
  CHECK(test::distance(linear(x).value(), attend::linear(x, whole, linear.bias).value()) < 1e-13);
}

TEST_CASE("adapters: an attention and a feed-forward compute with W + s B A of each part, and so they do merged") {
  const index_t d_memory = GENERATE(0, 7), kv_heads = GENERATE(0, 1);
  nn::MultiHeadAttention<double> attention(
      {.d_model = 6, .heads = 3, .d_k = 2, .d_v = 4, .d_memory = d_memory, .kv_heads = kv_heads});
  nn::FeedForward<double> feed_forward(6, 8, {.activation = Activation::gelu, .gated = true});
  nn::add_adapters(attention, {.rank = 2, .modules = {"q_proj", "v_proj", "out_proj"}});
  nn::add_adapters(feed_forward, {.rank = 3, .modules = {"*"}});
  test::randomise(attention), test::randomise(feed_forward);
  nn::MultiHeadAttention<double> plain(
      {.d_model = 6, .heads = 3, .d_k = 2, .d_v = 4, .d_memory = d_memory, .kv_heads = kv_heads});
  std::map<std::string, Tensor<double>> values;
  for (const auto& [name, rows, adapter] : nn::adaptables(attention)) {
    const auto matrix = rows.packed.value().rows(rows.first, rows.count);
    values.emplace(name + ".weight", adapter ? explicit_weight(matrix, *adapter) : matrix);
  }
  for (const auto& t : nn::named_tensors(attention))
    if (t.name.find("lora") == std::string::npos) values.try_emplace(t.name, t.value);
  for (const auto& t : nn::named_tensors(plain)) t.value.assign(values.at(t.name));
  const auto queries = Segments::ragged({3, 1}), sources = Segments::ragged({2, 5});
  const auto x = test::random_leaf({4, 6}, 0), memory = test::random_leaf({7, d_memory ? d_memory : 6}, 1);
  const auto cross = [&](const auto& a) { return a(x, {.queries = queries, .memory = {memory, sources}}).value(); };
  const auto before = cross(attention), ff_before = feed_forward(x).value();
  CHECK(test::distance(before, cross(plain)) < 1e-12);
  if (d_memory == 0)
    CHECK(test::distance(attention(x, {.segments = queries}).value(), plain(x, {.segments = queries}).value()) < 1e-12);
  nn::merge_adapters(attention), nn::merge_adapters(feed_forward);
  CHECK(test::distance(before, cross(attention)) < 1e-12);
  CHECK(test::distance(ff_before, feed_forward(x).value()) < 1e-12);
  CHECK(test::names(attention) == test::names(plain));
}

TEST_CASE("adapters: a new one changes nothing, and all else is frozen") {
  auto model = transformer();
  const auto before = model(batch()).value();
  const auto names = test::names(model);
  const auto [count, numbers] = nn::add_adapters(model, {.rank = 2, .alpha = 5, .modules = {"q_proj", "fc1"}});
  CHECK(count == 2 + 2 * 2 + 4);  // self-attentions, decoder's two, feed-forwards
  CHECK(numbers == 6 * 2 * (4 + 4) + 4 * 2 * (4 + 6));
  CHECK(nn::parameter_count(model) == numbers);
  CHECK(model.options.adapters.alpha == 5);
  CHECK(test::distance(before, model(batch()).value()) == 0);
  for (const auto& t : nn::state(model)) {
    const bool a = t.name.ends_with(".lora_A.weight"), b = t.name.ends_with(".lora_B.weight");
    CHECK(t.parameter.requires_grad() == (a || b));
    double largest = 0;
    for (const double v : t.value.values()) largest = std::max(largest, std::abs(v));
    if (b) CHECK(largest == 0);
    if (a) CHECK((largest > 0.05 && largest <= 0.5));  // 1 / sqrt(4)
  }
  CHECK(nn::adapted_modules(model).front() == "encoder.layers.0.self_attn.q_proj");
  const auto all = test::names(model);
  CHECK(std::count(all.begin(), all.end(), "encoder.layers.0.self_attn.q_proj.lora_A.weight") == 1);
  CHECK(std::count(all.begin(), all.end(), "decoder.layers.1.fc1.lora_B.weight") == 1);
  CHECK(all.size() == names.size() + 2 * static_cast<std::size_t>(count));

  // Its matrices are no work for an optimizer that makes matrices orthogonal, A and B being halves of one.
  CHECK(nn::hidden_matrices(model).empty());
}

TEST_CASE("adapters: a model that is made with them has them") {
  auto model = transformer();
  nn::add_adapters(model, {.rank = 2, .alpha = 5, .dropout = 0.25, .rslora = true, .modules = {"*.k_proj", "encoder.*.fc2"}});
  test::randomise(model);
  nn::Transformer<double> again(model.options);
  CHECK(test::names(again) == test::names(model));
  nn::copy_parameters(model, again);
  nn::set_training(model, false), nn::set_training(again, false);
  CHECK(test::distance(model(batch()).value(), again(batch()).value()) == 0);
  CHECK(nn::frozen_names(again) == nn::frozen_names(model));
  CHECK(again.encoder.layers[0].feed_forward.fc2.adapter->dropout.p == 0.25);
}

TEST_CASE("adapters: merged, a model computes what it did, so do its copies, and it learns again") {
  auto model = transformer();
  const auto names = test::names(model);
  nn::add_adapters(model, {.rank = 2, .modules = everything});
  test::randomise(model);
  const auto copy = model;
  const auto before = model(batch()).value();
  nn::merge_adapters(model);
  CHECK(test::distance(before, model(batch()).value()) < 1e-12);
  CHECK(test::distance(before, copy(batch()).value()) < 1e-12);
  CHECK(test::names(model) == names);
  CHECK(model.options.adapters.rank == 0);
  CHECK_FALSE(nn::has_adapters(model));
  CHECK(nn::frozen_names(model).empty());
  CHECK_THROWS_WITH(nn::merge_adapters(model), "merge_adapters: the model has no adapters");
  nn::add_adapters(model, {.rank = 4});  // once more
  CHECK(test::distance(before, model(batch()).value()) < 1e-12);
}

TEST_CASE("adapters: dropout is drawn in training alone, and in the mode that the model is in") {
  auto model = transformer(0.0);
  nn::set_training(model, false);
  nn::add_adapters(model, {.rank = 2, .dropout = 0.5});
  test::randomise(model);
  CHECK_FALSE(nn::is_training(model));
  const auto still = model(batch()).value();
  CHECK(test::distance(still, model(batch()).value()) == 0);
  nn::set_training(model, true);
  CHECK(test::distance(model(batch()).value(), model(batch()).value()) > 1e-6);
  nn::Linear<double> linear(8, 8);  // has no dropout that would say a mode
  nn::add_adapters(linear, {.dropout = 0.5, .modules = {"*"}});
  CHECK(nn::is_training(linear));
}

TEST_CASE("adapters: a struct of one's own gets them where its parts are linear layers") {
  auto model = own();
  nn::add_adapters(model, {.rank = 2, .modules = {"layers.*", "last"}});
  CHECK(test::names(model) == test::Names{"layers.0.weight", "layers.0.bias", "layers.0.lora_A.weight", "layers.0.lora_B.weight",
                                          "layers.1.weight", "layers.1.bias", "layers.1.lora_A.weight", "layers.1.lora_B.weight",
                                          "last.weight", "last.bias", "last.lora_A.weight", "last.lora_B.weight", "gain"});
  CHECK(nn::adapted_modules(model) == test::Names{"layers.0", "layers.1", "last"});
  nn::AdditiveAttention<double> attention(4, 5, 6);
  nn::add_adapters(attention, {.rank = 2, .modules = {"*"}});
  CHECK(nn::adapted_modules(attention) == test::Names{"q_proj", "k_proj"});
}

TEST_CASE("adapters: what does not fit is said at once, and nothing has changed") {
  auto model = own();
  const auto refused = [&](const nn::AdapterOptions& o, const std::string& why) {
    CAPTURE(why);
    CHECK_THROWS_WITH(nn::add_adapters(model, o), ContainsSubstring(why));
    CHECK_FALSE(nn::has_adapters(model));
    CHECK(nn::frozen_names(model).empty());
  };
  refused({.rank = 0}, "add_adapters: rank is 0, expected 1 or more");
  refused({.rank = -1}, "add_adapters: rank is -1, expected 1 or more");
  refused({.alpha = 0}, "add_adapters: alpha is 0, expected more than 0");
  refused({.dropout = 1}, "add_adapters: dropout is 1");
  refused({.rank = 2, .modules = {}}, "no modules are named");
  refused({.rank = 2, .modules = {"ast"}}, "add_adapters: rank 2: no module is called `ast` (the first of 3 is layers.0)");
  refused({.rank = 3, .modules = {"last", "first"}},
          "rank 3: no module is called `first` (the first of 3 is layers.0); narrower than the rank: last [2, 4]");
  model.layers[1].weight = model.layers[0].weight = Var<double>(Tensor<double>({4, 4}, 1.0), true);
  refused({.rank = 2, .modules = {"layers.1"}}, "one matrix, which cannot become two: layers.0.weight and layers.1.weight");
  auto twice = own();
  nn::add_adapters(twice, {.rank = 2, .modules = {"last"}});
  CHECK_THROWS_WITH(nn::add_adapters(twice, {.rank = 2, .modules = {"last", "layers.0"}}),
                    ContainsSubstring("rank 2: with an adapter already (merge_adapters folds it in): last"));
}
