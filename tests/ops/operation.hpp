#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "attend/autograd/gradcheck.hpp"
#include "attend/autograd/var.hpp"
#include "attend/core/random.hpp"
#include "attend/core/threads.hpp"
#include "catch.hpp"

/// What every operation is held to.
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

/// Sets the number of threads for a scope.
class Threads {
 public:
  explicit Threads(int n) : before_(attend::threads()) { attend::set_threads(n); }
  ~Threads() { attend::set_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

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
    const Threads threads(3);
    return value_and_gradients<float>(f, inputs);
  }();
  const auto whole = [&] {
    const Threads threads(1);
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

}  // namespace operation
