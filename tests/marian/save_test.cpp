#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "marian_data.hpp"
#include "models.hpp"
#include "temporary_folder.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;
using Tokens = std::vector<token_t>;

namespace {

const text::SentencePiece& pieces() {
  static const auto trained = text::SentencePiece::train(
      std::vector<std::string>{"one small house", "two quiet rivers", "no green window", "a bright old stone"},
      {.vocabulary = 60, .normalization = "identity"});
  return trained;
}

/// A small model with random numbers everywhere, biases and gains too.
nn::Transformer<float> random_model(const nn::ModelOptions& options) {
  attend::seed(5);
  nn::Transformer<float> model(options);
  for (const auto& t : nn::state(model))
    if (t.value.rank() == 1)
      for (index_t i = 0; i < t.value.size(); ++i) t.value.data()[i] += 0.1f * static_cast<float>(i % 7 - 3);
  nn::set_training(model, false);
  return model;
}

nn::ModelOptions small(index_t vocabulary) {
  return nn::model_options({.vocabulary = vocabulary,
                            .d_model = 12,
                            .heads = 3,
                            .d_ff = 20,
                            .layers = 2,
                            .max_length = 40,
                            .share_embeddings = true,
                            .tie_head = true});
}

/// The logits of both models for the same sentence and beginning of a translation, which each sees as its own tokens; those of
/// the second in the order of the first. The begin token's are left out: no translation holds it.
double difference(const TranslationModel<float>& a, const TranslationModel<float>& b) {
  const std::string source = "two small rivers", target = "no old house";
  const auto logits = [&](const TranslationModel<float>& m) {
    Tokens s = m.tokenizer.encode(source), t = m.tokenizer.encode_target(target);
    s.push_back(m.tokenizer.eos());
    t.insert(t.begin(), m.tokenizer.bos() >= 0 ? m.tokenizer.bos() : m.tokenizer.eos());
    const auto rows = [](const Tokens& list) { return Segments::ragged({static_cast<index_t>(list.size())}); };
    const auto tensor = [](const Tokens& list) {
      return Tensor<token_t>({static_cast<index_t>(list.size())}, std::span<const token_t>(list));
    };
    return marian::logits(m.model, tensor(s), rows(s), tensor(t), rows(t));
  };
  const auto x = logits(a), y = logits(b);
  REQUIRE(x.dim(0) == y.dim(0));
  double worst = 0;
  index_t compared = 0;
  for (token_t i = 0; i < static_cast<token_t>(a.tokenizer.target_size()); ++i)
    for (token_t j = 0; j < static_cast<token_t>(b.tokenizer.target_size()); ++j) {
      const bool same = i == a.tokenizer.eos()   ? j == b.tokenizer.eos()
                        : j == b.tokenizer.eos() ? false
                        : i == a.tokenizer.unk() || j == b.tokenizer.unk()
                            ? i == a.tokenizer.unk() && j == b.tokenizer.unk()
                            : a.tokenizer.target_piece(i) == b.tokenizer.target_piece(j);
      if (!same || i == a.tokenizer.bos() || j == b.tokenizer.bos() || i == a.tokenizer.pad() || j == b.tokenizer.pad()) continue;
      ++compared;
      for (index_t row = 0; row < x.dim(0); ++row) worst = std::max(worst, static_cast<double>(std::abs(x(row, i) - y(row, j))));
    }
  CHECK(compared >= std::min(a.tokenizer.target_size(), b.tokenizer.target_size()) - 3);
  return worst;
}

/// What comes back of a model that was written.
TranslationModel<float> written(const std::filesystem::path& folder, const TranslationModel<float>& m,
                                const io::SaveMarianOptions& options = {}) {
  io::save_marian(folder, m.model, m.tokenizer, options);
  return load(folder);
}

}  // namespace

TEST_CASE("save_marian: what was written in bfloat16 may be loaded to translate, and computes the same") {
  const TemporaryFolder folder;
  const TranslationModel<float> m{.model = random_model(small(pieces().size())), .tokenizer = pieces()};
  const auto floats = written(folder / "model", m, {.stored = io::DType::bf16});
  const io::MapFrom setting(GENERATE(std::size_t{1}, io::MapFrom::never));
  for (const auto precision : {Precision::full, Precision::bf16, Precision::int8}) {
    const auto step = [&](const TranslationModel<float>& with) {
      const decode::TransformerModel<float> steps(with.model, precision);
      auto state = steps.begin(Tensor<token_t>({3}, {3, 4, 5}), Segments::ragged({3}));
      return steps.step(state, std::vector<token_t>{with.tokenizer.bos()}).values();
    };
    const io::LoadFor purpose(precision);
    const auto loaded = load(folder / "model");
    CHECK(loaded.model.options.decoder.positions == nn::PositionKind::sinusoidal_halves);  // so the begin token's row came back
    CHECK(step(loaded) == step(floats));
  }
}

