#include "attend/core/options.hpp"
#include "networks.hpp"

using namespace attend;
using reference::Case;
using reference::Where;

namespace {

nn::TransformerOptions options(const Case& c) {
  nn::TransformerOptions o{
      .vocabulary = c.integer("vocabulary"),
      .d_model = c.integer("d_model"),
      .heads = c.integer("heads"),
      .kv_heads = c.integer("kv_heads"),
      .d_k = c.integer("d_k"),
      .d_ff = c.integer("d_ff"),
      .layers = c.integer("layers"),
      .dropout = 0,
      .activation = from_name<Activation>("activation", c.text("activation")),
      .norm_order = from_name<nn::NormOrder>("norm_order", c.text("norm_order")),
      .norm = {.kind = from_name<NormKind>("norm", c.text("norm")), .eps = c.number("norm_eps"), .bias = c.flag("norm_bias")},
      .final_norm = c.flag("final_norm"),
      .bias = c.flag("bias"),
      .gated = c.flag("gated"),
      .attention_scale = c.number("attention_scale"),
      .norm_embedding = c.flag("norm_embedding"),
      .scale_embedding = c.flag("scale_embedding"),
      .positions = from_name<nn::PositionKind>("positions", c.text("positions")),
      .position_base = c.number("position_base"),
      .max_length = c.integer("max_length"),
      .tie_head = c.flag("tie"),
      .scale_head = c.flag("scale_head"),
      .head_bias = c.flag("head_bias")};
  o.position = {.offset = c.integer("offset"),
                .rotary_fraction = c.number("rotary_fraction"),
                .buckets = c.integer("buckets"),
                .max_distance = c.integer("max_distance")};
  return o;
}

Segments sentences(const Case& c, const std::string& name) {
  std::vector<index_t> lengths;
  for (const token_t n : c.tokens(name).values()) lengths.push_back(n);
  return Segments::ragged(lengths);
}

}  // namespace

// See make_stacks.py.
TEMPLATE_TEST_CASE("encoder-decoders of today's parts are PyTorch's: logits, loss and all gradients", "", REFERENCE_TYPES) {
  using T = TestType;
  for (const char* name : {"stack_t5", "stack_t5_tied", "stack_umt5", "stack_llama", "stack_rotary", "stack_bart"}) {
    INFO(name);
    const Case c(std::filesystem::path(ATTEND_REFERENCE_DEFAULT_DIR) / ".." / "stacks", name);
    const nn::Transformer<T, Where> model(options(c));
    reference::load(model, c);
    const auto batch = nn::Batch<>{c.tokens("source"), sentences(c, "source_lengths"), c.tokens("target"),
                                   sentences(c, "target_lengths"), c.tokens("labels")}
                           .template to<Where>();
    c.check("output.logits", model(batch));
    const auto loss = model.loss(batch);
    c.template check_from<T>("output.loss", loss);
    loss.backward();
    reference::check_gradients(model, c);
  }
}
