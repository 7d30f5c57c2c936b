#include <attend/core.hpp>
#include <cstdio>

int main() {
  using namespace attend;
  nn::Linear<float> model(3, 2);
  optim::Adam<float> adam({model.weight, *model.bias}, {.learning_rate = 0.1});
  const Var<float> x(Tensor<float>({2, 3}, {1, 2, 3, -1, 0, 1}));
  const Tensor<token_t> labels({2}, {0, 1});

  float first = 0, last = 0;
  for (int step = 0; step < 20; ++step) {
    const auto loss = cross_entropy(model(x), labels);
    loss.backward();
    adam.step();
    adam.zero_grad();
    last = loss.item();
    if (step == 0) first = last;
  }
  std::printf("loss %.3f, then %.3f\n", static_cast<double>(first), static_cast<double>(last));
  return last < 0.5f * first ? 0 : 1;
}
