#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>

#include "../../examples/translate/flags/model_flags.hpp"
#include "../../examples/translate/flags/search_flags.hpp"
#include "../../examples/translate/flags/train_flags.hpp"
#include "catch.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;

namespace {

/// What a command line makes of the search that a model wishes for.
decode::TranslatorOptions over(const decode::TranslatorOptions& wish, const std::string& line) {
  CLI::App app;
  translate::SearchFlags flags;
  flags.add_to(app);
  app.parse(line);
  return flags.over(wish);
}

/// Why a command line is refused.
std::string refusal(const std::string& line) {
  try {
    (void)over({}, line);
  } catch (const CLI::Error& e) {
    return e.what();
  }
  return "";
}

struct Some {
  bool off = false, on = true;
  index_t count = 3;
  std::filesystem::path path;
  std::vector<std::string> words = {"a", "b"};
  template <class F>
  static void fields(F&& field) {
    field("words", &Some::words, Flag{"Some", nullptr, "WORD"});
    field("off", &Some::off, Flag{"Off"});
    field("on", &Some::on, Flag{"On"});
    field("count", &Some::count, Flag{"How many", nullptr, "SHEEP"});
    field("path", &Some::path, Flag{"Where"});
  }
};

struct Other {
  double count = 0;
  bool on = true;
  template <class F>
  static void fields(F&& field) {
    field("count", &Other::count);
    field("on", &Other::on);
  }
};

}  // namespace

TEST_CASE("search flags: what is given stands in the place of a model's wish, all else stays") {
  const decode::TranslatorOptions wish{.beam = 6, .length_penalty = 1, .max_length = 40, .unknown = decode::Unknown::allow};
  const auto same = over(wish, "");
  CHECK(same.beam == 6);
  CHECK(same.length_penalty == 1);
  CHECK(same.max_length == 40);
  CHECK(same.unknown == decode::Unknown::allow);
  const auto changed = over(wish, "--beam 3 --stop present --max-tokens 7 --coverage 0.2 --suppress a --suppress 'b c'");
  CHECK(changed.beam == 3);
  CHECK(changed.beam.given());
  CHECK(changed.stop == decode::Stop::present_length);
  CHECK(changed.max_length == 7);
  CHECK(changed.coverage_penalty == 0.2);
  CHECK(changed.banned_text == std::vector<std::string>{"a", "b c"});
  CHECK(changed.length_penalty == 1);
}

TEST_CASE("search flags: a beam in place of sampling, and sampling in place of a beam") {
  const decode::TranslatorOptions sampled{.sample = true, .temperature = 0.5, .top_k = 10, .top_p = 0.9, .min_p = 0.1, .seed = 3};
  const auto searched = over(sampled, "--beam 4 --temperature 0.7");
  CHECK_FALSE(searched.sample);
  CHECK(searched.temperature == 0.7);
  CHECK(searched.top_k == 0);
  CHECK(searched.top_p == 1);
  CHECK(searched.min_p == 0);
  CHECK(searched.seed == 0);
  CHECK(over(sampled, "--beam 4").temperature == 1);
  const auto drawn = over({.beam = 8, .coverage_penalty = 0.1, .beam_groups = 2, .diversity_penalty = 1}, "--sample --top-k 5");
  CHECK(drawn.sample);
  CHECK(drawn.top_k == 5);
  CHECK_FALSE(drawn.beam.given());
  CHECK(drawn.coverage_penalty == 0);
  CHECK(drawn.beam_groups == 1);
  CHECK(drawn.diversity_penalty == 0);
  CHECK_FALSE(over({.keep_unfinished = true}, "--force-end").keep_unfinished);
}

TEST_CASE("search flags: numbers and names out of bounds, and options that do not go together, are refused") {
  CHECK_THAT(refusal("--beam 0"), ContainsSubstring("--beam: Value 0, expected 1 to 1000"));
  CHECK_THAT(refusal("--beam 1001"), ContainsSubstring("--beam: Value 1001, expected 1 to 1000"));
  CHECK_THAT(refusal("--repetition-penalty 0"), ContainsSubstring("--repetition-penalty: Value 0, expected more than 0"));
  CHECK_THAT(refusal("--sample --top-p 1.5"), ContainsSubstring("--top-p: Value 1.5, expected more than 0 and at most 1"));
  CHECK_THAT(refusal("--sample --min-p nan"), ContainsSubstring("--min-p: Value nan, expected 0 to 1"));
  CHECK_THAT(refusal("--length-penalty inf"), ContainsSubstring("--length-penalty"));
  CHECK_THAT(refusal("--stop never"), ContainsSubstring("--stop"));
  CHECK_THAT(refusal("--beam four"), ContainsSubstring("--beam"));
  CHECK_THAT(refusal("--sample --beam 3"), ContainsSubstring("excludes"));
  CHECK_THAT(refusal("--top-k 5"), ContainsSubstring("requires"));
  CHECK(refusal("--beam 1000 --temperature 0.1").empty());
}

