// Differential targets: the processor's kernels against plain loops in double, and sentences in a batch against each by itself.
// The input says which, how large, and what numbers.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "attend/compiled.hpp"
#include "attend/core/random.hpp"
#include "attend/cpu/attention.hpp"
#include "attend/cpu/basic.hpp"
#include "attend/cpu/gemm.hpp"
#include "attend/cpu/int8.hpp"
#include "attend/cpu/layer_norm.hpp"
#include "attend/cpu/log_add.hpp"
#include "attend/cpu/packed_matrix.hpp"
#include "attend/cpu/softmax.hpp"
#include "attend/cpu/top_k.hpp"
#include "attend/cpu/vector.hpp"
#include "attend/decode/beam.hpp"
#include "attend/decode/greedy.hpp"
#include "attend/decode/transformer.hpp"
#include "attend/nn/transformer.hpp"
#include "input.hpp"

using namespace attend;

namespace fuzz {

namespace {

std::size_t at(index_t i) { return static_cast<std::size_t>(i); }

/// Numbers by the input: their kind and the stream of random numbers that they come from, or its own bytes.
template <class T>
std::vector<T> numbers(Input& in, index_t count) {
  std::vector<T> x(at(count));
  const unsigned kind = in.byte();
  const Generator::Stream random{kind, in.byte()};
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double normal = random.normal(i);
    switch (kind % 4) {
      case 0:
        x[i] = static_cast<T>(normal);
        break;
      case 1:  // of every size
        x[i] = static_cast<T>(std::ldexp(normal, static_cast<int>(random.below(i + x.size(), 40)) - 20));
        break;
      case 2:  // many equal ones, and zeros
        x[i] = static_cast<T>(std::round(normal));
        break;
      default:
        x[i] = static_cast<T>(static_cast<std::int8_t>(in.byte())) / T(16);
    }
  }
  return x;
}

/// Whether a value is as near to the expected one as `allowed`.
template <class T>
void expect_near(T value, double expected, double allowed, const char* what) {
  expect(std::abs(static_cast<double>(value) - expected) <= allowed, what);
}

template <class T>
constexpr double epsilon = std::numeric_limits<T>::epsilon();

/// A matrix stored by rows, or by columns.
template <class T>
struct Stored {
  bool transposed;
  index_t rows, columns, stride;
  std::vector<T> values;