TEST_CASE("save_marian: a model of this library comes back with the same logits") {
  const TemporaryFolder folder;
  const auto check = [&](const nn::ModelOptions& options, nn::PositionKind kind = nn::PositionKind::sinusoidal_halves,
                         const io::SaveMarianOptions& save = {}) {
    const TranslationModel<float> m{.model = random_model(options), .tokenizer = pieces()};
    const auto back = written(folder / "model", m, save);
    CHECK(difference(m, back) < 2e-5);
    CHECK(back.model.options.encoder.positions == kind);
    CHECK(back.model.options.decoder.positions == kind);
    CHECK(back.tokenizer.bos() == back.tokenizer.size() - 1);
    CHECK(back.tokenizer.eos() == 0);
    CHECK(back.tokenizer.decode(back.tokenizer.encode("two quiet rivers")) == "two quiet rivers");
  };
  auto o = small(pieces().size());
  const auto both = [&](auto&& change) {
    change(o.encoder);
    change(o.decoder);
  };
  SECTION("sinusoids side by side, everything shared") { check(o); }
  SECTION("the begin token keeps its embedding") { check(o, nn::PositionKind::sinusoidal_halves, {.start_from_zero = false}); }
  SECTION("an odd width, no scaling, another activation, other dropout") {
    both([](nn::StackOptions& s) {
      s.d_model = 15, s.scale_embedding = false, s.activation = Activation::silu;
      s.dropout.attention = 0.2, s.dropout.residual = s.dropout.embedding = 0.3;
    });
    check(o);
  }
  SECTION("nothing shared, no bias of the head") {
    o.share_embeddings = o.tie_head = o.head_bias = false;
    check(o);
  }
  SECTION("shared embeddings and a head of its own") {
    o.tie_head = false;
    check(o);
  }
  SECTION("an own embedding for each side, the head tied") {
    o.share_embeddings = false;
    check(o);
  }
  SECTION("stacks of other sizes, and attention without biases") {
    o.decoder.layers = 1, o.decoder.heads = 4, o.decoder.d_ff = 9;
    both([](nn::StackOptions& s) { s.attention_bias = false; });
    check(o);
  }
  SECTION("halves") {
    both([](nn::StackOptions& s) { s.positions = nn::PositionKind::sinusoidal_halves; });
    check(o);
  }
  SECTION("sinusoids of another base go into the file") {
    both([](nn::StackOptions& s) { s.position_base = 500; });
    check(o, nn::PositionKind::learned);
  }
  SECTION("learned positions") {
    both([](nn::StackOptions& s) { s.positions = nn::PositionKind::learned; });
    check(o, nn::PositionKind::learned);
  }
  SECTION("no positions") {
    both([](nn::StackOptions& s) { s.positions = nn::PositionKind::none; });
    check(o, nn::PositionKind::learned);
  }
  SECTION("a vocabulary with room at its end") { check(small(pieces().size() + 5)); }
}

TEST_CASE("save_marian: halves on one side alone") {
  const TemporaryFolder folder;
  auto o = small(pieces().size());
  o.decoder.positions = nn::PositionKind::sinusoidal_halves;
  const TranslationModel<float> m{.model = random_model(o), .tokenizer = pieces()};
  const auto back = written(folder / "model", m);
  CHECK(difference(m, back) < 2e-5);
  CHECK(back.model.options.encoder.positions == nn::PositionKind::learned);
  CHECK(back.model.options.decoder.positions == nn::PositionKind::sinusoidal_halves);
}

TEST_CASE("save_marian: a tokenizer without a begin token") {
  const TemporaryFolder folder;
  const auto sp = text::SentencePiece::load(marian::folder("no_begin.spm"));
  REQUIRE(sp.bos() == -1);
  const TranslationModel<float> m{.model = random_model(small(sp.size())), .tokenizer = sp};
  CHECK(difference(m, written(folder / "zero", m)) < 2e-5);
  const auto back = written(folder / "own", m, {.start_from_zero = false});
  CHECK(difference(m, back) < 2e-5);
  CHECK(back.tokenizer.bos() == back.tokenizer.eos());
}