TEST_CASE("model flags: kinds of norms, and the proportion of a preset") {
  const auto made = [](const std::string& line) {
    CLI::App app;
    translate::ModelFlags flags;
    flags.add_to(app);
    app.parse(line);
    return flags.options(100, train::recipe(1000, 0));
  };
  const auto plain = made("--preset small");
  CHECK(plain.d_ff == 1024);
  CHECK(plain.norm.kind == NormKind::layer);
  CHECK(plain.max_length == 256);
  CHECK(plain.tie_head);
  CHECK(made("--preset small --d-model 64").d_ff == 128);
  const auto rms = made("--preset tiny --norm pre --norm-kind rms --heads 2 --encoder-layers 3 --max-length 99");
  CHECK(rms.norm.kind == NormKind::rms);
  CHECK_FALSE(rms.norm.bias);
  CHECK(rms.norm_order == nn::NormOrder::pre);
  CHECK(rms.final_norm);
  CHECK(rms.heads == 2);
  CHECK(rms.encoder_layers == 3);
  CHECK(rms.layers == 4);
  CHECK(rms.max_length == 99);
  const auto modern = nn::model_options(made(
      "--preset tiny --gated --activation silu --kv-heads 2 --no-bias --no-head-bias --positions rotary --position-base 500000 "
      "--rotary-fraction 0.5 --norm-kind rms --norm-eps 1e-6 --encoder-heads 2 --decoder-d-ff 99 --norm-embedding"));
  CHECK(modern.encoder.gated);
  CHECK(modern.encoder.activation == Activation::silu);
  CHECK(modern.encoder.kv_heads == 2);
  CHECK_FALSE(modern.encoder.bias);
  CHECK_FALSE(modern.head_bias);
  CHECK(modern.encoder.positions == nn::PositionKind::rotary);
  CHECK(modern.encoder.position_base == 500000);
  CHECK(modern.encoder.position.rotary_fraction == 0.5);
  CHECK(modern.encoder.norm.eps == 1e-6);
  CHECK(modern.encoder.norm_embedding);
  CHECK(modern.encoder.heads == 2);
  CHECK(modern.decoder.heads == 4);
  CHECK(modern.encoder.d_ff == 256);
  CHECK(modern.decoder.d_ff == 99);
  const auto t5 =
      nn::model_options(made("--d-k 24 --attention-scale 1 --no-attention-bias --no-scale-embedding --scale-head --positions "
                             "relative --position-buckets 8"));
  CHECK(t5.decoder.d_k == 24);
  CHECK(t5.decoder.attention_scale == 1);
  CHECK_FALSE(t5.decoder.attention_bias);
  CHECK(t5.decoder.bias);
  CHECK_FALSE(t5.decoder.scale_embedding);
  CHECK(t5.scale_head);
  CHECK(t5.decoder.position.buckets == 8);
  CHECK_THROWS_AS(made("--attention-scale 0"), CLI::Error);
  CHECK_THROWS_AS(made("--layers 0"), CLI::Error);
  CHECK_THROWS_AS(made("--dropout 1"), CLI::Error);
}

TEST_CASE("train flags: an optimizer gets what it has of the options, and the others are refused") {
  const auto chosen = [](const std::string& line, bool has_learnt = false) {
    CLI::App app;
    translate::TrainFlags flags;
    flags.add_to(app);
    app.parse(line);
    return *flags.options({.pairs = 1000, .width = 64}, has_learnt, 64).optimizer;
  };
  const auto muon =
      std::get<optim::MuonOptions>(chosen("--optimizer muon --matrix-rate 0.5 --weight-decay 0.3 --no-cautious --momentum 0.7"));
  CHECK(muon.matrix_rate == 0.5);
  CHECK(muon.weight_decay == 0.3);
  CHECK_FALSE(muon.cautious);
  CHECK(muon.momentum == 0.7);
  CHECK(muon.beta2 == optim::MuonOptions().beta2);
  CHECK(std::get<optim::MuonOptions>(chosen("--optimizer muon")).cautious);
  CHECK(std::get<optim::MuonOptions>(chosen("--optimizer muon --no-cautious=false")).cautious);
  const auto sgd = std::get<optim::SgdOptions>(chosen("--optimizer sgd --weight-decay 0.3"));
  CHECK(sgd.weight_decay == 0.3);
  CHECK(sgd.momentum == 0.9);
  CHECK(std::get<optim::SgdOptions>(chosen("--optimizer sgd --momentum 0.5")).momentum == 0.5);
  CHECK(std::get<optim::AdamWOptions>(chosen("--optimizer adamw --weight-decay 0.3")).weight_decay == 0.3);
  CHECK_THROWS_WITH(chosen("--optimizer sgd --matrix-rate 0.5"), "train: --matrix-rate goes with --optimizer muon");
  CHECK_THROWS_WITH(chosen("--optimizer adam --weight-decay 0.5"),
                    "train: --weight-decay goes with --optimizer adamw, sgd or muon");
  CHECK_THROWS_WITH(chosen("--momentum 0.5", true), "train: --momentum goes with --optimizer sgd or muon");
  CHECK_THROWS_AS(chosen("--optimizer muon --matrix-rate 0"), CLI::ValidationError);
  CHECK_THROWS_AS(chosen("--optimizer sgd --momentum 1"), CLI::ValidationError);
}

