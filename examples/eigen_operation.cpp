// An operation of one's own in Eigen: how much room vectors take up, by a Cholesky factorisation that the library does not have.
// A linear layer learns by it to fill all directions of what it makes from inputs that lie near a plane.

#include <Eigen/Cholesky>
#include <cmath>
#include <iostream>

#include "attend/autograd/gradcheck.hpp"
#include "attend/eigen.hpp"
#include "attend/nn/linear.hpp"
#include "attend/ops/arithmetic.hpp"
#include "attend/ops/reduce.hpp"
#include "attend/optim/adam.hpp"

using namespace attend;

/// log det(x^T x / n + 1e-3 I) of x [n, d], one number. Its gradient is 2/n x (x^T x / n + 1e-3 I)^-1.
Var<double> log_volume(const Var<double>& x) {
  const auto m = eigen::matrix(x.value());
  const double n = static_cast<double>(m.rows());
  const Eigen::LLT<Eigen::MatrixXd> factor(m.transpose() * m / n + 1e-3 * Eigen::MatrixXd::Identity(m.cols(), m.cols()));
  const double value = 2 * factor.matrixLLT().diagonal().array().log().sum();
  return record(Tensor<double>({}, {value}), {x}, [=](const Tensor<double>& dy) {
    x.accumulate(eigen::tensor(2 / n * dy.data()[0] * factor.solve(eigen::matrix(x.value()).transpose()).transpose()));
  });
}

int main() {
  seed(1);
  const index_t n = 64, d = 3;
  Tensor<double> inputs({n, d});
  for (index_t i = 0; i < n; ++i) {
    const double a = std::cos(0.7 * static_cast<double>(i)), b = std::sin(1.3 * static_cast<double>(i));
    eigen::matrix(inputs).row(i) << a, b, a + b + 0.1 * a * b;
  }

  const nn::Linear<double> model(d, d);
  const Var<double> x(inputs);
  const auto check = gradcheck([&] { return log_volume(model(x)); }, {model.weight, *model.bias});
  std::cout << (check ? "the gradients are right, to " : "the gradients are wrong: ") << check.worst << '\n';

  optim::Adam<double> adam({model.weight, *model.bias}, {.learning_rate = 0.05});
  double first = 0, last = 0;
  for (int step = 0; step < 100; ++step) {
    const auto y = model(x);
    const auto loss = mean(y * y) - log_volume(y) / 10;  // much room for vectors that are not long
    last = loss.item();
    if (step == 0) first = last;
    loss.backward();
    adam.step();
    adam.zero_grad();
  }
  std::cout << "loss " << first << ", then " << last << '\n';
  return check && last < first - 0.3 ? 0 : 1;
}
