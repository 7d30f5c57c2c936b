#include "attend/cpu/constrain.hpp"

#include <cmath>
#include <vector>

#include "attend/cpu/attention_step.hpp"
#include "attend/cpu/log_add.hpp"
#include "attend/cuda/attention/attention_step.cuh"
#include "attend/cuda/search/constrain.cuh"
#include "attend/cuda/search/log_add.cuh"
#include "rows.hpp"

using namespace attend;

TEMPLATE_TEST_CASE("cuda: entries and rows of log-probabilities are taken, set and kept as on the processor", "[cuda]", float,
                   double) {
  if (!device::present()) return;
  using T = TestType;
  for (const index_t width : {1, 5, 700}) {
    const auto x = device::random<T>({6, width});
    const std::vector<index_t> rows{5, 0, 2};
    const std::vector<token_t> columns{0, static_cast<token_t>(width - 1), static_cast<token_t>(width / 2)};
    const auto device_x = device::upload<T>(x);
    const Tensor<T> values({3});
    const Tensor<T, Cuda> device_values({3});
    take_entries(Cpu{}, {3, rows.data(), columns.data()}, width, x.data(), values.data());
    take_entries(Cuda{}, {3, rows.data(), columns.data()}, width, device_x.data(), device_values.data());
    REQUIRE(device::difference(device_values, values, 0) == "");
    keep_entries(Cpu{}, {3, rows.data(), columns.data()}, width, values.data(), x.data());
    keep_entries(Cuda{}, {3, rows.data(), columns.data()}, width, device_values.data(), device_x.data());
    REQUIRE(device::difference(device_x, x, 0) == "");
    const std::vector<index_t> twice{1, 1, 3};
    set_entries(Cpu{}, {3, twice.data(), columns.data()}, width, T(-7), x.data());
    set_entries(Cuda{}, {3, twice.data(), columns.data()}, width, T(-7), device_x.data());
    REQUIRE(device::difference(device_x, x, 0) == "");
    x(4, 0) = T(2.5);
    device_x.assign(x);
    const std::vector<index_t> some{4, 1, 3};
    scale_entries(Cpu{}, {3, some.data(), columns.data()}, width, T(1.25), x.data());
    scale_entries(Cuda{}, {3, some.data(), columns.data()}, width, T(1.25), device_x.data());
    REQUIRE(x(4, 0) == T(2));
    REQUIRE(x(1, width - 1) == T(-8.75));
    REQUIRE(device::difference(device_x, x, 0) == "");
    const T before = x(2, width - 1);
    add_to_column(Cpu{}, 6, width, static_cast<token_t>(width - 1), T(-0.5), x.data());
    add_to_column(Cuda{}, 6, width, static_cast<token_t>(width - 1), T(-0.5), device_x.data());
    REQUIRE(x(2, width - 1) == before + T(-0.5));
    REQUIRE(device::difference(device_x, x, 0) == "");
    scale_entries(Cuda{}, {0, rows.data(), columns.data()}, width, T(3), device_x.data());
    add_to_column(Cuda{}, 0, width, token_t{0}, T(1), device_x.data());
    take_entries(Cuda{}, {0, rows.data(), columns.data()}, width, device_x.data(), device_values.data());
    set_entries(Cuda{}, {0, rows.data(), columns.data()}, width, T(1), device_x.data());
    keep_entries(Cuda{}, {0, rows.data(), columns.data()}, width, device_values.data(), device_x.data());
    REQUIRE(device::difference(device_x, x, 0) == "");
  }
}

TEMPLATE_TEST_CASE("cuda: rows are restricted to lists of columns as on the processor", "[cuda]", float, double) {
  if (!device::present()) return;
  using T = TestType;
  const index_t width = 2000;
  const auto x = device::random<T>({5, width});
  std::vector<token_t> columns;
  for (index_t c = 0; c < 900; ++c) columns.push_back(static_cast<token_t>((7 * c + 3) % width));
  const std::vector<index_t> rows{4, 1, 0, 3}, begins{10, 0, 899, 20}, lengths{600, 2, 1, 5};
  for (index_t k = 0; k < 5; ++k) x(3, columns[static_cast<std::size_t>(20 + k)]) = -std::numeric_limits<T>::infinity();
  x(4, columns[11]) = 1000;
  x(1, columns[1]) = -std::numeric_limits<T>::infinity();
  const auto device_x = device::upload<T>(x);
  const auto device_columns = Tensor<token_t>({900}, std::span<const token_t>(columns)).to<Cuda>();
  const auto before = x.clone();
  restrict_rows(Cpu{}, {4, rows.data(), begins.data(), lengths.data(), columns.data()}, width, x.data());
  restrict_rows(Cuda{}, {4, rows.data(), begins.data(), lengths.data(), device_columns.data()}, width, device_x.data());
  REQUIRE(device::difference(device_x, x) == "");
  // What the processor gives, by hand.
  REQUIRE(x(1, columns[0]) == 0);
  REQUIRE(x(0, columns[899]) == 0);
  REQUIRE(x(2, 77) == before(2, 77));
  for (index_t c = 0; c < width; ++c) REQUIRE(x(3, c) == -std::numeric_limits<T>::infinity());
  double mass = 0;
  for (index_t c = 0; c < width; ++c) mass += std::exp(static_cast<double>(x(4, c)));
  REQUIRE(mass == Approx(1).epsilon(1e-5));
}