  Stored(Input& in, index_t rows_, index_t columns_) : transposed(in.byte() & 1), rows(rows_), columns(columns_) {
    stride = (transposed ? rows : columns) + in.byte() % 5;
    values = numbers<T>(in, stride * (transposed ? columns : rows));
  }
  [[nodiscard]] double operator()(index_t i, index_t j) const { return values[at(transposed ? j * stride + i : i * stride + j)]; }
  [[nodiscard]] kernels::Matrix<const T> view() const { return {values.data(), rows, columns, stride, transposed}; }
  /// So many rows and columns of it, from (i, j) on.
  [[nodiscard]] kernels::Matrix<const T> part(index_t i, index_t j, index_t some_rows, index_t some_columns) const {
    return {values.data() + (transposed ? j * stride + i : i * stride + j), some_rows, some_columns, stride, transposed};
  }
};

/// The sizes of a product that does not take long.
struct Sizes {
  index_t m, n, k;
  explicit Sizes(Input& in) : m(in.number(1, 70)), n(in.number(1, 140)), k(in.number(1, 600)) {
    while (m * n * k > 200'000) (m > n ? m : n > 16 ? n : k) /= 2;
  }
};

template <class T>
void products(Input& in) {
  const Sizes s(in);
  const Stored<T> a(in, s.m, s.k), b(in, s.k, s.n);
  const T alpha = std::array<T, 4>{T(1), T(0.5), T(-2), T(1)}[in.byte() % 4];
  const bool adds = (in.byte() & 1) != 0;
  const index_t ldc = s.n + in.byte() % 5;
  const auto before = numbers<T>(in, s.m * ldc);
  const auto multiply = [&](index_t i, index_t rows, index_t j, index_t columns, std::vector<T>& c) {
    gemm<T>(Cpu{}, a.part(i, 0, rows, s.k), b.part(0, j, s.k, columns), {c.data() + i * ldc + j, rows, columns, ldc},
            {.alpha = alpha, .add = adds});
  };
  auto whole = before;
  multiply(0, s.m, 0, s.n, whole);
  for (index_t i = 0; i < s.m; ++i)
    for (index_t j = 0; j < ldc; ++j) {
      const T value = whole[at(i * ldc + j)], old = before[at(i * ldc + j)];
      if (j >= s.n) {
        expect(value == old, "a product leaves alone what lies between the rows");
        continue;
      }
      double sum = 0, size = 0;
      for (index_t l = 0; l < s.k; ++l) sum += a(i, l) * b(l, j), size += std::abs(a(i, l) * b(l, j));
      const double expected = static_cast<double>(alpha) * sum + (adds ? static_cast<double>(old) : 0);
      size = std::abs(static_cast<double>(alpha)) * size + std::abs(static_cast<double>(old));
      expect_near(value, expected, epsilon<T> * size * static_cast<double>(s.k + 8) + 1e-30, "gemm: sums of products");
    }

  // Some rows and columns by themselves have the same bits.
  const index_t i = in.number(0, s.m - 1), rows = in.number(1, s.m - i), j = in.number(0, s.n - 1),
                columns = in.number(1, s.n - j);
  auto part = before;
  multiply(i, rows, j, columns, part);
  for (index_t r = i; r < i + rows; ++r)
    expect(std::memcmp(&part[at(r * ldc + j)], &whole[at(r * ldc + j)], at(columns) * sizeof(T)) == 0,
           "gemm: an element's bits depend on its row and column alone");

  const cpu::PackedMatrix<T> packed(b.view());
  std::vector<T> plain(at(s.m * s.n)), again(at(s.m * s.n));
  gemm<T>(Cpu{}, a.view(), b.view(), {plain.data(), s.m, s.n});
  packed.multiply(a.view(), nullptr, {again.data(), s.m, s.n});
  expect(std::memcmp(plain.data(), again.data(), plain.size() * sizeof(T)) == 0, "PackedMatrix: the bits of gemm");
}

template <class T>
void grams(Input& in) {
  const index_t n = in.number(1, 70), k = in.number(1, 150), count = in.number(1, 3);
  const bool transposed = (in.byte() & 1) != 0;
  const index_t lda = (transposed ? n : k) + in.byte() % 4, a_step = lda * (transposed ? k : n), ldc = n + in.byte() % 4;
  const auto a = numbers<T>(in, count * a_step);
  std::vector<T> c(at(count * n * ldc), T(7)), expected = c;
  const kernels::Matrices<const T> as{{a.data(), n, k, lda, transposed}, a_step};
  gram_batched<T>(Cpu{}, count, as, {{c.data(), n, n, ldc}, n * ldc}, {.alpha = 0.5});
  gemm_batched<T>(Cpu{}, count, as, as.transpose(), {{expected.data(), n, n, ldc}, n * ldc}, {.alpha = 0.5});
  expect(std::memcmp(c.data(), expected.data(), c.size() * sizeof(T)) == 0, "gram_batched: the bits of gemm_batched");
}

void int8_products(Input& in) {
  const Sizes s(in);
  const Stored<float> b(in, s.k, s.n);
  const auto x = numbers<float>(in, s.m * s.k), bias = numbers<float>(in, s.n);
  const bool has_bias = (in.byte() & 1) != 0;
  const cpu::Int8Matrix matrix(b.view());
  std::vector<float> y(at(s.m * s.n)), alone(at(s.n));
  matrix.multiply({x.data(), s.m, s.k}, has_bias ? bias.data() : nullptr, {y.data(), s.m, s.n});

  std::vector<std::int8_t> row(at(s.k)), columns(at(s.k * s.n));
  std::vector<float> scales(at(s.n)), column(at(s.k));
  for (index_t j = 0; j < s.n; ++j) {
    for (index_t l = 0; l < s.k; ++l) column[at(l)] = static_cast<float>(b(l, j));
    scales[at(j)] = cpu::quantize_row(s.k, column.data(), columns.data() + j * s.k);
    for (index_t l = 0; l < s.k; ++l)
      expect_near(scales[at(j)] * static_cast<float>(columns[at(j * s.k + l)]), column[at(l)],
                  static_cast<double>(scales[at(j)]) * 0.501 + 1e-30, "quantize_row: rounds to the nearest");
  }
  for (index_t i = 0; i < s.m; ++i) {
    const float scale = cpu::quantize_row(s.k, x.data() + i * s.k, row.data());
    for (index_t j = 0; j < s.n; ++j) {
      std::int64_t sum = 0;
      for (index_t l = 0; l < s.k; ++l) sum += row[at(l)] * columns[at(j * s.k + l)];
      const double product = static_cast<double>(sum) * static_cast<double>(scale) * static_cast<double>(scales[at(j)]);
      const double add = has_bias ? static_cast<double>(bias[at(j)]) : 0;
      expect_near(y[at(i * s.n + j)], product + add, 4 * epsilon<float> * (std::abs(product) + std::abs(add)) + 1e-30,
                  "Int8Matrix: sums are exact");
    }
  }
  const index_t i = in.number(0, s.m - 1);
  matrix.multiply({x.data() + i * s.k, 1, s.k}, has_bias ? bias.data() : nullptr, {alone.data(), 1, s.n});
  expect(std::memcmp(alone.data(), y.data() + i * s.n, alone.size() * sizeof(float)) == 0,
         "Int8Matrix: what a row gets depends on that row alone");
}

template <class T>
void softmaxes(Input& in) {
  const index_t rows = in.number(1, 5), n = in.number(1, 300);
  auto x = numbers<T>(in, rows * n);
  const index_t hidden = in.number(0, rows * n);  // minus infinities
  for (index_t h = 0; h < hidden; ++h) x[at(in.number(0, rows * n - 1))] = -std::numeric_limits<T>::infinity();
  std::vector<T> y(x.size()), log_y(x.size());
  softmax_forward(Cpu{}, rows, n, x.data(), y.data());
  log_softmax_forward(Cpu{}, rows, n, x.data(), log_y.data());
  const double allowed = static_cast<double>(50 + n) * epsilon<T>;  // a plain sum of n numbers loses digits too
  for (index_t r = 0; r < rows; ++r) {
    const T* row = x.data() + r * n;
    const double top = static_cast<double>(*std::max_element(row, row + n));
    double sum = 0;
    for (index_t i = 0; i < n && !std::isinf(top); ++i) sum += std::exp(static_cast<double>(row[i]) - top);
    for (index_t i = 0; i < n; ++i) {
      const double shifted = static_cast<double>(row[i]) - top;
      const double expected = std::isinf(top) ? 0 : std::exp(shifted) / sum;
      expect_near(y[at(r * n + i)], expected, allowed, "softmax");
      if (std::isinf(row[i])) expect(log_y[at(r * n + i)] == row[i], "log_softmax: minus infinity stays so");
      else expect_near(log_y[at(r * n + i)], shifted - std::log(sum), allowed * (1 + std::abs(shifted)), "log_softmax");
    }
  }
}

template <class T>
void layer_norms(Input& in) {
  const bool sample = (in.byte() & 1) != 0, scalar = (in.byte() & 1) != 0;
  const NormLayout norm{.width = in.number(2, 200), .sample_deviation = sample, .scalar_affine = scalar};
  const index_t rows = in.number(1, 6), n = norm.width;
  const auto x = numbers<T>(in, rows * n), gamma = numbers<T>(in, n), beta = numbers<T>(in, n);
  std::vector<T> y(x.size()), mean(at(rows)), rstd(at(rows));
  layer_norm_forward(Cpu{}, kernels::NormOfRows<T>{norm, rows, gamma.data(), beta.data()}, x.data(), y.data(),
                     {mean.data(), rstd.data()});
  for (index_t r = 0; r < rows; ++r) {
    double m = 0, squares = 0, largest = 0;
    for (index_t i = 0; i < n; ++i) m += static_cast<double>(x[at(r * n + i)]) / static_cast<double>(n);
    for (index_t i = 0; i < n; ++i) {
      const double off = static_cast<double>(x[at(r * n + i)]) - m;
      squares += off * off;
      largest = std::max(largest, std::abs(static_cast<double>(x[at(r * n + i)])));
    }
    const double s = sample ? 1 / (std::sqrt(squares / static_cast<double>(n - 1)) + norm.eps)
                            : 1 / std::sqrt(squares / static_cast<double>(n) + norm.eps);
    // The smaller the deviation, the more the rounding of the mean costs; nothing is promised of rows that hardly vary.
    if (s * largest > 1e3) continue;
    for (index_t i = 0; i < n; ++i) {
      const index_t j = scalar ? 0 : i;
      const double g = static_cast<double>(gamma[at(j)]), b = static_cast<double>(beta[at(j)]);
      expect_near(y[at(r * n + i)], (static_cast<double>(x[at(r * n + i)]) - m) * s * g + b,
                  static_cast<double>(100 + n) * epsilon<T> * (std::abs(g) * (1 + s * largest) * (1 + s * largest) + std::abs(b)),
                  "layer_norm");
    }
  }
}

template <class T>
void top_ks(Input& in) {
  const index_t width = in.number(1, 3000), k = in.number(1, std::min<index_t>(width, 600));
  auto x = numbers<T>(in, width);
  if ((in.byte() & 1) != 0) x[at(in.number(0, width - 1))] = -std::numeric_limits<T>::infinity();
  if ((in.byte() & 1) != 0) x[at(in.number(0, width - 1))] = std::numeric_limits<T>::infinity();
  if ((in.byte() & 1) != 0) x[at(in.number(0, width - 1))] = -T(0);
  std::vector<T> values(at(k));
  std::vector<token_t> columns(at(k)), order(at(width));
  top_k(Cpu{}, index_t{1}, width, k, x.data(), values.data(), columns.data());
  std::iota(order.begin(), order.end(), token_t{0});
  std::stable_sort(order.begin(), order.end(), [&](token_t a, token_t b) { return x[at(a)] > x[at(b)]; });
  for (index_t i = 0; i < k; ++i)
    expect(columns[at(i)] == order[at(i)] && values[at(i)] == x[at(order[at(i)])], "top_k: the largest, the first of equal ones");
  x[at(in.number(0, width - 1))] = std::numeric_limits<T>::quiet_NaN();
  expect(!answers<Error>([&] { top_k(Cpu{}, index_t{1}, width, k, x.data(), values.data(), columns.data()); }),
         "top_k: what is not a number is refused");
}

/// Functions in float that are polynomials, for floats of any bits.
void elementary(Input& in) {
  for (int i = 0; i < 16; ++i) {
    std::uint32_t bits = 0;
    for (int k = 0; k < 4; ++k) bits = bits << 8 | in.byte();
    const auto x = std::bit_cast<float>(bits);
    if (std::isnan(x)) continue;
    const auto wide = static_cast<double>(x);
    const double e = std::exp(wide);
    const float y = cpu::exp(x);
    if (x < -87.8f) expect(y == 0, "exp: 0 far below");
    else if (x > 88.73f) expect(std::isinf(y), "exp: infinity far above");
    else if (x > -87.3f && x < 88.7f) expect_near(y, e, 2.5 * epsilon<float> * e, "exp: within 2 units in the last place");
    expect_near(cpu::tanh(x), std::tanh(wide), 5e-7 * std::abs(std::tanh(wide)) + 1e-37, "tanh");
    expect_near(cpu::erf(x), std::erf(wide), 5e-7 * std::abs(std::erf(wide)) + 1e-37, "erf");
    const float small = std::abs(x) <= 1 ? std::abs(x) : 1 / std::abs(x);
    expect_near(cpu::log1p(small), std::log1p(static_cast<double>(small)), 3e-7, "log1p");
    float sum = static_cast<float>(in.byte()) / 16;
    const double a = sum;
    if (std::abs(wide) > 1e30) continue;
    log_add(Cpu{}, index_t{1}, 0.0f, &x, &sum);
    const double most = std::max(a, wide);
    expect_near(sum, most + std::log1p(std::exp(std::min(a, wide) - most)), 1e-6 * (1 + std::abs(most)), "log_add");
  }
}

template <class T>
void attentions(Input& in) {
  AttentionLayout a;
  const index_t sentences = in.number(1, 3);
  std::vector<index_t> query_lengths, key_lengths;
  for (index_t s = 0; s < sentences; ++s) query_lengths.push_back(in.number(0, 40)), key_lengths.push_back(in.number(0, 40));
  a.queries = Segments::ragged(query_lengths), a.keys = Segments::ragged(key_lengths);
  a.heads = in.number(1, 3), a.d_k = in.number(1, 20), a.d_v = in.number(1, 20);
  a.scale = 1 / std::sqrt(static_cast<double>(a.d_k));
  a.causal = (in.byte() & 1) != 0;
  a.q_stride = a.heads * a.d_k + in.byte() % 3, a.k_stride = a.heads * a.d_k + in.byte() % 3;
  a.v_stride = a.heads * a.d_v + in.byte() % 3, a.out_stride = a.heads * a.d_v;
  const auto q = numbers<T>(in, a.queries.rows() * a.q_stride), k = numbers<T>(in, a.keys.rows() * a.k_stride),
             v = numbers<T>(in, a.keys.rows() * a.v_stride);
  std::vector<T> weights(at(a.lay_out_weights())), out(at(a.queries.rows() * a.out_stride), T(7));
  // Scores this large make the softmax as good as a choice, by which of two scores is larger in its last digits.
  const auto largest = [](const std::vector<T>& x) {
    double most = 0;
    for (const T value : x) most = std::max(most, std::abs(static_cast<double>(value)));
    return most;
  };
  const double scores = largest(q) * largest(k) * static_cast<double>(a.d_k) * a.scale, values = largest(v);
  attention_forward<T>(Cpu{}, a, {q.data(), k.data(), v.data()}, weights.data(), {}, out.data());
  const double allowed = 50 * epsilon<T> * (1 + scores);
  for (index_t s = 0; s < sentences; ++s)
    for (index_t h = 0; h < a.heads; ++h)
      for (index_t i = 0; i < a.queries.length(s); ++i) {
        const index_t keys = a.keys.length(s), seen = a.causal ? std::min(i + 1, keys) : keys;
        std::vector<double> w(at(keys), 0.0);
        for (index_t j = 0; j < seen; ++j)
          for (index_t c = 0; c < a.d_k; ++c)
            w[at(j)] += a.scale * static_cast<double>(q[at((a.queries.begin(s) + i) * a.q_stride + h * a.d_k + c)]) *
                        static_cast<double>(k[at((a.keys.begin(s) + j) * a.k_stride + h * a.d_k + c)]);
        const double top = seen == 0 ? 0 : *std::max_element(w.begin(), w.begin() + seen);
        double sum = 0;
        for (index_t j = 0; j < seen; ++j) sum += w[at(j)] = std::exp(w[at(j)] - top);
        const T* row = weights.data() + a.weight_offset[at(s)] + (h * a.queries.length(s) + i) * keys;
        for (index_t j = 0; j < keys; ++j) {
          w[at(j)] = seen == 0 ? 0 : w[at(j)] / sum;
          expect_near(row[j], j < seen ? w[at(j)] : 0.0, allowed, "attention: weights");
        }
        for (index_t c = 0; c < a.d_v; ++c) {
          double y = 0;
          for (index_t j = 0; j < seen; ++j)
            y += w[at(j)] * static_cast<double>(v[at((a.keys.begin(s) + j) * a.v_stride + h * a.d_v + c)]);
          expect_near(out[at((a.queries.begin(s) + i) * a.out_stride + h * a.d_v + c)], y,
                      allowed * static_cast<double>(seen + 1) * values, "attention: values");
        }
      }
}

template <class T>
void sums(Input& in) {
  const index_t rows = in.number(1, 30), width = in.number(1, 100), stride = width + in.byte() % 4;
  const auto x = numbers<T>(in, rows * stride);
  std::vector<T> y(at(width), T(7));
  sum_rows(Cpu{}, {x.data(), rows, width, stride}, kernels::Gradient{y.data()});
  double squares = 0;
  for (const T value : x) squares += static_cast<double>(value) * static_cast<double>(value);
  for (index_t j = 0; j < width; ++j) {
    double sum = 0, size = 0;
    for (index_t i = 0; i < rows; ++i) {
      sum += static_cast<double>(x[at(i * stride + j)]);
      size += std::abs(static_cast<double>(x[at(i * stride + j)]));
    }
    expect_near(y[at(j)], sum, epsilon<T> * size * 32, "sum_rows");
  }
  expect_near(sum_of_squares(Cpu{}, static_cast<index_t>(x.size()), x.data()), squares, 1e-12 * squares, "sum_of_squares");
}

/// A small network of one of four kinds.
const nn::Transformer<float>& network(unsigned kind) {
  static const auto all = [] {
    std::vector<nn::Transformer<float>> list;
    for (const bool pre : {false, true})
      for (const bool learned : {false, true}) {
        attend::seed(list.size());
        list.emplace_back(nn::TransformerOptions{.vocabulary = 11,
                                                 .d_model = 20,
                                                 .heads = pre ? 2 : 4,
                                                 .d_ff = 30,
                                                 .layers = 2,
                                                 .activation = pre ? Activation::gelu : Activation::relu,
                                                 .norm_order = pre ? nn::NormOrder::pre : nn::NormOrder::post,
                                                 .final_norm = pre,
                                                 .positions = learned ? nn::PositionKind::learned : nn::PositionKind::sinusoidal,
                                                 .max_length = 12,
                                                 .tie_head = learned});
        nn::set_training(list.back(), false);
      }
    return list;
  }();
  return all[kind % all.size()];
}

/// Sentences of some tokens.
struct Sentences {
  std::vector<std::vector<token_t>> all;

