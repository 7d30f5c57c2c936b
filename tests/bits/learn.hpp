#pragma once

#include <string>
#include <vector>

#include "attend/optim/adam.hpp"
#include "given.hpp"

/// A network's loss, its gradients, and where a few steps of an optimizer lead.
namespace bits {

/// Of `count` steps: the losses, and the weights after them.
template <class O, class M, class Loss>
void steps(Record& record, const std::string& name, O& optimizer, const M& model, int count, const Loss& loss) {
  std::vector<Wide<typename M::value_type>> losses;
  for (int i = 0; i < count; ++i) {
    optimizer.zero_grad();
    losses.push_back(loss(i));
    optimizer.update(optimizer.learning_rate(), 1.0);
  }
  record.add(name + "/losses", losses);
  weights(record, name, model);
}

/// loss(): a Var of one number. Its value, its gradients by weight, and three steps of Adam.
template <class M, class Loss>
void learn(Record& record, const std::string& name, const M& model, const Loss& loss) {
  using T = typename M::value_type;
  seed(21);
  const auto first = loss();
  item(record, name + "/loss", first);
  first.backward();
  gradients(record, name, model);
  optim::Adam<T, D> adam(nn::parameters(model), {.learning_rate = 1e-3});
  steps(record, name, adam, model, 3, [&](int) {
    const auto value = loss();
    value.backward();
    return value.item();
  });
}

}  // namespace bits
