#include <attend/core/tensor.hpp>
#include <cstdio>

int main() {
  attend::Tensor<float> x({2, 3});
  std::printf("%td values\n", static_cast<std::ptrdiff_t>(x.size()));
}
