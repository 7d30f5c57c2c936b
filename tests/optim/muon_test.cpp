#include "attend/optim/muon.hpp"

#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "../catch.hpp"
#include "attend/core/random.hpp"
#include "attend/nn/embedding.hpp"
#include "attend/nn/hidden_matrices.hpp"
#include "attend/nn/linear.hpp"
#include "attend/nn/transformer.hpp"
#include "attend/optim/any_optimizer.hpp"
#include "with_threads.hpp"

using namespace attend;
using namespace attend::optim;
using Catch::Matchers::ContainsSubstring;

namespace {

template <class T>
Tensor<T> normal(const Shape& shape, std::uint64_t stream) {
  const Tensor<T> x(shape);
  for (index_t i = 0; i < x.size(); ++i)
    x.data()[i] = static_cast<T>(Generator::Stream{9, stream}.normal(static_cast<std::uint64_t>(i)));
  return x;
}

using Matrix = std::vector<std::vector<double>>;

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix c(a.size(), std::vector<double>(b.front().size()));
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t j = 0; j < b.front().size(); ++j)
      for (std::size_t k = 0; k < b.size(); ++k) c[i][j] += a[i][k] * b[k][j];
  return c;
}
Matrix transposed(const Matrix& a) {
  Matrix t(a.front().size(), std::vector<double>(a.size()));
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t j = 0; j < a.front().size(); ++j) t[j][i] = a[i][j];
  return t;
}

/// O(u) as the formula has it, with X^T X and X^T X X^T X on the right whatever the shape.
Matrix orthogonal(Matrix x) {
  double squares = 0;
  for (const auto& row : x)
    for (const double v : row) squares += v * v;
  for (auto& row : x)
    for (double& v : row) v /= std::sqrt(squares);
  for (int k = 0; k < 5; ++k) {
    const auto a = product(transposed(x), x), once = product(x, a), twice = product(once, a);
    for (std::size_t i = 0; i < x.size(); ++i)
      for (std::size_t j = 0; j < x.front().size(); ++j) x[i][j] = 3.4445 * x[i][j] - 4.7750 * once[i][j] + 2.0315 * twice[i][j];
  }
  return x;
}

Matrix matrix_of(const Tensor<double>& t, index_t first, index_t rows) {
  Matrix m(static_cast<std::size_t>(rows), std::vector<double>(static_cast<std::size_t>(t.dim(1))));
  for (index_t i = 0; i < rows; ++i)
    for (index_t j = 0; j < t.dim(1); ++j) m[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)] = t(first + i, j);
  return m;
}

/// A packed parameter of three matrices, [4, 6], [6, 6] and [9, 6], and a vector that is none.
template <class T>
struct Parameters {
  Var<T> packed{normal<T>({19, 6}, 1), true}, vector{normal<T>({7}, 2), true};
  [[nodiscard]] std::vector<Var<T>> all() const { return {vector, packed}; }
  [[nodiscard]] std::vector<Tensor<T>> matrices() const {
    return {packed.value().rows(0, 4), packed.value().rows(4, 6), packed.value().rows(10, 9)};
  }
};

}  // namespace

TEST_CASE("Muon: matrices against the formula, row by row of a packed one, and Adam for the rest", "[optim]") {
  const double lr = 0.05, part = 0.7, momentum = 0.9, decay = 0.1, scale = 0.5;
  const bool cautious = GENERATE(false, true);
  const Parameters<double> p;
  Muon<double> muon(
      p.all(), p.matrices(),
      {.learning_rate = lr, .matrix_rate = part, .momentum = momentum, .weight_decay = decay, .cautious = cautious});
  const Var<double> alone(normal<double>({7}, 2), true);
  AdamW<double> adam({alone}, {.learning_rate = lr, .beta2 = 0.98, .eps = 1e-9, .weight_decay = decay});

  auto w = matrix_of(p.packed.value(), 0, 19);
  Matrix v(19, std::vector<double>(6));
  for (std::uint64_t step = 0; step < 4; ++step) {
    const auto g = normal<double>({19, 6}, 10 + step), h = normal<double>({7}, 20 + step);
    muon.zero_grad(), adam.zero_grad();
    p.packed.accumulate(g.clone()), p.vector.accumulate(h.clone()), alone.accumulate(h.clone());
    REQUIRE(muon.step(lr, scale));
    REQUIRE(adam.step(lr, scale));
    for (const auto& [first, rows] : {std::pair{0, 4}, std::pair{4, 6}, std::pair{10, 9}}) {
      Matrix u = matrix_of(g, first, rows);
      for (int i = 0; i < rows; ++i)
        for (std::size_t j = 0; j < 6; ++j) {
          auto& gradient = u[static_cast<std::size_t>(i)][j];
          auto& velocity = v[static_cast<std::size_t>(first + i)][j];
          gradient *= scale;
          velocity = momentum * velocity + gradient;
          gradient += momentum * velocity;
        }
      auto o = orthogonal(u);
      double factor = 1;
      if (cautious) {
        int left = 0;
        for (int i = 0; i < rows; ++i)
          for (std::size_t j = 0; j < 6; ++j) {
            double& number = o[static_cast<std::size_t>(i)][j];
            if (number * g(first + i, static_cast<index_t>(j)) > 0) ++left;
            else number = 0;
          }
        REQUIRE(left > 0);
        REQUIRE(left < 6 * rows);
        factor = std::min(2.0, 6.0 * rows / left);
      }
      for (int i = 0; i < rows; ++i)
        for (std::size_t j = 0; j < 6; ++j) {
          auto& weight = w[static_cast<std::size_t>(first + i)][j];
          weight = (1 - part * lr * decay) * weight -
                   part * lr * 0.2 * std::sqrt(std::max(rows, 6)) * factor * o[static_cast<std::size_t>(i)][j];
        }
    }
    for (index_t i = 0; i < 19; ++i)
      for (index_t j = 0; j < 6; ++j)
        REQUIRE(p.packed.value()(i, j) == Approx(w[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)]).margin(1e-12));
    for (index_t i = 0; i < 7; ++i) REQUIRE(p.vector.data()[i] == alone.data()[i]);
  }
}

