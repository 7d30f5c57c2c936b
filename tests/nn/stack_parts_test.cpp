#include "stack_parts.hpp"

#include "attend/nn/dense.hpp"
#include "attend/nn/transformer.hpp"
#include "check.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;
using Model = nn::Transformer<double>;

namespace {

nn::TransformerOptions small() {
  return {.vocabulary = 7,
          .d_model = 8,
          .heads = 2,
          .d_ff = 5,
          .layers = 2,
          .dropout = 0,
          .activation = Activation::gelu,
          .max_length = 6};
}

}  // namespace

TEST_CASE("stack parts: gradients of a Transformer's output and loss with each") {
  for (const auto& part : test::stack_parts()) {
    INFO(part.name);
    auto options = small();
    part.choose(options);
    const Model model(options);
    test::randomise(model);
    const auto ragged = nn::ragged_batch(test::sentences()), dense = nn::dense_batch(test::sentences());
    test::check_gradients(
        model, [&] { return model(ragged); }, {}, 4);
    test::check_gradients(
        model, [&] { return model.loss(dense, {.smoothing = 0.1}); }, {}, 4);
  }
}

TEST_CASE("stack parts: a batch with padding and without give the same at every token, and so does a sentence alone") {
  for (const auto& part : test::stack_parts()) {
    INFO(part.name);
    auto options = small();
    part.choose(options);
    const Model model(options);
    test::randomise(model);
    const auto given = test::sentences();
    const auto ragged = nn::ragged_batch(given), dense = nn::dense_batch(given);
    const auto gradients = [&](const nn::Batch<>& batch) {
      nn::zero_grad(model);
      const auto loss = model.loss(batch);
      loss.backward();
      std::vector<Tensor<double>> list{loss.value()};
      for (const auto& p : nn::parameters(model)) list.push_back(p.grad().clone());
      return list;
    };
    const auto whole = model(ragged).value();
    const auto padded = model(dense).value().reshape({3, 3, 7});
    CHECK(test::distance(nn::drop_padding(padded, nn::dense_segments(3, 3, given.target_mask)), whole) < 1e-12);
    const auto one = gradients(ragged), other = gradients(dense);
    for (std::size_t i = 0; i < one.size(); ++i) CHECK(test::distance(one[i], other[i]) < 1e-12);
    for (index_t s = 0; s < 3; ++s) {
      const auto cut = [&](const Tensor<token_t>& x, const Segments& of) { return x.rows(of.begin(s), of.length(s)); };
      const auto &sources = ragged.source_segments, &targets = ragged.target_segments;
      const nn::Batch<> alone{cut(ragged.source, sources), Segments::ragged({sources.length(s)}), cut(ragged.target, targets),
                              Segments::ragged({targets.length(s)}), cut(ragged.labels, targets)};
      CHECK(test::distance(model(alone).value(), whole.rows(targets.begin(s), targets.length(s))) < 1e-13);
    }
  }
}

TEST_CASE("stack parts: each makes another function of the same tokens, or leaves parameters out") {
  const auto output = [](const nn::TransformerOptions& o) {
    seed(3);
    const Model model(o);
    return std::pair{model(nn::ragged_batch(test::sentences())).value(), nn::parameter_count(model)};
  };
  const auto plain = output(small());
  for (const auto& part : test::stack_parts()) {
    INFO(part.name);
    auto options = small();
    part.choose(options);
    const auto other = output(options);
    CHECK((test::distance(other.first, plain.first) > 1e-3 || other.second < plain.second));
  }
}

TEST_CASE("stack parts: what does not go together is refused by name") {
  const auto refuses = [](auto change, const std::string& why) {
    auto o = nn::model_options(small());
    change(o.decoder);
    INFO(why);
    CHECK_THROWS_AS(Model(o), ValueError);
    CHECK_THROWS_WITH(Model(o), ContainsSubstring("Transformer decoder: ") && ContainsSubstring(why));
    CHECK_THROWS_WITH(nn::Decoder<double>(o.decoder), ContainsSubstring("Decoder: ") && ContainsSubstring(why));
  };
  using nn::PositionKind;
  refuses([](auto& o) { o.positions = PositionKind::rotary, o.d_k = 3; }, "rotary positions turn 1 of 3 columns of a head");
  refuses([](auto& o) { o.positions = PositionKind::rotary, o.position.rotary_fraction = 0.25; },
          "rotary positions turn 0.25 of 4 columns");
  refuses([](auto& o) { o.positions = PositionKind::rotary_interleaved, o.position.rotary_fraction = 0.4; },
          "rotary positions turn 0.4 of 4 columns");
  refuses([](auto& o) { o.position.rotary_fraction = 0.5; }, "rotary_fraction is 0.5, and positions are not rotary");
  refuses([](auto& o) { o.positions = PositionKind::rotary, o.position.rotary_fraction = 0; }, "rotary_fraction is 0");
  refuses([](auto& o) { o.positions = PositionKind::rotary, o.position.rotary_fraction = 1.5; }, "rotary_fraction is 1.5");
  refuses([](auto& o) { o.positions = PositionKind::rotary, o.position.offset = 2; },
          "only positions that are added to embeddings have one");
  refuses([](auto& o) { o.positions = PositionKind::relative, o.position.buckets = 1; }, "position.buckets is 1, expected 2");
  refuses([](auto& o) { o.positions = PositionKind::relative, o.position.buckets = 3, o.causal = 0; },
          "there are 3 buckets of distances, expected at least 4");
  refuses([](auto& o) { o.positions = PositionKind::relative_each, o.position.max_distance = 16; }, "max_distance is 16");
  refuses([](auto& o) { o.heads = 4, o.kv_heads = 3; }, "kv_heads is 3, no divisor of 4 heads");
  refuses([](auto& o) { o.kv_heads = -1; }, "kv_heads is -1");
  refuses([](auto& o) { o.kv_heads = 4; }, "kv_heads is 4, no divisor of 2 heads");
  refuses([](auto& o) { o.attention_scale = -1; }, "attention_scale is -1");
  refuses([](auto& o) { o.position.buckets = 16; }, "position.buckets is 16");
}

TEST_CASE("stack parts: a sentence beyond the positions of the model is an error") {
  for (const auto& part : test::stack_parts()) {
    INFO(part.name);
    auto options = small();
    options.max_length = 3;
    part.choose(options);
    const Model model(options);
    CHECK_THROWS_AS(model(nn::ragged_batch(test::sentences())), ShapeError);
  }
}

TEST_CASE("stack parts: without biases there is none but that of the norms and of the head") {
  auto options = small();
  options.bias = false, options.gated = true;
  for (const auto& name : test::names(Model(options))) {
    INFO(name);
    if (name.ends_with(".bias")) CHECK((name.find("layer_norm") != name.npos || name == "lm_head.bias"));
  }
}

TEST_CASE("stack parts: layers share the tables of rotary positions") {
  auto options = small();
  options.positions = nn::PositionKind::rotary;
  const nn::Encoder<double> encoder(nn::model_options(options).encoder);
  CHECK(encoder.layers[0].self_attn.positions.turns.data() == encoder.layers[1].self_attn.positions.turns.data());
  CHECK(nn::parameter_count(encoder) > 0);
  for (const auto& name : test::names(encoder)) CHECK(name.find("position") == std::string::npos);
}
