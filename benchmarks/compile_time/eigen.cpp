#include <Eigen/Dense>
#include <iostream>

int main() {
  const Eigen::MatrixXf a = Eigen::MatrixXf::Random(64, 64);
  const Eigen::MatrixXf b = Eigen::MatrixXf::Random(64, 64);
  const Eigen::MatrixXf c = a * b;
  std::cout << c.norm() << '\n';
}
