#include "attend/cpu/targets.hpp"

#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "attend/cpu/additive_attention.hpp"
#include "attend/cpu/attention.hpp"
#include "attend/cpu/attention_step.hpp"
#include "attend/cpu/basic.hpp"
#include "attend/cpu/broadcast.hpp"
#include "attend/cpu/constrain.hpp"
#include "attend/cpu/cross_entropy.hpp"
#include "attend/cpu/distillation_loss.hpp"
#include "attend/cpu/dropout.hpp"
#include "attend/cpu/embedding.hpp"
#include "attend/cpu/int8.hpp"
#include "attend/cpu/layer_norm.hpp"
#include "attend/cpu/linear.hpp"
#include "attend/cpu/log_add.hpp"
#include "attend/cpu/map.hpp"
#include "attend/cpu/map_dropout.hpp"
#include "attend/cpu/muon.hpp"
#include "attend/cpu/packed_matrix.hpp"
#include "attend/cpu/positions.hpp"
#include "attend/cpu/rearrange.hpp"
#include "attend/cpu/reduce.hpp"
#include "attend/cpu/residual.hpp"
#include "attend/cpu/rotary.hpp"
#include "attend/cpu/sample.hpp"
#include "attend/cpu/softmax.hpp"
#include "attend/cpu/top_k.hpp"
#include "attend/ops/activations.hpp"
#include "attend/ops/arithmetic.hpp"
#include "attend/optim/adam.hpp"
#include "catch.hpp"
#include "cpu/emulated_vnni.hpp"

using namespace attend;