TEST_CASE("save_marian: a Marian model comes back as it was") {
  const std::string name = GENERATE("swish", "relu_separate", "untied", "half");
  const TemporaryFolder folder;
  const auto m = load(marian::folder(name));
  const bool half = name == "half";
  const auto back = written(folder / "model", m, {.stored = half ? io::DType::f16 : io::DType::f32, .search = m.search});
  CHECK(difference(m, back) < (half ? 0.05 : 2e-5));  // where its begin token's embedding moves, f16 rounds it again
  CHECK(back.search.beam == m.search.beam);
  CHECK(back.search.max_length == m.search.max_length);
  CHECK(back.search.banned == m.search.banned);
  CHECK(back.tokenizer.size() == m.tokenizer.size());
  CHECK(back.model.options.tie_head == m.model.options.tie_head);
}

TEST_CASE("save_marian: the decoder begins with zeros, and its first position has the begin token's embedding") {
  const TemporaryFolder folder;
  const auto model = random_model(small(pieces().size()));
  io::save_marian(folder / "zero", model, pieces());
  io::save_marian(folder / "own", model, pieces(), {.start_from_zero = false});
  const auto zero = io::SafetensorsFile::open(folder / "zero" / "model.safetensors");
  const auto own = io::SafetensorsFile::open(folder / "own" / "model.safetensors");
  const std::string table = "model.decoder.embed_positions.weight";
  CHECK_FALSE(own.contains(table));
  CHECK_FALSE(zero.contains("model.encoder.embed_positions.weight"));
  REQUIRE(zero.contains(table));
  const auto positions = io::read_tensor<float>(zero, table), embedding = io::read_tensor<float>(zero, "model.shared.weight");
  const auto kept = io::read_tensor<float>(own, "model.shared.weight");
  const auto sinusoids = sinusoid<float>(1, 12, 10000, SinusoidOrder::halves);
  const index_t last = embedding.dim(0) - 1;
  for (index_t i = 0; i < 12; ++i) {
    CHECK(embedding(last, i) == 0);
    CHECK(positions(0, i) == Approx(sinusoids(0, i) + std::sqrt(12.0) * kept(last, i)).margin(1e-6));
    CHECK(kept(last, i) ==
          model.encoder.embed_tokens->weight.value()(pieces().bos(), interleaved_column(i, 12, SinusoidOrder::halves)));
  }
  CHECK(io::read_tensor<float>(zero, "final_logits_bias")(0, last) < -1000);
  CHECK(io::read_tensor<float>(own, "final_logits_bias")(0, last) > -1);
}

TEST_CASE("save_marian: the search goes along") {
  const TemporaryFolder folder;
  const auto model = random_model(small(pieces().size()));
  const token_t piece = pieces().token("▁");
  io::save_marian(folder / "model", model, pieces(),
                  {.search = {.beam = 6,
                              .n_best = 2,
                              .length_penalty = 0.4,
                              .normalization = decode::LengthNormalization::marian,
                              .stop = decode::Stop::first,
                              .min_length = 3,
                              .max_length = 30,
                              .no_repeat_ngram = 4,
                              .banned = {{piece, 7}}}});
  const auto m = load(folder / "model");
  const auto& s = m.search;
  CHECK((s.beam == 6 && s.n_best == 2 && s.length_penalty == 0.4 && s.stop == decode::Stop::first));
  CHECK((s.min_length == 3 && s.max_length == 30 && s.no_repeat_ngram == 4 && s.force_end));
  REQUIRE(s.banned.size() >= 3);
  CHECK(m.tokenizer.piece(s.banned[0][0]) == "▁");
  CHECK(m.tokenizer.piece(s.banned[0][1]) == pieces().piece(7));
  for (const token_t mark : {m.tokenizer.pad(), m.tokenizer.unk()})
    CHECK(std::find(s.banned.begin(), s.banned.end(), Tokens{mark}) != s.banned.end());
}

TEST_CASE("save_marian: a search that allows unknown words, or does not force the end") {
  const TemporaryFolder folder;
  const auto m = load(marian::folder("swish"));
  auto search = m.search;
  search.force_end = false, search.keep_unfinished = true, search.max_length = 20;
  const auto open = written(folder / "open", m, {.search = search});
  CHECK((!open.search.force_end && open.search.keep_unfinished && open.search.max_length == 20));

  const auto model = random_model(small(pieces().size()));
  const auto bans = [&](decode::Unknown unknown) {
    io::SaveMarianOptions options;
    options.search.unknown = unknown;
    io::save(folder / "own", model, pieces());  // whose tokenizer is not to stay
    io::save_marian(folder / "own", model, pieces(), options);
    const auto back = load(folder / "own");
    CHECK(load_tokenizer(folder / "own").eos() == back.tokenizer.eos());
    const auto& list = back.search.banned;
    return std::find(list.begin(), list.end(), Tokens{back.tokenizer.unk()}) != list.end();
  };
  CHECK(bans(decode::Unknown::suppress));
  CHECK_FALSE(bans(decode::Unknown::allow));
}