TEST_CASE("Muon: the update has singular values of about 1, whatever those of the gradient", "[optim]") {
  const Var<double> w(Tensor<double>({20, 12}, 0.0), true);
  Muon<double> muon({w}, {w.value()}, {.learning_rate = 1, .matrix_rate = 1, .weight_decay = 0, .cautious = false});
  // Rows of very different sizes: singular values from 1 to 1/400.
  auto g = normal<double>({20, 12}, 3);
  for (index_t i = 0; i < 20; ++i)
    for (index_t j = 0; j < 12; ++j) g(i, j) /= static_cast<double>((i + 1) * (i + 1));
  w.accumulate(g);
  muon.step();
  // The update is 0.2 sqrt(20) O, and |O y| is about |y| for every y.
  for (std::uint64_t k = 0; k < 20; ++k) {
    const auto y = normal<double>({12}, 50 + k);
    double in = 0, out = 0;
    for (index_t j = 0; j < 12; ++j) in += y.data()[j] * y.data()[j];
    for (index_t i = 0; i < 20; ++i) {
      double sum = 0;
      for (index_t j = 0; j < 12; ++j) sum += w.value()(i, j) * y.data()[j];
      out += sum * sum;
    }
    CHECK(std::sqrt(out / in) / (0.2 * std::sqrt(20)) == Approx(0.9).margin(0.35));
  }
}

TEST_CASE("Muon: a cautious step whose every number would go up leaves the matrix to weight decay", "[optim]") {
  const Var<double> w(Tensor<double>({3, 4}, 1.0), true);
  Muon<double> muon({w}, {w.value()}, {.learning_rate = 0.1, .matrix_rate = 1, .momentum = 0.9, .weight_decay = 0.5});
  const auto step = [&](double gradient) {
    muon.zero_grad();
    w.accumulate(Tensor<double>({3, 4}, gradient));
    muon.step();
  };
  step(1);
  const double before = w.value()(0, 0);
  CHECK(before < 1 - 0.1 * 0.5);  // down, and by more than the decay
  step(-0.1);                     // the momentum still points down, and the gradient up
  for (index_t i = 0; i < 12; ++i) CHECK(w.value().data()[i] == Approx((1 - 0.1 * 0.5) * before));
}

TEST_CASE("Muon: float is close to double, and any number of threads gives the same bits", "[optim]") {
  const auto run = [](auto zero, int count) {
    using T = decltype(zero);
    const WithThreads set(count);
    const Parameters<T> p;
    Muon<T> muon(p.all(), p.matrices());
    for (std::uint64_t step = 0; step < 3; ++step) {
      muon.zero_grad();
      p.packed.accumulate(normal<T>({19, 6}, step)), p.vector.accumulate(normal<T>({7}, 30 + step));
      muon.update(0.02, 1.0);
    }
    return p.packed.value().values();
  };
  const auto one = run(0.0f, 1), exact = std::vector<float>(one);
  const auto wide = run(0.0, 1);
  for (std::size_t i = 0; i < one.size(); ++i) CHECK(one[i] == Approx(wide[i]).margin(1e-4));
  CHECK(run(0.0f, 2) == exact);
  CHECK(run(0.0f, 3) == exact);
}

TEST_CASE("Muon: a gradient that is not finite changes nothing; the state goes on where it stood", "[optim]") {
  const Parameters<float> p, q;
  Muon<float> muon(p.all(), p.matrices()), other(q.all(), q.matrices());
  const auto step = [](const Parameters<float>& of, auto& optimizer, std::uint64_t stream) {
    optimizer.zero_grad();
    of.packed.accumulate(normal<float>({19, 6}, stream)), of.vector.accumulate(normal<float>({7}, stream));
    optimizer.update(0.01, 1);
  };
  step(p, muon, 1);
  const auto before = p.packed.value().values();
  muon.zero_grad();
  p.packed.accumulate(Tensor<float>({19, 6}, std::numeric_limits<float>::infinity()));
  muon.update(0.01, 1);
  CHECK(p.packed.value().values() == before);
  CHECK(muon.skipped() == 1);

  q.packed.value().assign(p.packed.value()), q.vector.value().assign(p.vector.value());
  other.restore(muon.state());
  step(p, muon, 2), step(q, other, 2);
  CHECK(p.packed.value().values() == q.packed.value().values());
  CHECK(p.vector.value().values() == q.vector.value().values());
}