namespace {

using Numbers = std::vector<float>;

Numbers normal(index_t n, std::uint64_t stream) {
  const Generator::Stream random{7, stream};
  Numbers x;
  for (index_t i = 0; i < n; ++i) x.push_back(static_cast<float>(random.normal(static_cast<std::uint64_t>(i))));
  return x;
}

/// What the kernels for `device` make of the same numbers. Sizes leave a rest in vectors of any width.
template <class Device>
std::map<std::string, Numbers> results(Device device) {
  using namespace kernels;
  std::map<std::string, Numbers> all;
  const index_t m = 19, n = 83, k = 301;
  const Numbers a = normal(m * k, 0), b = normal(k * n, 1), bias = normal(n, 2), x = normal(m * n, 3), dy = normal(m * n, 4);
  const Matrix<const float> left{a.data(), m, k}, right{b.data(), k, n};
  const auto make = [&](const std::string& name, index_t size) {
    return all.emplace(name, Numbers(size, 0.5f)).first->second.data();
  };
  const auto matrix = [&](const std::string& name) { return Matrix<float>{make(name, m * n), m, n}; };

  gemm<float>(device, left, right, matrix("gemm"));
  gemm<float>(device, left, right, matrix("gemm added"), {.alpha = 0.5, .add = true});
  gram_batched<float>(device, 1, {left, 0}, {{make("gram", m * m), m, m}, 0});
  linear_forward<float>(device, left, {b.data(), n, k}, bias.data(), matrix("linear"));
  pack_matrix<float>(device, right)->multiply(left, bias.data(), matrix("packed"));
  pack_int8<float>(device, right)->multiply(left, bias.data(), matrix("int8"));

  softmax_forward(device, m, n, x.data(), make("softmax", m * n));
  log_softmax_forward(device, m, n, x.data(), make("log softmax", m * n));
  softmax_backward(device, m, n, dy.data(), all.at("softmax").data(), Gradient<float>{make("softmax dx", m * n)});
  map_forward(device, m * n, Gelu{}, x.data(), make("gelu", m * n));
  sum_rows(device, Matrix<const float>{x.data(), m, n}, Gradient<float>{make("sum of rows", n), true});
  const DropoutMask mask{{5, 6}, 1u << 30, 4.0 / 3};
  map_dropout_forward(device, m * n, Gelu{}, mask, x.data(), make("gelu with dropout", m * n));
  dropout_apply(device, m * n, mask, x.data(), Gradient<float>{make("dropout", m * n)});

  const Numbers gamma = normal(n, 5);
  const NormOfRows<float> norm{{.width = n}, m, gamma.data(), bias.data()};
  const NormStatistics<float> kept{make("mean", m), make("rstd", m)};
  layer_norm_forward(device, norm, x.data(), make("norm", m * n), kept);
  layer_norm_backward(device, norm, dy.data(), x.data(), kept,
                      {{make("norm dx", m * n)}, {make("norm dgamma", n)}, {make("norm dbeta", n)}});

  add_dropout_norm_forward(device, norm, {mask, x.data(), dy.data(), make("residual", m * n)}, make("residual norm", m * n),
                           NormStatistics<float>{make("residual mean", m), make("residual rstd", m)});

  std::vector<token_t> labels;
  for (index_t i = 0; i < m; ++i) labels.push_back(static_cast<token_t>(i * 4));
  const LabelledRows rows{m, n, labels.data(), {.smoothing = 0.1}};
  cross_entropy_forward(device, rows, x.data(), make("losses", m), make("log sums", m));
  const float loss_share = 0.5f;
  for (const double temperature : {1.0, 2.0}) {
    const std::string at = " at " + std::to_string(temperature);
    distillation_loss_rows(device, {rows, 0.6, temperature}, &loss_share, dy.data(), x.data(), make("taught" + at, m),
                           make("taught dlogits" + at, m * n));
  }

  embedding_forward(device, {labels.data(), 5, m}, n, 0.5f, x.data(), make("embedding", 5 * n));
  embedding_backward(device, {labels.data(), 5, m}, n, 0.5f, x.data(), Gradient<float>{make("embedding dtable", m * n)});
  const Segments sentences = Segments::dense(1, m);
  add_positions_forward(device, sentences, n, x.data(), dy.data(), make("positions", m * n));
  rotary_turn(device, {sentences}, m, {n, 1, n, 82}, dy.data(), 1.0f, x.data(), make("rotary", m * n));
  Strides strides;
  strides.append(m, n, 0), strides.append(n, 1, 1);
  zip_forward(device, strides, attend::detail::Multiply{}, x.data(), bias.data(), make("zip", m * n));
  sum_broadcast(device, strides, 0.5f, x.data(), Gradient<float>{make("sum to a", m * n), true});
  permute_copy(device, strides, x.data(), Gradient<float>{make("permuted", m * n), true});
  copy_runs(device, Matrix<const float>{x.data(), m, 7, n}, Matrix<float>{make("runs", m * n), m, 7, n}, true);
  std::vector<index_t> places(static_cast<std::size_t>(n));
  max_forward(device, AroundAxis{Shape{m, n}, 0}, x.data(), make("max", n), places.data());
  log_add(device, m * n, 0.25f, x.data(), make("log add", m * n));
  const std::vector<index_t> of_rows{0, 3}, lists_begin{0, 2}, lists_length{2, 3};
  const std::vector<token_t> listed{4, 9, 1, 2, 60};
  std::copy(x.begin(), x.end(), make("restricted", m * n));
  restrict_rows(device, {2, of_rows.data(), lists_begin.data(), lists_length.data(), listed.data()}, n,
                all.at("restricted").data());
  std::replace_if(
      all.at("restricted").begin(), all.at("restricted").end(), [](float v) { return std::isinf(v); }, -9.0f);
  const std::vector<double> uniforms{0.3, 0.8};
  std::vector<token_t> drawn(2);
  sample_rows(device, {.temperature = 0.7, .top_k = 20, .top_p = 0.9}, {2, of_rows.data(), uniforms.data()},
              Matrix<const float>{all.at("log softmax").data(), m, n}, make("drawn", 2), drawn.data());

  AttentionLayout attention;
  attention.queries = Segments::dense(2, 7), attention.keys = Segments::dense(2, 9);
  attention.heads = 2, attention.d_k = attention.d_v = 21;
  attention.q_stride = attention.k_stride = attention.v_stride = attention.out_stride = 42;
  attention.scale = 0.2;
  const index_t weights = attention.lay_out_weights();
  const Numbers q = normal(14 * 42, 8), keys = normal(18 * 42, 9), values = normal(18 * 42, 10);
  const AttentionInputs<float> inputs{q.data(), keys.data(), values.data()};
  const SoftmaxRows<float> shifts{make("attention shift", 28), make("attention inverse", 28)};
  attention_forward(device, attention, inputs, make("attention weights", weights), shifts, make("attention", 14 * 42));
  attention_backward(device, attention, normal(14 * 42, 11).data(), inputs, shifts,
                     {make("attention dq", 14 * 42), make("attention dk", 18 * 42), make("attention dv", 18 * 42)});
  Numbers& shares = all["additive weights"] = Numbers(static_cast<std::size_t>(weights));
  additive_attention_forward(device, attention, AdditiveInputs<float>{q.data(), keys.data(), bias.data(), values.data()},
                             shares.data(), make("additive attention", 14 * 42));
  const std::vector<index_t> begins(14, 0), lengths{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
  cross_attention_step<float>(device, {2, 21, 21, 0.2}, {q.data(), 14, 42},
                              {keys.data(), {42, 0, 0}, begins.data(), lengths.data()}, {make("step", 14 * 42), 14, 42});

  UpdateRecord record;
  Numbers& parameter = all["adam"] = normal(k, 12);
  Numbers first(k, 0.1f), second(k, 0.2f);
  begin_update(device, k, a.data(), 1.0, &record);
  update_by(device, k, optim::AdamRule{1e-2, 0, 1, 0.9, 0.99, 1e-8}, &record, a.data(), parameter.data(),
            static_cast<float*>(nullptr), first.data(), second.data());

  unit_norm(device, index_t{3}, index_t{100}, std::copy_n(a.begin(), 300, make("unit norm", 300)) - 300);
  muon_momentum(device, k, 0.9, &record, a.data(), make("velocity", k), make("direction", k));

  std::vector<token_t> columns(m * 3);
  top_k(device, m, n, 3, x.data(), make("top", m * 3), columns.data());
  return all;
}

}  // namespace

TEST_CASE("processor: the set that the environment names, otherwise the last that there is") {
  const auto& least = detail::instruction_sets.front();
  CHECK(detail::choose_instruction_set(std::string(least.name).c_str()).name == least.name);
  CHECK(detail::choose_instruction_set("").level == detail::choose_instruction_set(nullptr).level);
  CHECK(detail::choose_instruction_set(nullptr).level >= least.level);
  CHECK_THROWS_WITH(detail::choose_instruction_set("mmx"), Catch::Matchers::ContainsSubstring("ATTEND_ISA is 'mmx'") &&
                                                               Catch::Matchers::ContainsSubstring(std::string(least.name)));
}

TEST_CASE("processor: kernels of every instruction set give the same to within rounding, the bytes of random numbers exactly") {
  std::map<std::string, std::map<std::string, Numbers>> found{{"chosen", results(Cpu{})}};
#if ATTEND_DISPATCH && defined(__x86_64__) && ATTEND_GRANTED < 2
  if (detail::processor_has(2)) found["avx2"] = results(avx2::kernels::Cpu{});
  if (detail::processor_has(4)) found["avx512"] = results(avx512::kernels::Cpu{});
  const auto product_of_bytes = [&](const char* set, auto device) {  // of a set that has no other kernels
    const Numbers a = normal(19 * 301, 0), b = normal(301 * 83, 1), bias = normal(83, 2);
    Numbers& y = found[set]["int8"] = Numbers(19 * 83);
    pack_int8<float>(device, {b.data(), 301, 83})->multiply({a.data(), 19, 301}, bias.data(), {y.data(), 19, 83});
  };
  if (detail::processor_has(5)) product_of_bytes("avx512_vnni", avx512::vnni::kernels::Cpu{});
#if defined(__linux__)
  if (detail::processor_has(2)) {
    const EmulatedVnni emulated;
    product_of_bytes("avx_vnni", avx2::vnni::kernels::Cpu{});
  }
#endif
#endif
  const auto& expected = found.at("chosen");
  REQUIRE(expected.size() > 45);
  for (const auto& [set, all] : found)
    for (const auto& [name, numbers] : all) {
      INFO(set << ": " << name);
      const Numbers& right = expected.at(name);
      double error = 0, largest = 0;
      for (std::size_t i = 0; i < right.size(); ++i) {
        error = std::max(error, std::abs(static_cast<double>(numbers[i]) - right[i]));
        largest = std::max(largest, std::abs(static_cast<double>(right[i])));
      }
      CHECK(largest > 1e-3);
      // A number halfway between two bytes goes either way, by whether a * b + c is rounded once or twice.
      const double allowed = name == "dropout" || name == "top" ? 0 : name == "int8" ? 2e-3 : 2e-6;
      CHECK(error <= allowed * largest);
    }
}