TEST_CASE("save_marian: all that a Marian model cannot be stands in one message") {
  const TemporaryFolder folder;
  auto o = small(pieces().size());
  o.encoder.norm_order = nn::NormOrder::pre;
  o.decoder.final_norm = true;
  o.encoder.norm.eps = 1e-6;
  o.decoder.norm.scalar_affine = true;
  o.encoder.activation = Activation::gelu;
  o.encoder.d_k = 5;
  o.decoder.scale_embedding = false;
  o.encoder.max_length = 50;
  o.encoder.causal = true, o.decoder.causal = false;
  o.decoder.positions = nn::PositionKind::learned;
  const auto save = [&] {
    io::save_marian(folder / "model", random_model(o), pieces(),
                    {.stored = io::DType::f64,
                     .search = {.length_penalty = 0.6,
                                .coverage_penalty = 0.1,
                                .suppressed = {-1},
                                .banned = {{4, 900}},
                                .unknown = decode::Unknown::replace}});
  };
  CHECK_THROWS_AS(save(), ValueError);
  CHECK_THROWS_WITH(save(), ContainsSubstring("the encoder norms before") && ContainsSubstring("the decoder has a final norm") &&
                                ContainsSubstring("eps 1e-06") && ContainsSubstring("the encoder sees no later tokens") &&
                                ContainsSubstring("the decoder sees later tokens") &&
                                ContainsSubstring("one gain for all channels") && ContainsSubstring("other activations") &&
                                ContainsSubstring("d_model / heads wide") && ContainsSubstring("scale their embeddings") &&
                                ContainsSubstring("learned positions") && ContainsSubstring("Google's") &&
                                ContainsSubstring("coverage") && ContainsSubstring("suppressed has the token -1") &&
                                ContainsSubstring("banned has the token 900") && ContainsSubstring("replaces unknown words") &&
                                ContainsSubstring("F64"));
  CHECK_FALSE(std::filesystem::exists(folder / "model"));

  const auto model = random_model(small(pieces().size() - 1));
  CHECK_THROWS_WITH(io::save_marian(folder / "model", model, pieces()), ContainsSubstring("tokens, the model's vocabularies"));
}

TEST_CASE("save_marian: parts of stacks that Marian has not are named, each") {
  const auto obstacle = [](auto change) {
    auto o = small(20);
    change(o);
    const auto list = attend::detail::marian_obstacles(o);
    return list.size() == 1 ? list.front() : std::to_string(list.size()) + " obstacles";
  };
  using O = nn::ModelOptions;
  using nn::PositionKind;
  CHECK(obstacle([](O&) {}) == "0 obstacles");
  CHECK(obstacle([](O& o) { o.encoder.positions = PositionKind::rotary; }) ==
        "the encoder's positions are rotary, expected such as are added to embeddings");
  CHECK(obstacle([](O& o) { o.decoder.positions = PositionKind::relative; }) ==
        "the decoder's positions are relative, expected such as are added to embeddings");
  CHECK(obstacle([](O& o) {
          for (auto* s : {&o.encoder, &o.decoder}) s->positions = PositionKind::learned;
          o.encoder.position.offset = 2;
        }) == "the encoder's positions have an offset");
  CHECK(obstacle([](O& o) { o.decoder.gated = true; }) == "the decoder's feed-forwards are gated");
  CHECK(obstacle([](O& o) { o.decoder.bias = false; }) == "the decoder's linear layers have no biases");
  CHECK(obstacle([](O& o) { o.decoder.kv_heads = 1; }) == "the decoder's keys and values have fewer heads");
  CHECK(obstacle([](O& o) { o.encoder.attention_scale = 1; }) == "the encoder's attention scale is 1");
  CHECK(obstacle([](O& o) { o.encoder.norm_embedding = true; }) == "the encoder has a norm on its embeddings");
  CHECK(obstacle([](O& o) { o.scale_head = true; }) == "what goes to the head is scaled");
  CHECK(obstacle([](O& o) { o.adapters.rank = 1; }) ==
        "it has adapters: merge_adapters folds them into the weights, save_adapters saves them apart");
}