TEST_CASE("Muon: what does not fit is refused", "[optim]") {
  const Parameters<float> p;
  CHECK_THROWS_WITH(Muon<float>(FlatParameters<float>(p.all())), ContainsSubstring("no hidden matrix is known"));
  CHECK_THROWS_WITH(
      FlatParameters<float>(p.all(), {p.packed.value().rows(0, 4)}),
      ContainsSubstring("matrices must make up the whole of a parameter, each number once: that of shape [19, 6] is not"));
  for (const auto& bad : {MuonOptions{.momentum = 1}, MuonOptions{.beta1 = -0.1}, MuonOptions{.beta2 = 1}, MuonOptions{.eps = 0},
                          MuonOptions{.weight_decay = -1}, MuonOptions{.matrix_rate = 0}, MuonOptions{.learning_rate = -1}})
    CHECK_THROWS_AS(Muon<float>(p.all(), p.matrices(), bad), ValueError);
}

TEST_CASE("hidden_matrices: every matrix between embedding and head, q, k and v apart, but no frozen one", "[optim]") {
  const nn::Transformer<float> model({.vocabulary = 9, .d_model = 8, .heads = 2, .d_ff = 12, .layers = 2});
  const auto matrices = nn::hidden_matrices(model);
  CHECK(matrices.size() == 2 * (4 + 2) + 2 * (8 + 2));
  index_t squares = 0;
  for (const auto& m : matrices) squares += m.dim(0) == 8 && m.dim(1) == 8;
  CHECK(squares == 2 * 4 + 2 * 8);
  const FlatParameters<float> flat(nn::parameters(model), matrices);
  CHECK(flat.matrices().size() == matrices.size());
  index_t in_matrices = 0, elsewhere = 0;
  for (const auto& m : flat.matrices()) in_matrices += m.rows * m.columns;
  for (const auto& part : flat.others()) elsewhere += part.size;
  CHECK(elsewhere >= flat.count() - in_matrices);
  CHECK(in_matrices + elsewhere <= flat.size());
  // The views that were named and the places in the buffer are the same numbers.
  std::multiset<float> named, placed;
  for (const auto& m : matrices) named.insert(m.data()[0]);
  for (const auto& m : flat.matrices()) placed.insert(flat.values().data()[m.begin]);
  CHECK(named == placed);

  model.encoder.layers[0].feed_forward.fc1.weight.set_requires_grad(false);
  CHECK(nn::hidden_matrices(model).size() == matrices.size() - 1);
  const nn::Embedding<float> table(5, 4);
  CHECK(nn::hidden_matrices(table).empty());
}

namespace {

/// Says a token from the one before, with one matrix to look up in and to compare with.
struct Tied {
  using value_type = float;
  using device_type = Cpu;
  nn::Embedding<float> embedding{7, 4};
  nn::Linear<float> inner{4, 4}, head{4, 7};
  template <class F>
  void fields(F&& field) {
    field("embedding", embedding);
    field("inner", inner);
    field("head", head);
  }
};

}  // namespace

TEST_CASE("hidden_matrices: not a Linear that shares its weight with an embedding", "[optim]") {
  Tied model;
  CHECK(nn::hidden_matrices(model).size() == 2);
  model.head.weight = model.embedding.weight;
  REQUIRE(nn::hidden_matrices(model).size() == 1);
  CHECK(nn::hidden_matrices(model)[0].data() == model.inner.weight.data());
}

TEST_CASE("Muon does not go on with what Adam remembers", "[optim]") {
  const nn::Linear<float> a(4, 3), b(4, 3);
  const Adam<float> adam(nn::parameters(a));
  Muon<float> muon(nn::parameters(b), nn::hidden_matrices(b));
  CHECK_THROWS_AS(muon.restore(adam.state()), ValueError);
}

TEST_CASE("FlatParameters: matrices that overlap, leave gaps or run past the end of a parameter are refused", "[optim]") {
  const Var<float> x(Tensor<float>({4, 3}), true);
  const auto rows = [&](index_t first, index_t count) { return x.value().rows(first, count); };
  CHECK_NOTHROW(FlatParameters<float>({x}, {rows(2, 2), rows(0, 2)}));
  CHECK_THROWS_AS(FlatParameters<float>({x}, {rows(0, 2), rows(0, 2)}), ValueError);
  CHECK_THROWS_AS(FlatParameters<float>({x}, {rows(0, 1), rows(2, 2)}), ValueError);
  CHECK_THROWS_AS(FlatParameters<float>({x}, {rows(0, 3), rows(1, 1)}), ValueError);
}
