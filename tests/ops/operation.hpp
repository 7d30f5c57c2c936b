#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "attend/autograd/gradcheck.hpp"
#include "attend/autograd/var.hpp"
#include "attend/core/random.hpp"
#include "catch.hpp"
#include "with_threads.hpp"
#if defined(ATTEND_TEST_CUDA)
#include "attend/cuda.hpp"
#include "cuda/device.hpp"
#endif

/// What every operation is held to. Compiled with ATTEND_TEST_CUDA, the same tests hold the CUDA back end to the processor's
/// results in double.
namespace operation {

/// Standard normal numbers; another `stream`, others.
template <class T = double>
attend::Tensor<T> random(const attend::Shape& shape, std::uint64_t stream = 0) {
  attend::Tensor<T> x(shape);
  const attend::Generator::Stream numbers{20, stream};
  for (attend::index_t i = 0; i < x.size(); ++i) x.data()[i] = static_cast<T>(numbers.normal(static_cast<std::uint64_t>(i)));
  return x;
}

template <class T>
attend::Tensor<T> converted(const attend::Tensor<double>& x) {
  attend::Tensor<T> y(x.shape());
  for (attend::index_t i = 0; i < x.size(); ++i) y.data()[i] = static_cast<T>(x.data()[i]);
  return y;
}

/// A tensor of the test on the device where `x` is, for functions that take both.
template <class T, attend::Device D, class U>
attend::Tensor<U, D> beside(const attend::Var<T, D>& /*x*/, const attend::Tensor<U>& tensor) {
  return tensor.template to<D>();
}

/// The value of f at the inputs, and after it the gradient of each input with the output weighed at random.
template <class T, class F>
std::vector<attend::Tensor<T>> value_and_gradients(const F& f, const std::vector<attend::Tensor<double>>& inputs) {
  std::vector<attend::Var<T>> leaves;
  for (const auto& x : inputs) leaves.emplace_back(converted<T>(x), true);
  const attend::Var<T> y = f(leaves);
  std::vector<attend::Tensor<T>> results{y.value()};
  y.backward(random<T>(y.shape(), 77));
  for (const auto& x : leaves) results.push_back(x.grad());
  return results;
}

#if defined(ATTEND_TEST_CUDA)

/// f's value and its gradients on a device for numbers of type T, against the processor's in double for the same inputs.
template <class T, class F>
void check_on_device(const F& f, const std::vector<attend::Tensor<double>>& inputs) {
  std::vector<attend::Tensor<double>> rounded;
  std::vector<attend::Var<T, attend::Cuda>> leaves;
  for (const auto& x : inputs) {
    const auto narrow = converted<T>(x);
    rounded.push_back(device::converted<double>(narrow));
    leaves.emplace_back(narrow.template to<attend::Cuda>(), true);
  }
  const auto expected = value_and_gradients<double>(f, rounded);
  const auto y = f(leaves);
  using Y = typename std::remove_cvref_t<decltype(y)>::value_type;
  y.backward(random<Y>(y.shape(), 77).template to<attend::Cuda>());
  const auto compare = [](const auto& got, const attend::Tensor<double>& e, const std::string& name) {
    INFO(name << " in numbers of " << sizeof(T) << " bytes on the device");
    double largest = 1e-30;
    for (const double v : e.span()) largest = std::max(largest, std::abs(v));
    const double allowed = std::is_same_v<T, double> ? 1e-11 : std::is_same_v<T, float> ? 1e-4 : 2e-2;
    CHECK(device::difference(got, e, allowed * std::max(1.0, 1 / largest)) == "");
  };
  compare(y.value(), expected[0], "value");
  for (std::size_t k = 0; k < leaves.size(); ++k)
    compare(leaves[k].grad(), expected[k + 1], "gradient of input " + std::to_string(k));
}

template <class F>
void check(const F& f, const std::vector<attend::Tensor<double>>& inputs, const attend::GradcheckOptions& = {}) {
  if (!device::present()) return;
  check_on_device<double>(f, inputs);
  check_on_device<float>(f, inputs);
  check_on_device<attend::bfloat16>(f, inputs);
}

#else

/// Checks f, which takes a vector of Vars of float or of double and computes one Var: its gradients by differences in double;
/// its values and gradients in float by those in double; and that one thread gives the bits that three give.
template <class F>
void check(const F& f, const std::vector<attend::Tensor<double>>& inputs, const attend::GradcheckOptions& options = {}) {
  std::vector<attend::Var<double>> leaves;
  for (const auto& x : inputs) leaves.emplace_back(x.clone(), true);
  const auto gradients = attend::gradcheck([&] { return f(leaves); }, leaves, options);
  INFO(gradients.message);
  CHECK(gradients.passed);

  const auto single = value_and_gradients<float>(f, inputs);
  const auto exact = value_and_gradients<double>(f, inputs);
  const auto split = [&] {
    const WithThreads threads(3);
    return value_and_gradients<float>(f, inputs);
  }();
  const auto whole = [&] {
    const WithThreads threads(1);
    return value_and_gradients<float>(f, inputs);
  }();
  for (std::size_t k = 0; k < exact.size(); ++k) {
    const std::string name = k == 0 ? "value" : "gradient of input " + std::to_string(k - 1);
    INFO(name);
    REQUIRE(single[k].shape() == exact[k].shape());
    double largest = 1;  // a sum whose terms cancel is no more exact than its terms
    for (const double v : exact[k].span()) largest = std::max(largest, std::abs(v));
    for (attend::index_t i = 0; i < exact[k].size(); ++i) {
      const double expected = exact[k].data()[i], got = static_cast<double>(single[k].data()[i]);
      INFO("element " << i << " is " << got << ", in double " << expected);
      REQUIRE(std::abs(got - expected) <= 2e-5 * largest);
    }
    CHECK(split[k].values() == whole[k].values());
  }
}

#endif

}  // namespace operation
