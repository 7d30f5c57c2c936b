#include "attend/nn/initialisation.hpp"

#include <cmath>
#include <map>
#include <string>

#include "attend/core/threads.hpp"
#include "attend/nn/transformer.hpp"
#include "check.hpp"
#include "with_threads.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;
using nn::Initialisation;
using nn::MatrixRole;

namespace {

/// What is drawn for the matrices of a Transformer, by name, as multiples of Xavier's bound: the largest number, which is close
/// to the bound, and the deviation times sqrt(3), which is that of a uniform distribution with this bound.
struct Spread {
  double largest, deviation, mean;
};
std::map<std::string, Spread> spreads(Initialisation kind, index_t layers) {
  seed(11);
  const nn::Transformer<double> model({.vocabulary = 50,
                                       .d_model = 48,
                                       .heads = 4,
                                       .d_ff = 96,
                                       .encoder_layers = layers,
                                       .decoder_layers = layers,
                                       .initialisation = kind});
  std::map<std::string, Spread> all;
  for (const auto& t : nn::state(model)) {
    if (t.value.rank() != 2 || t.name.find("embed") != std::string::npos) continue;
    const double bound = std::sqrt(6.0 / static_cast<double>(t.value.dim(0) + t.value.dim(1)));
    double sum = 0, squares = 0, largest = 0;
    for (const double w : t.value.span()) sum += w, squares += w * w, largest = std::max(largest, std::abs(w));
    const auto n = static_cast<double>(t.value.size());
    all[t.name] = {largest / bound, std::sqrt(3 * squares / n) / bound, sum / n / bound};
  }
  return all;
}

/// The gain that the table in the documentation gives for a matrix of a model of width 48 / 96, written down once more.
double expected(Initialisation kind, const std::string& name, int layers) {
  const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  const bool decoder = has("decoder.");
  const bool qk = has("q_proj") || has("k_proj"), v = has("v_proj"), out = has("out_proj"), fc1 = has("fc1"), fc2 = has("fc2");
  const double in = fc2 ? 96 : 48, n_out = fc1 ? 96 : has("lm_head") ? 50 : 48;
  const double uniform = 1 / std::sqrt(in) / std::sqrt(6 / (in + n_out));  // ±1/sqrt(in)
  const auto digits = name.find("layers.");
  const int layer = digits == std::string::npos ? 1 : name[digits + 7] - '0' + 1;
  const double torch = qk || v ? std::sqrt(0.5) : uniform;
  if (has("lm_head")) return kind == Initialisation::torch ? uniform : 1;
  switch (kind) {
    case Initialisation::residual_scaled:
      return out || fc2 ? torch / std::max(1.0, std::sqrt(layers * (decoder ? 3 : 2) / 4.0)) : torch;
    case Initialisation::xavier:
      return 1;
    case Initialisation::torch:
      return torch;
    case Initialisation::fairseq:
      return qk || v ? std::sqrt(0.5) : 1;
    case Initialisation::depth_scaled:
      return 1 / std::sqrt(layer);
    case Initialisation::admin: {
      const int before = (layer - 1) * (decoder ? 3 : 2);
      const int within = has("self_attn") ? 1 : has("encoder_attn") ? 2 : decoder ? 3 : 2;
      return out || fc2 ? 1 / std::sqrt(before + within) : 1;
    }
    case Initialisation::t_fixup:
      return qk ? 1 : decoder ? std::pow(9.0 * layers, -0.25) : 0.67 * std::pow(layers, -0.25);
    case Initialisation::deepnorm: {
      const double n = layers, a = decoder ? std::pow(3 * n, 0.25) : 0.81 * std::pow(n, 0.3125);
      const double b = decoder ? std::pow(12 * n, -0.25) : 0.87 * std::pow(n, -0.3125);
      return qk ? 1 : out || fc2 ? b / a : b;
    }
  }
  return 0;
}

}  // namespace

TEST_CASE("initialisation: every matrix has the documented mean, deviation and bound") {
  for (const auto& [kind, name] : names_of(nn::Initialisation()))
    for (const int layers : {1, 3}) {
      const auto found = spreads(kind, layers);
      CHECK(found.size() == static_cast<std::size_t>(layers) * (6 + 10) + 1);
      for (const auto& [matrix, spread] : found) {
        const double gain = expected(kind, matrix, layers);
        INFO(name << ", " << layers << " layers, " << matrix);
        CHECK(spread.largest <= gain * (1 + 1e-12));
        CHECK(spread.largest > 0.98 * gain);
        CHECK(spread.deviation == Approx(gain).epsilon(0.05));
        CHECK(spread.mean == Approx(0).margin(0.05 * gain));
      }
    }
}

TEST_CASE("initialisation: the same bits with any number of threads") {
  const auto bits = [](int count) {
    const WithThreads set(count);
    seed(4);
    const nn::Transformer<float> model({.vocabulary = 300, .d_model = 64, .heads = 4, .layers = 2, .tie_head = true});
    std::vector<float> all;
    for (const auto& t : nn::state(model)) all.insert(all.end(), t.value.span().begin(), t.value.span().end());
    return all;
  };
  const auto one = bits(1);
  CHECK(bits(2) == one);
  CHECK(bits(5) == one);
}

TEST_CASE("initialisation: names") {
  for (const auto& [kind, name] : names_of(nn::Initialisation())) {
    CHECK(name_of(kind) == name);
    CHECK(from_name<nn::Initialisation>("initialisation", name) == kind);
  }
  CHECK_THROWS_WITH(from_name<nn::Initialisation>("initialisation", "kaiming"),
                    ContainsSubstring("got \"kaiming\"") && ContainsSubstring("expected one of residual_scaled, xavier, torch"));
}

TEST_CASE("initialisation: a cross-attention over a memory of another width counts its own inputs") {
  seed(2);
  const nn::MultiHeadAttention<double> attention(
      {.d_model = 32, .heads = 4, .d_memory = 128, .initial = {Initialisation::xavier}});
  const auto all = nn::state(attention);
  const auto k = std::find_if(all.begin(), all.end(), [](const auto& t) { return t.name == "k_proj.weight"; });
  REQUIRE(k != all.end());
  double largest = 0;
  for (const double w : k->value.span()) largest = std::max(largest, std::abs(w));
  CHECK(largest == Approx(std::sqrt(6.0 / 160)).epsilon(0.02));
}
