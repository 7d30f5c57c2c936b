#include <algorithm>

#include "attend/cuda.hpp"
#include "attend/ops/residual.hpp"
#include "rows.hpp"

using namespace attend;
using kernels::NormOfRows;
using kernels::NormStatistics;

namespace {

struct Size {
  index_t rows, width;
};
// Each kernel: rows of a warp and of a block, in packs and one by one, of every length of registers.
const std::vector<Size> sizes{{0, 0},    {0, 8},    {3, 1},    {2, 7},    {75, 16},   {9, 64},   {3, 256}, {2, 320},
                              {13, 512}, {2, 1000}, {2, 1001}, {2, 1024}, {11, 1032}, {1, 2047}, {1, 4104}};
const std::vector<NormLayout> kinds{{},
                                    {.eps = 1e-3, .sample_deviation = true},
                                    {.scalar_affine = true},
                                    {.eps = 1e-3, .sample_deviation = true, .scalar_affine = true},
                                    {.kind = NormKind::rms},
                                    {.kind = NormKind::rms, .eps = 1e-3, .scalar_affine = true}};

std::string text(const NormLayout& norm, index_t rows, index_t offset) {
  return std::to_string(rows) + " rows of " + std::to_string(norm.width) + ", offset " + std::to_string(offset) +
         (norm.kind == NormKind::rms ? ", rms" : "") + (norm.sample_deviation ? ", sample deviation" : "") +
         (norm.scalar_affine ? ", scalar" : "");
}

/// Runs body(norm, rows, offset) for all sizes, with every kind where rows are short and one or the other where they are long.
template <class F>
void for_all(F&& body) {
  std::size_t number = 0;
  for (const Size size : sizes)
    for (const index_t offset : {0, 1})
      for (std::size_t kind = 0; kind < kinds.size(); ++kind, ++number) {
        NormLayout norm = kinds[kind];
        norm.width = size.width;
        if (size.rows > 20 && offset > 0) continue;                                                       // to save time
        const bool one_value = norm.width == 1 && (norm.sample_deviation || norm.kind == NormKind::rms);  // all cancels there
        if (one_value || (norm.width > 64 && kind != number / kinds.size() % kinds.size())) continue;
        INFO(text(norm, size.rows, offset));
        body(norm, size.rows, offset);
      }
}

template <class T>
struct AffineWeights {
  Tensor<Wide<T>> gamma, beta;
  explicit AffineWeights(const NormLayout& norm)
      : gamma(device::representable<T>({norm.scalar_affine ? 1 : norm.width}, 1)),
        beta(device::representable<T>({norm.scalar_affine ? 1 : norm.width}, 2)) {}
};

template <class T>
constexpr double statistics = device::tolerance<Wide<T>>;
// Sums over rows, of numbers of either sign.
template <class T>
constexpr double sums = device::tolerance<T> * 4;

/// The size of what cancels in dx: all of it where a row is one number, and a device that rounds a product and a difference once
/// leaves the product's rounding.
template <class W>
double cancelling(const NormLayout& norm, const Tensor<W>& rstd) {
  if (norm.width != 1) return 0;
  double largest = 0;
  for (const W x : rstd.span()) largest = std::max(largest, static_cast<double>(x));
  return largest;
}

}  // namespace

TEMPLATE_TEST_CASE("cuda: layer_norm_forward is the processor's", "[cuda]", float, double, bfloat16) {
  if (!device::present()) return;
  using T = TestType;
  using W = Wide<T>;
  for_all([](const NormLayout& norm, index_t rows, index_t offset) {
    const AffineWeights<T> affine(norm);
    const auto x = device::representable<T>({rows, norm.width}, 3);
    const Tensor<W> y(x.shape()), mean({rows}), rstd({rows});
    const NormOfRows<W> of{norm, rows, affine.gamma.data(), affine.beta.data()};
    const NormStatistics<W> kept{mean.data(), rstd.data()};
    layer_norm_forward(Cpu{}, of, x.data(), y.data(), kept);

    const auto dx = device::upload<T>(x, offset), gamma = device::upload<T>(affine.gamma), beta = device::upload<T>(affine.beta);
    const auto dy = device::placed<T>(x.shape(), offset);
    const Tensor<W, Cuda> dmean({rows}), drstd({rows});
    const NormOfRows<T> on_device{norm, rows, gamma.data(), beta.data()};
    layer_norm_forward(Cuda{}, on_device, dx.data(), dy.data(), {dmean.data(), drstd.data()});
    REQUIRE(device::difference(dmean, mean, statistics<T>) == "");
    REQUIRE(device::difference(drstd, rstd, statistics<T>) == "");
    REQUIRE(device::difference(dy, y) == "");
  });
}

