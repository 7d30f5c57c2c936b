#include "attend/cpu/vector.hpp"

#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

#include "catch.hpp"

using namespace attend;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity(), not_a_number = std::numeric_limits<float>::quiet_NaN();

/// The largest relative error of f against g over [low, high].
template <class F, class G>
double worst_error(F f, G g, float low, float high, float step) {
  double worst = 0;
  for (float x = low; x < high; x += step) {
    const double expected = g(static_cast<double>(x)), error = std::abs(static_cast<double>(f(x)) - expected);
    if (expected != 0) worst = std::max(worst, error / std::abs(expected));
  }
  return worst;
}

}  // namespace

TEST_CASE("exp in float is good to two units in the last place") {
  const auto single = [](float x) { return cpu::exp(x); };
  const auto exact = [](double x) { return std::exp(x); };
  CHECK(worst_error(single, exact, -87.0f, 88.7f, 0.001f) < 2.4e-7);
  CHECK(worst_error(single, exact, -1e-3f, 1e-3f, 1e-7f) < 1.3e-7);
  CHECK(cpu::exp(0.0f) == 1.0f);
}

TEST_CASE("exp in float of extreme numbers") {
  CHECK(cpu::exp(-infinity) == 0.0f);
  CHECK(cpu::exp(-1e30f) == 0.0f);
  CHECK(cpu::exp(-100.0f) == 0.0f);
  CHECK(cpu::exp(-88.0f) == 0.0f);
  CHECK(cpu::exp(-87.5f) == Approx(std::exp(-87.5)).epsilon(1e-6));
  CHECK(cpu::exp(88.72f) == Approx(std::exp(88.72)).epsilon(1e-5));
  CHECK(cpu::exp(88.73f) == infinity);
  CHECK(cpu::exp(1e30f) == infinity);
  CHECK(cpu::exp(infinity) == infinity);
  CHECK(std::isnan(cpu::exp(not_a_number)));
  CHECK(std::isnan(cpu::exp(-not_a_number)));
}

TEST_CASE("exp_to_88 has the bits of exp up to 88") {
  const auto bits = [](float x) { return std::bit_cast<std::uint32_t>(x); };
  const auto same = [&](float x) { return bits(cpu::exp_to_88(x)) == bits(cpu::exp(x)); };
  for (const float x : {0.0f, -0.0f, 88.0f, -87.0f, -87.336f, -87.7f, -87.9999f, -88.0f, -1e30f, -infinity}) CHECK(same(x));
  index_t wrong = 0;
  for (int i = 0; i <= 2'000'000; ++i) wrong += !same(-90.0f + 178.0f / 2e6f * static_cast<float>(i));
  CHECK(wrong == 0);
  CHECK(std::isnan(cpu::exp_to_88(not_a_number)));
  CHECK(std::isnan(cpu::exp_to_88(-not_a_number)));
}

TEST_CASE("tanh and erf in float") {
  const auto tanh = [](float x) { return cpu::tanh(x); };
  const auto erf = [](float x) { return cpu::erf(x); };
  CHECK(worst_error(
            tanh, [](double x) { return std::tanh(x); }, -10.0f, 10.0f, 0.0003f) < 4e-7);
  CHECK(worst_error(
            erf, [](double x) { return std::erf(x); }, -6.0f, 6.0f, 0.0003f) < 4e-7);
  CHECK(worst_error(
            tanh, [](double x) { return std::tanh(x); }, 1e-8f, 1e-4f, 1e-8f) < 4e-7);
  CHECK(worst_error(
            erf, [](double x) { return std::erf(x); }, 1e-8f, 1e-4f, 1e-8f) < 4e-7);
  for (const auto f : {+[](float x) { return cpu::tanh(x); }, +[](float x) { return cpu::erf(x); }}) {
    CHECK(f(0.0f) == 0.0f);
    CHECK(std::signbit(f(-0.0f)));
    CHECK(f(infinity) == 1.0f);
    CHECK(f(-infinity) == -1.0f);
    CHECK(f(1e30f) == 1.0f);
    CHECK(std::isnan(f(not_a_number)));
  }
}

TEST_CASE("select takes one of two, whatever the other is") {
  CHECK(cpu::select(true, 1.5f, not_a_number) == 1.5f);
  CHECK(cpu::select(false, not_a_number, 1.5f) == 1.5f);
  CHECK(std::isnan(cpu::select(true, not_a_number, 1.5f)));
  CHECK(cpu::select(true, 2.5, static_cast<double>(not_a_number)) == 2.5);
  CHECK(std::signbit(cpu::select(false, 1.0, -0.0)));
}

TEST_CASE("sum_over and max_over of every length") {
  for (const index_t n : {0, 1, 2, 15, 16, 17, 31, 32, 33, 1000}) {
    std::vector<double> x(static_cast<std::size_t>(n));
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>((i * 37) % 101), sum += x[i];
    const auto f = [&](index_t i) { return x[static_cast<std::size_t>(i)]; };
    CHECK(cpu::sum_over<double>(n, f) == sum);
    const double top = n == 0 ? -std::numeric_limits<double>::infinity() : *std::max_element(x.begin(), x.end());
    CHECK(cpu::max_over<double>(n, f) == top);
  }
}