TEMPLATE_TEST_CASE("cuda: rows keep listed columns as they are, as on the processor", "[cuda]", float, double) {
  if (!device::present()) return;
  using T = TestType;
  const index_t width = 700;
  const auto x = device::random<T>({4, width});
  const std::vector<token_t> columns{699, 3, 3, 0, 5};
  const std::vector<index_t> rows{3, 0, 2}, begins{0, 3, 5}, lengths{3, 2, 0};  // one lists a column twice, one has none
  const auto before = x.clone();
  const auto device_x = device::upload<T>(x);
  const auto device_columns = Tensor<token_t>({5}, std::span<const token_t>(columns)).to<Cuda>();
  keep_listed(Cpu{}, {3, rows.data(), begins.data(), lengths.data(), columns.data()}, width, x.data());
  keep_listed(Cuda{}, {3, rows.data(), begins.data(), lengths.data(), device_columns.data()}, width, device_x.data());
  REQUIRE(device::difference(device_x, x, 0) == "");
  for (index_t r = 0; r < 4; ++r)
    for (index_t c = 0; c < width; ++c) {
      const bool kept = r == 1 || (r == 3 && (c == 699 || c == 3)) || (r == 0 && (c == 0 || c == 5));
      REQUIRE(x(r, c) == (kept ? before(r, c) : -std::numeric_limits<T>::infinity()));
    }
}

TEMPLATE_TEST_CASE("cuda: log_add is the processor's, and the logarithm of a sum", "[cuda]", float, double) {
  if (!device::present()) return;
  using T = TestType;
  constexpr T never = -std::numeric_limits<T>::infinity();
  const T numbers[] = {never, T(-1000), T(-30.5), T(-5), T(-1.25), T(-1), T(0), T(2)};
  const Tensor<T> x({64}), y({64});
  for (index_t i = 0; i < 64; ++i) x.data()[i] = numbers[i / 8], y.data()[i] = numbers[i % 8];
  const auto before = y.clone();
  const auto device_y = device::upload<T>(y);
  log_add(Cpu{}, 64, T(-0.75), x.data(), y.data());
  log_add(Cuda{}, 64, T(-0.75), device::upload<T>(x).data(), device_y.data());
  REQUIRE(device::difference(device_y, y, std::is_same_v<T, float> ? 1e-7 : 1e-15) == "");
  for (index_t i = 0; i < 64; ++i) {
    const double a = static_cast<double>(before.data()[i]), b = static_cast<double>(x.data()[i]) - 0.75;
    INFO(a << " and " << b);
    if (a == -std::numeric_limits<double>::infinity() && b == a) REQUIRE(y.data()[i] == never);
    else
      REQUIRE(static_cast<double>(y.data()[i]) ==
              Approx(std::max(a, b) + std::log1p(std::exp(-std::abs(a - b)))).margin(std::is_same_v<T, float> ? 3e-7 : 1e-14));
  }
}

TEMPLATE_TEST_CASE("cuda: the weights of a cross-attention step are the processor's, and a softmax", "[cuda]", float, double,
                   bfloat16) {
  if (!device::present()) return;
  using T = TestType;
  using W = Wide<T>;
  const Tensor<index_t> spans({2, 5});
  const index_t begins[] = {3, 0, 3, 8, 50}, lengths[] = {5, 3, 5, 140, 0};
  std::copy_n(begins, 5, spans.data());
  std::copy_n(lengths, 5, spans.data() + 5);
  const auto device_spans = spans.to<Cuda>();
  for (const index_t d_k : {8, 5, 40}) {
    const index_t heads = 3, rows = 5, longest = 143, stride = 2 * heads * d_k, sources = 150;
    const auto q = device::representable<T>({rows, heads * d_k}, 1), kv = device::representable<T>({sources, stride}, 2);
    const Tensor<W> weights({rows, longest}, W(5));
    const kernels::StepHeads of{heads, d_k, 0, 0.25};
    const kernels::KeyValueLayout layout{stride};
    cross_attention_weights_step<W>(Cpu{}, of, as_rows(q), {kv.data(), layout, begins, lengths}, as_rows(weights));
    const Tensor<W, Cuda> got({rows, longest}, W(5));
    const auto device_q = device::upload<T>(q), device_kv = device::upload<T>(kv);
    cross_attention_weights_step<T>(Cuda{}, of, as_rows(device_q),
                                    {device_kv.data(), layout, device_spans.data(), device_spans.data() + 5}, as_rows(got));
    REQUIRE(device::difference(got, weights, 1e-5) == "");
    for (index_t j = 0; j < 3; ++j) {
      double mean = 0;
      for (index_t h = 0; h < heads; ++h) {
        double scores[3], sum = 0;
        for (index_t k = 0; k < 3; ++k) {
          double dot = 0;
          for (index_t i = 0; i < d_k; ++i)
            dot += static_cast<double>(q(1, h * d_k + i)) * static_cast<double>(kv(k, h * d_k + i));
          sum += scores[k] = std::exp(0.25 * dot);
        }
        mean += scores[j] / sum / 3;
      }
      REQUIRE(static_cast<double>(weights(1, j)) == Approx(mean).epsilon(1e-5));
      REQUIRE(weights(1, 3 + j) == 0);
      REQUIRE(weights(4, j) == 0);
    }
  }
}