TEST_CASE("cuda: layer_norm_forward takes the mean out before it squares", "[cuda]") {
  if (!device::present()) return;
  for (const index_t width : {64, 65, 1032, 1031}) {
    const NormLayout norm{.width = width};
    const Tensor<float> x({1, width}), ones({width}, 1.0f), zeros({width}, 0.0f);
    for (index_t i = 0; i < width; ++i) x.data()[i] = i % 2 == 0 ? 10000.0f : 10001.0f;
    const auto dx = device::upload<float>(x), gamma = device::upload<float>(ones), beta = device::upload<float>(zeros);
    const Tensor<float, Cuda> y(x.shape()), mean({1}), rstd({1});
    layer_norm_forward(Cuda{}, NormOfRows<float>{norm, 1, gamma.data(), beta.data()}, dx.data(), y.data(),
                       {mean.data(), rstd.data()});
    REQUIRE(rstd.item() == Approx(2).epsilon(0.01));
  }
}

TEMPLATE_TEST_CASE("cuda: layer_norm_backward is the processor's", "[cuda]", float, double, bfloat16) {
  if (!device::present()) return;
  using T = TestType;
  using W = Wide<T>;
  for_all([](const NormLayout& norm, index_t rows, index_t offset) {
    const AffineWeights<T> affine(norm);
    const auto x = device::representable<T>({rows, norm.width}, 3), dy = device::representable<T>(x.shape(), 4);
    const auto old_dx = device::representable<T>(x.shape(), 5), old = device::representable<T>(affine.gamma.shape(), 6);
    const Tensor<W> y(x.shape()), mean({rows}), rstd({rows});
    const NormOfRows<W> of{norm, rows, affine.gamma.data(), affine.beta.data()};
    const NormStatistics<W> kept{mean.data(), rstd.data()};
    layer_norm_forward(Cpu{}, of, x.data(), y.data(), kept);
    const auto device_x = device::upload<T>(x, offset), device_dy = device::upload<T>(dy, offset),
               device_gamma = device::upload<T>(affine.gamma);
    const auto device_mean = device::upload<W>(mean), device_rstd = device::upload<W>(rstd);
    const NormOfRows<T> on_device{norm, rows, device_gamma.data(), nullptr};
    const NormStatistics<T> device_kept{device_mean.data(), device_rstd.data()};
    for (const bool add : {false, true}) {
      const auto dx = old_dx.clone(), dgamma = old.clone(), dbeta = old.clone();
      layer_norm_backward(Cpu{}, of, dy.data(), x.data(), kept, {{dx.data(), add}, {dgamma.data(), !add}, {dbeta.data(), add}});
      const auto got_dx = device::before<T>(old_dx, add, offset), got_dgamma = device::before<T>(old, !add),
                 got_dbeta = device::before<T>(old, add);
      layer_norm_backward(Cuda{}, on_device, device_dy.data(), device_x.data(), device_kept,
                          {{got_dx.data(), add}, {got_dgamma.data(), !add}, {got_dbeta.data(), add}});
      REQUIRE(device::difference(got_dx, dx, device::tolerance<T>, cancelling(norm, rstd)) == "");
      REQUIRE(device::difference(got_dgamma, dgamma, sums<T> * (norm.scalar_affine ? 16 : 1)) == "");
      REQUIRE(device::difference(got_dbeta, dbeta, sums<T>) == "");

      // What is not asked for is not written, and the rest is the same.
      const auto alone = device::before<T>(old_dx, add, offset), alone_dgamma = device::before<T>(old, !add);
      layer_norm_backward(Cuda{}, on_device, device_dy.data(), device_x.data(), device_kept, {.x = {alone.data(), add}});
      REQUIRE(device::difference(alone, device::converted<W>(got_dx.to_host()), 0) == "");
      layer_norm_backward(Cuda{}, on_device, device_dy.data(), device_x.data(), device_kept,
                          {.gamma = {alone_dgamma.data(), !add}});
      REQUIRE(device::difference(alone_dgamma, device::converted<W>(got_dgamma.to_host()), 0) == "");
    }
  });
}

