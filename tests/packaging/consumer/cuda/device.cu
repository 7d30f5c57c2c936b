#include <attend/cuda.hpp>

int main() {
  // Without a GPU the first use of one is an error of the library's.
  try {
    attend::Tensor<float, attend::Cuda> x({2, 3});
    return x.size() == 6 ? 0 : 1;
  } catch (const attend::Error&) {
    return 0;
  }
}
