#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "attend/autograd/gradcheck.hpp"
#include "attend/nn/fields.hpp"
#include "catch.hpp"

/// What the tests of modules share.
namespace test {

/// Standard normal numbers; `stream` tells one tensor from another.
template <class T = double>
attend::Tensor<T> random_tensor(const attend::Shape& shape, std::uint64_t stream) {
  const attend::Generator::Stream random{1706, stream};
  const attend::Tensor<T> x(shape);
  for (attend::index_t i = 0; i < x.size(); ++i) x.data()[i] = static_cast<T>(random.normal(static_cast<std::uint64_t>(i)));
  return x;
}
inline attend::Var<double> random_leaf(const attend::Shape& shape, std::uint64_t stream) {
  return attend::Var<double>(random_tensor(shape, stream), true);
}

/// Makes every parameter random, biases and gains too, which are constant at first.
template <class M>
void randomise(const M& model, double deviation = 0.5) {
  std::uint64_t stream = 1000;
  for (const auto& t : attend::nn::state(model)) {
    const bool gain = t.name.find("norm") != std::string::npos && t.name.ends_with("weight");
    const auto random = random_tensor<typename M::value_type>(t.value.shape(), stream++);
    for (attend::index_t i = 0; i < t.value.size(); ++i)
      t.value.data()[i] = static_cast<typename M::value_type>((gain ? 1 : 0) + deviation * random.data()[i]);
  }
}

/// Checks the gradient of f() by every parameter of the model and by the inputs. The step is short because a layer norm of few
/// features bends sharply where its input is nearly constant.
template <class M, class F>
void check_gradients(const M& model, F&& f, std::vector<attend::Var<double>> inputs = {}, attend::index_t entries = 16) {
  for (const auto& p : attend::nn::parameters(model)) inputs.push_back(p);
  const auto result = attend::gradcheck(f, inputs, {.step = 2e-4, .entries = entries});
  INFO(result.message);
  CHECK(result.passed);
}

/// The largest difference of two tensors of one shape.
template <class T>
double distance(const attend::Tensor<T>& a, const attend::Tensor<T>& b) {
  REQUIRE(a.shape() == b.shape());
  double worst = 0;
  for (attend::index_t i = 0; i < a.size(); ++i) {
    const double d = std::abs(static_cast<double>(a.data()[i]) - static_cast<double>(b.data()[i]));
    if (!(d <= worst) && !std::isnan(worst)) worst = d;  // not a number is the worst, and stays it
  }
  return worst;
}

/// The names of all that a checkpoint of the model holds.
template <class M>
std::vector<std::string> names(const M& model) {
  std::vector<std::string> list;
  for (const auto& t : attend::nn::state(model)) list.push_back(t.name);
  return list;
}

using Names = std::vector<std::string>;

}  // namespace test