TEMPLATE_TEST_CASE("cuda: add_dropout_norm is the processor's", "[cuda]", float, double, bfloat16) {
  if (!device::present()) return;
  using T = TestType;
  using W = Wide<T>;
  const DropoutMask drops{Generator::Stream{7, (std::uint64_t{3} << 32) + 5}, 1u << 30, 4.0 / 3}, nothing{};
  for_all([&](const NormLayout& norm, index_t rows, index_t offset) {
    const AffineWeights<T> affine(norm);
    const auto x = device::representable<T>({rows, norm.width}, 3), branch = device::representable<T>(x.shape(), 4),
               dy = device::representable<T>(x.shape(), 5), old = device::representable<T>(affine.gamma.shape(), 6);
    const auto device_x = device::upload<T>(x, offset), device_branch = device::upload<T>(branch, offset),
               device_dy = device::upload<T>(dy, offset), device_gamma = device::upload<T>(affine.gamma),
               device_beta = device::upload<T>(affine.beta);
    for (const DropoutMask& mask : {drops, nothing}) {
      Tensor<W> sum(x.shape()), y(x.shape()), mean({rows}), rstd({rows});
      const NormOfRows<W> of{norm, rows, affine.gamma.data(), affine.beta.data()};
      add_dropout_norm_forward(Cpu{}, of, {mask, x.data(), branch.data(), sum.data()}, y.data(),
                               NormStatistics<W>{mean.data(), rstd.data()});
      const auto got_sum = device::placed<T>(x.shape(), offset), got_y = device::placed<T>(x.shape(), offset);
      const Tensor<W, Cuda> got_mean({rows}), got_rstd({rows});
      const NormOfRows<T> on_device{norm, rows, device_gamma.data(), device_beta.data()};
      const NormStatistics<T> kept{got_mean.data(), got_rstd.data()};
      add_dropout_norm_forward(Cuda{}, on_device, {mask, device_x.data(), device_branch.data(), got_sum.data()}, got_y.data(),
                               kept);
      REQUIRE(device::difference(got_sum, sum) == "");
      REQUIRE(device::difference(got_y, y) == "");
      REQUIRE(device::difference(got_mean, mean, statistics<T> * (sizeof(T) == 2 ? 1000 : 1)) == "");
      REQUIRE(device::difference(got_rstd, rstd, statistics<T> * (sizeof(T) == 2 ? 1000 : 1)) == "");

      // From the sum that the device has stored.
      sum = device::converted<W>(got_sum.to_host());
      mean = got_mean.to_host(), rstd = got_rstd.to_host();
      const Tensor<W> dsum(x.shape()), dbranch(x.shape()), dgamma = old.clone(), dbeta = old.clone();
      add_dropout_norm_backward(Cpu{}, of, dy.data(), sum.data(), NormStatistics<W>{mean.data(), rstd.data()},
                                {{{dsum.data()}, {dgamma.data(), true}, {dbeta.data()}}, mask, dbranch.data()});
      const auto got_dsum = device::before<T>(x, 0, offset), got_dbranch = device::before<T>(x, 0, offset),
                 got_dgamma = device::before<T>(old, 1), got_dbeta = device::before<T>(old, 0);
      const auto backward = [&](const kernels::NormGradients<T>& gradients, T* dbranch_or_null) {
        add_dropout_norm_backward(Cuda{}, on_device, device_dy.data(), got_sum.data(), kept, {gradients, mask, dbranch_or_null});
      };
      backward({{got_dsum.data()}, {got_dgamma.data(), true}, {got_dbeta.data()}}, got_dbranch.data());
      REQUIRE(device::difference(got_dsum, dsum, device::tolerance<T>, cancelling(norm, rstd)) == "");
      REQUIRE(device::difference(got_dbranch, dbranch, device::tolerance<T>, cancelling(norm, rstd)) == "");
      REQUIRE(device::difference(got_dgamma, dgamma, sums<T> * (norm.scalar_affine ? 16 : 1)) == "");
      REQUIRE(device::difference(got_dbeta, dbeta, sums<T>) == "");

      // What is added to a gradient of the sum is what layer norm adds, and what the branch gets is the mask's part of both.
      const auto norm_alone = device::before<T>(dy, 1, offset), added = device::before<T>(dy, 1, offset),
                 masked = device::before<T>(x, 0, offset), expected_masked = device::placed<T>(x.shape(), offset);
      layer_norm_backward(Cuda{}, on_device, device_dy.data(), got_sum.data(), kept, {.x = {norm_alone.data(), true}});
      backward({.x = {added.data(), true}}, masked.data());
      dropout_apply<T>(Cuda{}, x.size(), mask, added.data(), {expected_masked.data()});
      REQUIRE(device::difference(added, device::converted<W>(norm_alone.to_host())) == "");
      REQUIRE(device::difference(masked, device::converted<W>(expected_masked.to_host()), 0) == "");

      const auto alone = device::before<T>(x, 0, offset);
      backward({.x = {alone.data()}}, nullptr);
      REQUIRE(device::difference(alone, device::converted<W>(got_dsum.to_host()), 0) == "");
    }
  });
}

