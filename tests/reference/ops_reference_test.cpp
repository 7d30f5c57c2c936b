#include <string>
#include <vector>

#include "attend/ops/activations.hpp"
#include "attend/ops/layer_norm.hpp"
#include "attend/ops/softmax.hpp"
#include "reference.hpp"

using namespace attend;
using reference::Case;
using reference::Where;

namespace {

/// A case of one input, one output and no parameters.
template <class T, class F>
void check_function(const std::string& name, F&& f) {
  const Case c("op_" + name);
  const auto x = c.leaf<T>("x");
  const Var<T, Where> y = f(x);
  c.check("output.y", y);
  c.weighted_backward(y);
  c.check("grad_input.x", x.grad());
}

}  // namespace

TEMPLATE_TEST_CASE("activations give PyTorch's values and gradients", "", REFERENCE_TYPES) {
  for (const std::string name : {"relu", "gelu", "gelu_tanh", "silu"})
    check_function<TestType>(name, [&](const auto& x) { return activate(x, from_name<Activation>("activation", name)); });
}

TEMPLATE_TEST_CASE("softmax and log-softmax give PyTorch's values and gradients", "", REFERENCE_TYPES) {
  check_function<TestType>("softmax", [](const auto& x) { return softmax(x); });
  check_function<TestType>("log_softmax", [](const auto& x) { return log_softmax(x); });
}

TEMPLATE_TEST_CASE("layer norm gives PyTorch's values and gradients", "", REFERENCE_TYPES) {
  using T = TestType;
  for (const std::string kind : {"population", "sample", "sample_scalar", "two_dims"}) {
    const Case c("op_layer_norm_" + kind);
    const bool has_options = c.file().metadata().contains("sample_std");
    LayerNormOptions options;
    if (has_options) options = {.eps = c.number("eps"), .sample_deviation = c.flag("sample_std")};
    const auto x = c.template leaf<T>("x"), weight = c.template parameter<T>("weight"), bias = c.template parameter<T>("bias");
    const auto y = layer_norm(x, weight, bias, options);
    c.check("output.y", y);
    c.weighted_backward(y);
    c.check("grad_input.x", x.grad());
    c.check("grad.weight", weight.grad());
    c.check("grad.bias", bias.grad());
  }
}