TEST_CASE("train flags: rate, warm-up and kind of the schedule") {
  const auto made = [](const std::string& line, bool has_learnt = false, bool adapters = false) {
    CLI::App app;
    translate::TrainFlags flags;
    flags.add_to(app);
    app.parse(line);
    return flags.options({.pairs = 1000, .width = 128, .matrices = !adapters, .adapters = adapters}, has_learnt, 64);
  };
  const auto rate = [](const train::FitOptions& o) {
    return std::visit([](const auto& chosen) { return chosen.learning_rate; }, *o.optimizer);
  };
  const auto plain = made("");
  CHECK_FALSE(plain.schedule);
  CHECK_FALSE(plain.schedule_kind);
  CHECK(rate(plain) == 0.008);
  CHECK(rate(made("", true)) == 0.004 * 0.2);
  CHECK(rate(made("", true, true)) == 0.004);
  CHECK(rate(made("--learning-rate 0.5", true, true)) == 0.5);
  CHECK(rate(made("--learning-rate 0.5", true)) == 0.5);
  CHECK(rate(made("--optimizer adamw")) == 0.001);
  CHECK(made("--schedule cosine").schedule_kind == optim::ScheduleKind::cosine);
  CHECK_FALSE(made("--schedule cosine").schedule);
  const auto warm = made("--warmup 7 --learning-rate 0.5");
  REQUIRE(warm.schedule);
  CHECK(warm.schedule->options().warmup == 7);
  CHECK(warm.schedule->options().learning_rate == 0.5);
  CHECK(warm.schedule->options().kind == optim::ScheduleKind::linear);
  const auto noam = made("--schedule noam");
  REQUIRE(noam.schedule);
  CHECK_FALSE(noam.schedule_kind);
  CHECK(noam.schedule->options().kind == optim::ScheduleKind::noam);
  CHECK(noam.schedule->options().d_model == 64);
  CHECK_THROWS_WITH(made("--schedule noam --learning-rate 0.5"), ContainsSubstring("--learning-rate goes with every --schedule"));
  CHECK_THROWS_AS(made("--schedule sine"), CLI::ValidationError);
  CHECK_THROWS_AS(made("--optimizer lion"), CLI::ValidationError);
  CHECK_THROWS_AS(made("--learning-rate 0"), CLI::ValidationError);
  CHECK_THROWS_AS(made("--warmup -1"), CLI::ValidationError);
}

TEST_CASE("option flags: a bool's flag takes no value and changes what is so; a value is called what its flag says") {
  const auto read = [](const std::string& line, std::string* help = nullptr) {
    CLI::App app;
    translate::OptionFlags<Some> flags;
    flags.add_to(app, "Some", true);
    app.parse(line);
    if (help) *help = app.help();
    return flags.over({});
  };
  std::string help;
  const Some plain = read("", &help);
  CHECK_FALSE(plain.off);
  CHECK(plain.on);
  CHECK_THAT(help, ContainsSubstring("--off  ") && ContainsSubstring("--no-on  ") && !ContainsSubstring("BOOL"));
  CHECK_THAT(help, ContainsSubstring("--count SHEEP") && ContainsSubstring("--path FILE"));
  CHECK_THAT(help, ContainsSubstring("--words WORD") && (ContainsSubstring("=a, b ") || ContainsSubstring(" [a, b] ")));
  CHECK(plain.words == std::vector<std::string>{"a", "b"});
  CHECK(read("--words c").words == std::vector<std::string>{"c"});
  CHECK(read("--words c --words d,e").words == std::vector<std::string>{"c", "d,e"});
  CHECK(read("--words c d").words == std::vector<std::string>{"c", "d"});
  const Some changed = read("--off --no-on --count 5 --path there");
  CHECK(changed.off);
  CHECK_FALSE(changed.on);
  CHECK(changed.count == 5);
  CHECK(changed.path == "there");
  CHECK_FALSE(read("--off=false").off);
  CHECK(read("--no-on=false").on);
  CHECK_THROWS_AS(read("--off=perhaps"), CLI::ParseError);
  CHECK_THROWS_AS(read("--off false"), CLI::ParseError);
  CHECK_THROWS_AS(read("--on"), CLI::ParseError);
}

TEST_CASE("option flags: options of another kind share a field if its name and its type are the same") {
  using Flags = translate::OptionFlags<Some>;
  CHECK(Flags::shares<Other>("on"));
  CHECK_FALSE(Flags::shares<Other>("count"));
  CHECK_FALSE(Flags::shares<Other>("off"));
  CLI::App app;
  Flags flags;
  flags.add_to(app, "Some", false);
  app.parse("--no-on --count 5");
  Other other;
  flags.put_into(other);
  CHECK_FALSE(other.on);
  CHECK(other.count == 0);
}
