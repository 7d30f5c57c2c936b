#include "attend/decode/cache.hpp"

#include <cmath>

#include "attend/core/random.hpp"
#include "catch.hpp"

using namespace attend;
using attend::decode::SelfCache;

namespace {

template <class T>
std::vector<T> random_values(index_t n, std::uint64_t stream) {
  const Generator::Stream random{11, stream};
  std::vector<T> x(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(random.normal(i));
  return x;
}

/// One query against keys and values given one by one: softmax(scale * q . k) v in double.
template <class T>
std::vector<double> attend_plainly(const std::vector<const T*>& keys, const std::vector<const T*>& values, const T* q,
                                   index_t d_k, index_t d_v, double scale) {
  std::vector<double> out(static_cast<std::size_t>(d_v), 0.0), w;
  double sum = 0;
  for (const T* key : keys) {
    double dot = 0;
    for (index_t i = 0; i < d_k; ++i) dot += static_cast<double>(q[i]) * static_cast<double>(key[i]);
    w.push_back(std::exp(scale * dot));
    sum += w.back();
  }
  for (std::size_t j = 0; j < keys.size(); ++j)
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += w[j] / sum * static_cast<double>(values[j][i]);
  return out;
}

/// A cache that copies: each row owns the keys and values of its prefix.
template <class T>
struct PlainRow {
  std::vector<std::vector<T>> kv;  // [steps][heads * (d_k + d_v)]
};

template <class T>
constexpr double tolerance = std::is_same_v<T, float> ? 2e-5 : 1e-12;

}  // namespace

TEMPLATE_TEST_CASE("SelfCache attends like one that copies, whatever the reordering", "[cache]", float, double) {
  using T = TestType;
  struct Case {
    index_t heads, d_k, d_v;
  };
  for (const Case c : {Case{1, 1, 1}, Case{2, 5, 3}, Case{3, 16, 32}, Case{2, 40, 70}, Case{4, 64, 64}}) {
    const index_t layers = 2, width = c.heads * (c.d_k + c.d_v), stride = width + 7, q_width = c.heads * c.d_k;
    const double scale = 1 / std::sqrt(static_cast<double>(c.d_k));
    SelfCache<T> cache(layers, 3, c.heads, c.d_k, c.d_v);
    std::vector<std::vector<PlainRow<T>>> plain(2, std::vector<PlainRow<T>>(3));  // [layers][rows]
    const std::vector<std::vector<index_t>> orders{{0, 0, 1, 1, 2, 2}, {5, 0, 0, 3, 1, 4}, {3, 3, 3}, {2, 1, 0}, {1},
                                                   {0, 0, 0, 0}};
    for (index_t step = 0; step < 70; ++step) {
      if (step % 4 == 1) {
        const auto& order = orders[static_cast<std::size_t>(step / 4) % orders.size()];
        std::vector<index_t> rows;
        for (const index_t r : order) rows.push_back(r % cache.rows());
        cache.reorder(rows);
        for (auto& layer : plain) {
          std::vector<PlainRow<T>> next;
          for (const index_t r : rows) next.push_back(layer[static_cast<std::size_t>(r)]);
          layer = next;
        }
      }
      cache.begin_step();
      REQUIRE(cache.steps() == step + 1);
      for (index_t layer = 0; layer < layers; ++layer) {
        const auto seed = static_cast<std::uint64_t>(step * 10 + layer);
        const auto kv = random_values<T>(cache.rows() * stride, seed),
                   q = random_values<T>(cache.rows() * (q_width + 2), 5000 + seed);
        std::vector<T> out(static_cast<std::size_t>(cache.rows() * (c.heads * c.d_v + 1)), T(77));
        cache.append(layer, {kv.data(), cache.rows(), width, stride});
        cache.attend(layer, scale, {q.data(), cache.rows(), q_width, q_width + 2},
                     {out.data(), cache.rows(), c.heads * c.d_v, c.heads * c.d_v + 1});
        for (index_t r = 0; r < cache.rows(); ++r) {
          auto& row = plain[static_cast<std::size_t>(layer)][static_cast<std::size_t>(r)];
          row.kv.emplace_back(kv.begin() + r * stride, kv.begin() + r * stride + width);
          for (index_t h = 0; h < c.heads; ++h) {
            std::vector<const T*> keys, values;
            for (const auto& x : row.kv) {
              keys.push_back(x.data() + h * c.d_k);
              values.push_back(x.data() + c.heads * c.d_k + h * c.d_v);
            }
            const auto expected = attend_plainly(keys, values, q.data() + r * (q_width + 2) + h * c.d_k, c.d_k, c.d_v, scale);
            double worst = 0;
            for (index_t i = 0; i < c.d_v; ++i) {
              const T got = out[static_cast<std::size_t>(r * (c.heads * c.d_v + 1) + h * c.d_v + i)];
              worst = std::max(worst, std::abs(static_cast<double>(got) - expected[static_cast<std::size_t>(i)]));
            }
            INFO("step " << step << ", row " << r << ", head " << h << ", d_k " << c.d_k);
            REQUIRE(worst <= tolerance<T>);
          }
          REQUIRE(out[static_cast<std::size_t>((r + 1) * (c.heads * c.d_v + 1) - 1)] == T(77));
        }
      }
    }
  }
}

TEMPLATE_TEST_CASE("cross_attention_step attends to each row's own part of the source", "[cache]", float, double) {
  using T = TestType;
  const index_t heads = 3, d_k = 20, d_v = 18, source = 40, stride = 200, k_offset = 9, v_offset = 80, rows = 6;
  const double scale = 0.3;
  const std::vector<index_t> begins{0, 0, 12, 39, 5, 12}, lengths{12, 12, 27, 1, 0, 27};
  const auto kv = random_values<T>(source * stride, 1), q = random_values<T>(rows * heads * d_k, 2);
  std::vector<T> out(static_cast<std::size_t>(rows * heads * d_v));
  cross_attention_step<T>(Cpu{}, {heads, d_k, d_v, scale}, {q.data(), rows, heads * d_k},
                          {kv.data(), {stride, k_offset, v_offset}, begins.data(), lengths.data()},
                          {out.data(), rows, heads * d_v});
  for (index_t r = 0; r < rows; ++r)
    for (index_t h = 0; h < heads; ++h) {
      std::vector<const T*> keys, values;
      for (index_t j = 0; j < lengths[static_cast<std::size_t>(r)]; ++j) {
        const T* row = kv.data() + (begins[static_cast<std::size_t>(r)] + j) * stride;
        keys.push_back(row + k_offset + h * d_k);
        values.push_back(row + v_offset + h * d_v);
      }
      const auto expected = attend_plainly(keys, values, q.data() + (r * heads + h) * d_k, d_k, d_v, scale);
      for (index_t i = 0; i < d_v; ++i) {
        const double got = static_cast<double>(out[static_cast<std::size_t>((r * heads + h) * d_v + i)]);
        REQUIRE(std::abs(got - expected[static_cast<std::size_t>(i)]) <= tolerance<T>);
      }
    }
}

TEST_CASE("cross_attention_step gives a row the same bits in every batch", "[cache]") {
  const index_t heads = 2, d_k = 24, d_v = 20, stride = heads * (d_k + d_v), source = 30, rows = 9;
  const auto kv = random_values<float>(source * stride, 3);
  const auto q = random_values<float>(rows * heads * d_k, 4);
  std::vector<index_t> begins, lengths;
  for (index_t r = 0; r < rows; ++r) begins.push_back(r), lengths.push_back(1 + 2 * r);
  std::vector<float> together(static_cast<std::size_t>(rows * heads * d_v)), alone(static_cast<std::size_t>(heads * d_v + 3));
  const kernels::KeyValueLayout layout{stride, 0, heads * d_k};
  cross_attention_step<float>(Cpu{}, {heads, d_k, d_v, 0.2}, {q.data(), rows, heads * d_k},
                              {kv.data(), layout, begins.data(), lengths.data()}, {together.data(), rows, heads * d_v});
  for (index_t r = 0; r < rows; ++r) {
    const std::vector<float> query(q.begin() + r * heads * d_k, q.begin() + (r + 1) * heads * d_k);
    float* out = alone.data() + r % 4;  // wherever it stands in memory
    cross_attention_step<float>(Cpu{}, {heads, d_k, d_v, 0.2}, {query.data(), 1, heads * d_k},
                                {kv.data(), layout, begins.data() + r, lengths.data() + r}, {out, 1, heads * d_v});
    REQUIRE(std::equal(out, out + heads * d_v, together.begin() + r * heads * d_v));
  }
}

TEST_CASE("SelfCache keeps large scores finite", "[cache]") {
  SelfCache<float> cache(1, 1, 1, 1, 1);
  const float kv[2][2] = {{300, 1}, {-300, 2}}, q = 100;
  float out = 0;
  for (const auto& row : kv) {
    cache.begin_step();
    cache.append(0, {row, 1, 2});
    cache.attend(0, 1, {&q, 1, 1}, {&out, 1, 1});
  }
  REQUIRE(out == 1);
}

TEST_CASE("SelfCache refuses calls out of order and rows that do not exist", "[cache]") {
  SelfCache<float> cache(2, 2, 1, 2, 2);
  const Tensor<float> kv({2, 4}, 1.0f), q({2, 2}, 1.0f), out({2, 2});
  REQUIRE_THROWS_AS(cache.append(0, as_rows(kv)), Error);
  REQUIRE_THROWS_AS(cache.attend(0, 1, as_rows(q), as_rows(out)), Error);
  cache.begin_step();
  REQUIRE_THROWS_AS(cache.attend(0, 1, as_rows(q), as_rows(out)), Error);
  REQUIRE_THROWS_WITH(cache.append(0, as_rows(q)), "SelfCache: append is given [2, 2], expected [2, 4]");
  cache.append(0, as_rows(kv));
  REQUIRE_THROWS_WITH(cache.attend(0, 1, as_rows(kv), as_rows(out)), "SelfCache: attend is given [2, 4], expected [2, 2]");
  REQUIRE_THROWS_AS(cache.append(0, as_rows(kv)), Error);
  REQUIRE_THROWS_AS(cache.append(2, as_rows(kv)), IndexError);
  REQUIRE_THROWS_AS(cache.begin_step(), Error);
  cache.append(1, as_rows(kv));
  REQUIRE_THROWS_WITH(cache.reorder(std::vector<index_t>{0, 2}), "SelfCache: reorder takes row 2 of 2");
  REQUIRE_THROWS_AS(cache.reorder(std::vector<index_t>{-1}), IndexError);
  REQUIRE(cache.rows() == 2);
  REQUIRE_THROWS_AS(SelfCache<float>(1, 1, 0, 2, 2), ValueError);
  REQUIRE_THROWS_AS(SelfCache<float>(1, -1, 1, 2, 2), ValueError);
}
