// The kernels that go over rows: norms, softmax, cross-entropy, embedding, the best of a row.

#include <algorithm>

#include "kernels.hpp"

using namespace attend;

namespace gpu {

namespace {

/// Layer norm, alone and as it ends a sublayer, from `rows` rows of `width`.
void norms(const Bench& bench) {
  const index_t rows = bench.sizes.rows, n = bench.sizes.width;
  const double matrix = bytes_of<bfloat16>(rows * n), statistics = 2 * bytes_of<float>(rows);
  struct Arrays {
    Tensor<bfloat16, Cuda> x, y, z, u, gamma, beta, dgamma, dbeta;
    Tensor<float, Cuda> mean, rstd;
    Arrays(index_t rows, index_t n)
        : x(random_numbers<bfloat16>({rows, n})),
          y(random_numbers<bfloat16>({rows, n})),
          z(random_numbers<bfloat16>({rows, n})),
          u(random_numbers<bfloat16>({rows, n})),
          gamma(random_numbers<bfloat16>({n})),
          beta(random_numbers<bfloat16>({n})),
          dgamma(random_numbers<bfloat16>({n})),
          dbeta(random_numbers<bfloat16>({n})),
          mean({rows}),
          rstd({rows}) {
      layer_norm_forward(Cuda{}, norm(), x.data(), z.data(), kept());
    }
    [[nodiscard]] kernels::NormOfRows<bfloat16> norm() const {
      return {{.width = x.dim(1)}, x.dim(0), gamma.data(), beta.data()};
    }
    [[nodiscard]] kernels::NormStatistics<bfloat16> kept() const { return {mean.data(), rstd.data()}; }
    [[nodiscard]] kernels::NormGradients<bfloat16> gradients() const {
      return {{z.data()}, {dgamma.data(), true}, {dbeta.data(), true}};
    }
  };
  bench.measure("layer_norm", {2 * matrix + statistics}, [&] {
    return [a = Arrays(rows, n)] { layer_norm_forward(Cuda{}, a.norm(), a.x.data(), a.y.data(), a.kept()); };
  });
  bench.measure("layer_norm backward", {3 * matrix + statistics}, [&] {
    return [a = Arrays(rows, n)] { layer_norm_backward(Cuda{}, a.norm(), a.y.data(), a.x.data(), a.kept(), a.gradients()); };
  });
  bench.measure("add_dropout_norm", {4 * matrix + statistics}, [&] {
    return [=, a = Arrays(rows, n), m = mask()] {
      add_dropout_norm_forward(Cuda{}, a.norm(), {m, a.x.data(), a.y.data(), a.z.data()}, a.u.data(), a.kept());
    };
  });
  bench.measure("add_dropout_norm backward", {4 * matrix + statistics}, [&] {
    return [=, a = Arrays(rows, n), m = mask()] {
      add_dropout_norm_backward(Cuda{}, a.norm(), a.y.data(), a.x.data(), a.kept(), {a.gradients(), m, a.u.data()});
    };
  });
  const index_t hidden = bench.sizes.hidden;
  bench.measure("sum_rows", {bytes_of<bfloat16>(rows * hidden)}, [&] {
    return [=, x = random_numbers<bfloat16>({rows, hidden}), y = random_numbers<bfloat16>({hidden})] {
      sum_rows(Cuda{}, as_rows(x), kernels::Gradient{y.data(), true});
    };
  });
}

/// Words, as many as `count`, on the device; and how many different ones they are.
std::pair<Tensor<token_t, Cuda>, index_t> words(index_t count, index_t vocabulary) {
  auto tokens = Words(vocabulary).sentence(count);
  const auto all = Tensor<token_t>({count}, std::span<const token_t>(tokens)).to<Cuda>();
  std::sort(tokens.begin(), tokens.end());
  return {all, std::unique(tokens.begin(), tokens.end()) - tokens.begin()};
}

void embeddings(const Bench& bench) {
  const index_t rows = bench.sizes.rows, n = bench.sizes.width, vocabulary = bench.sizes.vocabulary;
  const auto [tokens, distinct] = words(rows, vocabulary);
  const double matrix = bytes_of<bfloat16>(rows * n), numbers = bytes_of<token_t>(rows);
  const double touched = bytes_of<bfloat16>(distinct * n);
  const auto table = [=] { return random_numbers<bfloat16>({vocabulary, n}); };
  bench.measure("embedding", {touched + matrix + numbers}, [&, &tokens = tokens] {
    return [=, weight = table(), y = random_numbers<bfloat16>({rows, n})] {
      embedding_forward(Cuda{}, {tokens.data(), rows, vocabulary}, n, 1.0f, weight.data(), y.data());
    };
  });
  bench.measure("embedding backward", {matrix + 2 * touched + numbers}, [&, &tokens = tokens] {
    return [=, dweight = table(), dy = random_numbers<bfloat16>({rows, n})] {
      embedding_backward(Cuda{}, {tokens.data(), rows, vocabulary}, n, 1.0f, dy.data(), {dweight.data(), true});
    };
  });
}

/// What looks at whole rows of logits.
void logits(const Bench& bench) {
  const index_t rows = bench.sizes.logits_rows, n = bench.sizes.vocabulary;
  const double matrix = bytes_of<bfloat16>(rows * n), wide = bytes_of<float>(rows * n);
  bench.measure("cross_entropy in place", {2 * matrix}, [&] {
    const auto labels = words(rows, n).first;
    const CrossEntropyOptions options{.smoothing = 0.1};
    const Tensor<float, Cuda> scale({1}), losses({rows});
    loss_scale(Cuda{}, {rows, n, labels.data(), options}, scale.data());
    return [=, x = random_numbers<bfloat16>({rows, n})] {
      cross_entropy_in_place(Cuda{}, {rows, n, labels.data(), options}, scale.data(), x.data(), losses.data());
    };
  });
  bench.measure("log_softmax", {matrix + wide}, [&] {
    return [=, x = random_numbers<bfloat16>({rows, n}), y = random_numbers<float>({rows, n})] {
      log_softmax_forward(Cuda{}, rows, n, x.data(), y.data());
    };
  });
  for (const index_t k : {1, 5})
    bench.measure("top_k " + std::to_string(k), {wide}, [&] {
      return [=, x = random_numbers<float>({rows, n}), y = Tensor<float, Cuda>({rows, k}),
              at = Tensor<token_t, Cuda>({rows, k})] { top_k(Cuda{}, rows, n, k, x.data(), y.data(), at.data()); };
    });
  const index_t short_rows = bench.sizes.rows, width = bench.sizes.width;
  bench.measure("softmax", {2 * bytes_of<bfloat16>(short_rows * width)}, [&] {
    return [=, x = random_numbers<bfloat16>({short_rows, width}), y = random_numbers<bfloat16>({short_rows, width})] {
      softmax_forward(Cuda{}, short_rows, width, x.data(), y.data());
    };
  });
}

}  // namespace

void rows(const Bench& bench) {
  norms(bench);
  embeddings(bench);
  logits(bench);
}

}  // namespace gpu
