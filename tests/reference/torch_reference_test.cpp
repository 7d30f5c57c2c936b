#include "attend/io/torch.hpp"
#include "attend/nn/freeze.hpp"
#include "networks.hpp"

using namespace attend;
using reference::Case;
using reference::Where;

namespace {

io::TorchOptions torch_options(const Case& c) {
  return {.heads = c.integer("heads"),
          .norm_order = c.text("norm") == "pre" ? nn::NormOrder::pre : nn::NormOrder::post,
          .prefix = "state."};
}

/// Holds the gradient of every stored tensor to PyTorch's, where q, k and v are a third each of a packed one.
template <class T, class M>
void check_gradients(const M& model, const Case& c) {
  std::set<std::string> known;
  for (const auto& t : nn::state(model)) {
    if (!t.parameter.requires_grad()) continue;
    const std::string name = "grad." + io::torch_name(t.name);
    known.insert(name);
    auto expected = c.tensor<double>(name);
    if (t.heads > 0) {
      const index_t part = t.name.find(".q_proj.") != std::string::npos   ? 0
                           : t.name.find(".k_proj.") != std::string::npos ? 1
                                                                          : 2;
      const index_t rows = expected.dim(0) / 3;
      expected = expected.rows(part * rows, rows);
    }
    INFO(t.name << ", " << reference::type_name<T>);
    CHECK(reference::difference(t.grad(), expected, 0.25) == "");
  }
  CHECK(known.size() == c.names("grad.").size());
}

}  // namespace

TEMPLATE_TEST_CASE("torch.nn.Transformer's own state dict, with and without biases: outputs and every gradient", "",
                   REFERENCE_TYPES) {
  using T = TestType;
  const Case c("torch_state_dict" + GENERATE(std::string(), std::string("_no_bias")));
  const auto path = c.file().path();
  const auto model = io::load_torch_transformer<T, Where>(path, torch_options(c));
  const auto x = c.leaf<T>("x"), y = c.leaf<T>("y");
  const auto sources = Segments::dense(x.dim(0), x.dim(1)), targets = Segments::dense(y.dim(0), y.dim(1));
  const auto z = model(x, sources, y, targets);
  c.check("output.y", z);
  c.weighted_backward(z);
  check_gradients<T>(model, c);
  CHECK(nn::frozen_names(model).empty() == c.flag("bias"));

  // Its two stacks alone, from the same file.
  auto options = torch_options(c);
  options.prefix = "state.encoder.";
  const auto encoder = io::load_torch_encoder<T, Where>(path, options);
  options.prefix = "state.decoder.";
  const auto decoder = io::load_torch_decoder<T, Where>(path, options);
  const std::vector<nn::Memory<T, Where>> memory{{encoder(x, sources), sources}};
  c.check("output.y", decoder(y, targets, {.memories = memory}));
}
