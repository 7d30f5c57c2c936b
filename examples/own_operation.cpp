// An operation of one's own, twice: as a functor, and with its backward written out. Both are checked against differences.

#include <cmath>
#include <iostream>

#include "attend/autograd/gradcheck.hpp"
#include "attend/ops/map.hpp"

using namespace attend;

/// softplus(x) = log(1 + e^x), elementwise: a value and a slope are enough.
struct Softplus {
  template <class T>
  T value(T x) const {
    return std::log(1 + std::exp(x));
  }
  template <class T>
  T slope(T x) const {
    return 1 / (1 + std::exp(-x));
  }
};

/// y_i = x_i + x_(i-1), with nothing before the first: not elementwise, so its backward is spelled out.
template <class T>
Var<T> with_previous(const Var<T>& x) {
  Tensor<T> y(x.shape());
  for (index_t i = 0; i < x.size(); ++i) y.data()[i] = x.data()[i] + (i > 0 ? x.data()[i - 1] : T(0));
  return record(std::move(y), {x}, [=](const Tensor<T>& dy) {
    Tensor<T> dx(dy.shape());
    for (index_t i = 0; i < dy.size(); ++i) dx.data()[i] = dy.data()[i] + (i + 1 < dy.size() ? dy.data()[i + 1] : T(0));
    x.accumulate(dx);
  });
}

int main() {
  const Var<double> x(Tensor<double>({4}, {-1.0, 0.5, 2.0, -3.0}), true);
  const auto check = gradcheck([&] { return with_previous(map(x, Softplus{})); }, {x});
  std::cout << (check ? "the gradients are right, to " : "the gradients are wrong: ") << check.worst << '\n';
  return check ? 0 : 1;
}
