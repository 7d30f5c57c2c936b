#include "attend/cuda/elements/embedding.cuh"

#include <algorithm>

#include "rows.hpp"

using namespace attend;

namespace {

/// Tokens of which some come often, one most of the time; token 3 does not come at all.
Tensor<token_t> tokens_of(index_t n, index_t vocabulary) {
  const Tensor<token_t> tokens({n});
  const Generator::Stream numbers{7, 1};
  for (index_t i = 0; i < n; ++i) {
    const auto at = static_cast<std::uint64_t>(i);
    const double u = numbers.uniform(2 * at);
    auto token = static_cast<token_t>(numbers.below(2 * at + 1, static_cast<std::uint64_t>(vocabulary)));
    if (u < 0.4) token = static_cast<token_t>(vocabulary - 1);
    else if (u < 0.6) token = static_cast<token_t>(vocabulary / 2);
    else if (u < 0.8) token = static_cast<token_t>((vocabulary - 1) & 0xffff);  // the same lower bits
    tokens.data()[i] = token == 3 ? 0 : token;
  }
  return tokens;
}

// What the kernels are held to, in double, with every token that is outside the vocabulary left out.
Tensor<double> table_gradient(index_t vocabulary, index_t width, double scale, const Tensor<double>& dy,
                              const Tensor<token_t>& tokens) {
  const Tensor<double> dtable({vocabulary, width}, 0.0);
  for (index_t i = 0; i < tokens.size(); ++i)
    for (index_t j = 0; j < width; ++j)
      if (tokens.data()[i] >= 0 && tokens.data()[i] < vocabulary) dtable(tokens.data()[i], j) += scale * dy(i, j);
  return dtable;
}

struct Size {
  index_t n, vocabulary, width;
};
const std::vector<Size> sizes{{0, 5, 4},     {1, 5, 8},      {2, 1, 7},       {33, 6, 1},       {64, 300, 12},
                              {100, 70, 40}, {1100, 9, 264}, {3000, 256, 16}, {2500, 70000, 5}, {5000, 40, 8}};

}  // namespace

TEMPLATE_TEST_CASE("cuda: embedding_forward looks up rows", "[cuda]", float, double, bfloat16) {
  if (!device::present()) return;
  using T = TestType;
  using W = Wide<T>;
  for (const Size size : sizes)
    for (const index_t offset : {0, 1}) {
      INFO(size.n << " of " << size.vocabulary << " tokens, width " << size.width << ", offset " << offset);
      const auto tokens = tokens_of(size.n, size.vocabulary);
      const auto table = device::representable<T>({size.vocabulary, size.width}, 1);
      const Tensor<W> expected({size.n, size.width});
      for (index_t i = 0; i < size.n; ++i)
        for (index_t j = 0; j < size.width; ++j) expected(i, j) = W(1.5) * table(tokens(i), j);
      const auto device_table = device::upload<T>(table, offset);
      const auto device_tokens = tokens.template to<Cuda>();
      const auto y = device::before<T>(expected, 0, offset);
      const kernels::TokenList list{device_tokens.data(), size.n, size.vocabulary};
      CHECK(find_invalid_token(Cuda{}, list) == size.n);
      embedding_forward(Cuda{}, list, size.width, W(1.5), device_table.data(), y.data());
      CHECK(device::difference(y, expected) == "");
    }
}

TEMPLATE_TEST_CASE("cuda: embedding_backward adds up the rows of each token", "[cuda]", float, double, bfloat16) {
  if (!device::present()) return;
  using T = TestType;
  using W = Wide<T>;
  for (const Size size : sizes)
    for (const index_t offset : {0, 1}) {
      INFO(size.n << " of " << size.vocabulary << " tokens, width " << size.width << ", offset " << offset);
      auto tokens = tokens_of(size.n, size.vocabulary);
      for (index_t i = 7; i < size.n; i += 50)
        tokens.data()[i] = i % 100 == 7 ? token_t{-1} : static_cast<token_t>(size.vocabulary + i);
      const auto dy = device::representable<T>({size.n, size.width}, 1);
      const auto device_dy = device::upload<T>(dy, offset);
      const auto device_tokens = tokens.template to<Cuda>();
      const auto gradient = table_gradient(size.vocabulary, size.width, 2.5, device::converted<double>(dy), tokens);
      for (const int keep : {0, 1}) {
        if (keep == 1 && size.vocabulary > 1000 && offset == 1) continue;
        INFO("keep " << keep);
        const auto start = device::representable<T>(gradient.shape(), 2);
        const Tensor<double> expected(gradient.shape());
        for (index_t i = 0; i < gradient.size(); ++i)
          expected.data()[i] = gradient.data()[i] + keep * static_cast<double>(start.data()[i]);
        // At one width the table is aligned if and only if dy is not.
        const index_t there = size.width == 8 ? 1 - offset : offset;
        const auto dtable = device::before<T>(start, keep, there), again = device::before<T>(start, keep, there);
        const auto run = [&](const Tensor<T, Cuda>& to) {
          embedding_backward(Cuda{}, {device_tokens.data(), size.n, size.vocabulary}, size.width, W(2.5), device_dy.data(),
                             {to.data(), keep == 1});
        };
        run(dtable), run(again);
        CHECK(device::difference(dtable, expected) == "");
        CHECK(device::difference(again, device::converted<double>(dtable.to_host()), 0) == "");
      }
    }
}

TEST_CASE("cuda: embedding_forward names a token outside the vocabulary and gives a row of zeros", "[cuda]") {
  if (!device::present()) return;
  const Tensor<float> table({5, 6}, 1.0f);
  const auto device_table = table.to<Cuda>();
  for (const token_t bad : {-2, 5}) {
    const Tensor<token_t> tokens({4}, {1, 4, bad, 0});
    const auto device_tokens = tokens.to<Cuda>();
    const Tensor<float, Cuda> y({4, 6}, -1.0f);
    embedding_forward(Cuda{}, {device_tokens.data(), 4, 5}, 6, 2, device_table.data(), y.data());
    CHECK_THROWS_WITH(cuda::synchronize(),
                      "embedding: token " + std::to_string(bad) + " at position 2 is outside the vocabulary of 5");
    const auto host = y.to_host();  // and the device goes on
    for (index_t i = 0; i < 4; ++i)
      for (index_t j = 0; j < 6; ++j) CHECK(host(i, j) == (i == 2 ? 0.0f : 2.0f));
  }
}