TEMPLATE_TEST_CASE("cuda: add_dropout_and_norm is the processor's, whatever of it is read", "[cuda]", float, double, bfloat16) {
  if (!device::present()) return;
  using T = TestType;
  const index_t rows = 9, width = 40;
  const auto x = device::random<T>({rows, width}, 1), branch = device::random<T>({rows, width}, 2),
             gamma = device::random<T>({width}, 3), beta = device::random<T>({width}, 4), dy = device::random<T>(x.shape(), 5);
  for (const double p : {0.0, 0.3})
    for (const int read : {0, 1, 2}) {  // the sum, the norm, both
      INFO("p " << p << ", read " << read);
      const auto run = [&](const auto& in, const auto& seed) {
        Generator generator(4);
        const auto both = add_dropout_and_norm(in[0], in[1], p, {in[2], in[3]}, generator);
        const auto y = read == 0 ? both.sum : read == 1 ? both.norm : both.sum * both.norm;
        y.backward(seed);
        return y;
      };
      std::vector<Var<double>> here;
      std::vector<Var<T, Cuda>> there;
      for (const auto& numbers : {x, branch, gamma, beta})
        here.emplace_back(device::converted<double>(numbers), true), there.emplace_back(numbers.template to<Cuda>(), true);
      const auto expected = run(here, device::converted<double>(dy));
      const auto got = run(there, dy.template to<Cuda>());
      CHECK(device::difference(got.value(), expected.value()) == "");
      for (std::size_t i = 0; i < here.size(); ++i)
        if (!here[i].grad().empty()) CHECK(device::difference(there[i].grad(), here[i].grad(), sums<T>) == "");
    }
}

TEST_CASE("cuda: layer_norm gives the same bits each time", "[cuda]") {
  if (!device::present()) return;
  const NormLayout norm{.width = 512};
  const index_t rows = 60;
  const auto x = device::upload<float>(device::random<float>({rows, 512}, 1)),
             dy = device::upload<float>(device::random<float>({rows, 512}, 2));
  const Tensor<float, Cuda> ones({512}, 1.0f), y(x.shape()), mean({rows}), rstd({rows});
  const NormOfRows<float> of{norm, rows, ones.data(), ones.data()};
  const NormStatistics<float> kept{mean.data(), rstd.data()};
  layer_norm_forward(Cuda{}, of, x.data(), y.data(), kept);
  std::vector<float> first;
  for (int run = 0; run < 2; ++run) {
    const Tensor<float, Cuda> dx(x.shape()), dgamma({512}), dbeta({512});
    layer_norm_backward(Cuda{}, of, dy.data(), x.data(), kept, {{dx.data()}, {dgamma.data()}, {dbeta.data()}});
    auto all = dx.values();
    for (const auto& part : {dgamma.values(), dbeta.values()}) all.insert(all.end(), part.begin(), part.end());
    if (run == 0) first = all;
    REQUIRE(all == first);
  }
}
