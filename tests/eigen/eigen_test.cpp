#include "attend/eigen.hpp"

#include "attend/autograd/gradcheck.hpp"
#include "catch.hpp"

using namespace attend;

namespace {

/// x^T x, [n, d] -> [d, d].
Var<double> covariance(const Var<double>& x) {
  const auto m = eigen::matrix(x.value());
  return record(eigen::tensor(m.transpose() * m), {x}, [x](const Tensor<double>& dy) {
    const auto d = eigen::matrix(dy);
    x.accumulate(eigen::tensor(eigen::matrix(x.value()) * (d + d.transpose())));
  });
}

}  // namespace

TEST_CASE("eigen::matrix and eigen::vector look at the tensor's own numbers") {
  const Tensor<float> x({2, 2, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  const auto m = eigen::matrix(x);
  CHECK((m.rows() == 4 && m.cols() == 3));
  CHECK(m(1, 0) == 4);
  eigen::matrix(x).row(1) *= 10;
  CHECK(x(0, 1, 2) == 60);
  CHECK(eigen::vector(x).size() == 12);
  CHECK(eigen::vector(x)(5) == 60);
  CHECK(eigen::matrix(Tensor<float>({0, 3})).rows() == 0);
  CHECK_THROWS_AS(eigen::matrix(Tensor<float>(Shape{}, 1.0f)), ShapeError);
}

TEST_CASE("eigen::tensor has an expression's value and shape") {
  const Tensor<float> x({2, 3}, {1, 2, 3, 4, 5, 6});
  const auto m = eigen::matrix(x);
  CHECK(eigen::tensor(m.transpose()).shape() == Shape{3, 2});
  CHECK(eigen::tensor(m.transpose()).values() == std::vector<float>{1, 4, 2, 5, 3, 6});
  CHECK(eigen::tensor(m.colwise().sum()).shape() == Shape{3});
  CHECK(eigen::tensor(m.colwise().sum()).values() == std::vector<float>{5, 7, 9});
  CHECK(eigen::tensor(m.rowwise().maxCoeff()).values() == std::vector<float>{3, 6});
  CHECK(eigen::tensor((m.array() > 2).cast<double>()).values() == std::vector<double>{0, 0, 1, 1, 1, 1});
  CHECK(eigen::tensor(Eigen::MatrixXf(m)).values() == x.values());  // column by column in memory
}

TEST_CASE("an operation in Eigen passes gradcheck") {
  const Var<double> x(Tensor<double>({2, 3}, {-1, 0.5, 2, -3, 1, 2}), true);
  CHECK(gradcheck([&] { return covariance(x); }, {x}));
}