  Sentences(Input& in, index_t count, index_t longest) {
    for (index_t s = 0; s < count; ++s) {
      all.emplace_back();
      for (index_t left = in.number(1, longest); left > 0; --left) all.back().push_back(static_cast<token_t>(in.byte() % 11));
    }
  }
  explicit Sentences(std::vector<token_t> one) : all{std::move(one)} {}
  [[nodiscard]] Tensor<token_t> tokens() const {
    std::vector<token_t> list;
    for (const auto& sentence : all) list.insert(list.end(), sentence.begin(), sentence.end());
    return {Shape{static_cast<index_t>(list.size())}, std::span<const token_t>(list)};
  }
  [[nodiscard]] Segments segments() const {
    std::vector<index_t> lengths;
    for (const auto& sentence : all) lengths.push_back(static_cast<index_t>(sentence.size()));
    return Segments::ragged(lengths);
  }
};

std::vector<float> logits(const nn::Transformer<float>& model, const Sentences& sources, const Sentences& targets) {
  const auto from = sources.tokens(), to = targets.tokens();
  return model({from, sources.segments(), to, targets.segments(), to}).value().values();
}

bool same_bits(const std::vector<float>& a, const float* b) { return std::memcmp(a.data(), b, a.size() * sizeof(float)) == 0; }

bool same(const decode::Hypothesis& a, const decode::Hypothesis& b) {
  return a.tokens == b.tokens && a.log_probability == b.log_probability && a.score == b.score && a.finished == b.finished;
}

}  // namespace

int kernels(Bytes bytes) {
  Input in(bytes);
  const unsigned which = in.byte() % 16;
  switch (which) {
    case 0:
      products<float>(in);
      break;
    case 1:
      products<double>(in);
      break;
    case 2:
      grams<float>(in);
      break;
    case 3:
      grams<double>(in);
      break;
    case 4:
      int8_products(in);
      break;
    case 5:
      softmaxes<float>(in);
      break;
    case 6:
      softmaxes<double>(in);
      break;
    case 7:
      layer_norms<float>(in);
      break;
    case 8:
      layer_norms<double>(in);
      break;
    case 9:
      top_ks<float>(in);
      break;
    case 10:
      top_ks<double>(in);
      break;
    case 11:
      elementary(in);
      break;
    case 12:
      attentions<float>(in);
      break;
    case 13:
      attentions<double>(in);
      break;
    case 14:
      sums<float>(in);
      break;
    default:
      sums<double>(in);
  }
  return 0;
}
std::vector<std::string> kernels_seeds() {
  std::vector<std::string> seeds;
  for (unsigned which = 0; which < 16; ++which) {
    std::string seed(1, static_cast<char>(which));
    for (unsigned i = 0; i < 40; ++i) seed += static_cast<char>(i * 37 + which);
    seeds.push_back(seed);
  }
  return seeds;
}

int batch(Bytes bytes) {
  Input in(bytes);
  const NoGrad no_grad;
  const auto& model = network(in.byte());
  const index_t count = in.number(1, 4);
  const Sentences sources(in, count, 9), targets(in, count, 9);
  const auto together = logits(model, sources, targets);
  const index_t vocabulary = model.options.decoder.vocabulary;
  for (index_t s = 0, row = 0; s < count; ++s) {
    const auto alone = logits(model, Sentences(sources.all[at(s)]), Sentences(targets.all[at(s)]));
    expect(same_bits(alone, together.data() + row * vocabulary), "a sentence has the same logits in any batch");
    row += static_cast<index_t>(targets.all[at(s)].size());
  }

  decode::TransformerModel<float> steps(model);
  const decode::BeamOptions how{.max_length = in.number(0, 8), .beam = in.number(1, 5), .n_best = 1};
  const auto search = [&](const Sentences& from) {
    auto state = steps.begin(from.tokens(), from.segments());
    return decode::beam_search(steps, state, static_cast<index_t>(from.all.size()), how);
  };
  const auto all = search(sources);
  for (index_t s = 0; s < count; ++s) {
    const auto one = search(Sentences(sources.all[at(s)]));
    expect(one[0].size() == all[at(s)].size(), "a sentence has as many translations in any batch");
    for (std::size_t i = 0; i < one[0].size(); ++i)
      expect(same(one[0][i], all[at(s)][i]), "a sentence is translated alike in any batch");
  }

  // Token by token with a cache, and all at once.
  const std::vector<token_t>& target = targets.all[0];
  auto state = steps.begin(Sentences(sources.all[0]).tokens(), Sentences(sources.all[0]).segments());
  for (std::size_t i = 0; i < target.size(); ++i) {
    const auto step = steps.step(state, std::span<const token_t>(&target[i], 1)).values();
    const float* row = together.data() + static_cast<index_t>(i) * vocabulary;
    double sum = 0;
    for (index_t j = 0; j < vocabulary; ++j) sum += std::exp(static_cast<double>(row[j]));
    for (index_t j = 0; j < vocabulary; ++j)
      expect_near(step[at(j)], static_cast<double>(row[j]) - std::log(sum), 2e-4, "a step gives what the whole target gives");
  }
  return 0;
}
std::vector<std::string> batch_seeds() {
  std::vector<std::string> seeds;
  for (unsigned kind = 0; kind < 4; ++kind) {
    std::string seed(1, static_cast<char>(kind));
    seed += std::string("\3\0", 2);
    for (unsigned i = 0; i < 60; ++i) seed += static_cast<char>(i % 3 == 1 ? 0 : i * 29 + kind);
    seeds.push_back(seed);
  }
  return seeds;
}

}  // namespace fuzz
