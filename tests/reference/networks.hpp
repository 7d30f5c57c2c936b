#pragma once

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "attend/io/state.hpp"
#include "attend/nn/dense.hpp"
#include "attend/nn/transformer.hpp"
#include "reference.hpp"
#include "temporary_folder.hpp"

/// Networks built, filled and compared from a reference case.
namespace reference {

/// Loads the case's parameters by way of a file, as a user loads a checkpoint. Those whose names `wanted` refuses stay out of it.
template <class M>
void load(const M& model, const Case& c, const std::function<bool(const std::string&)>& wanted = {}) {
  const TemporaryFolder folder;
  attend::io::SafetensorsWriter writer;
  for (const auto& name : c.names("param."))
    if (!wanted || wanted(name)) attend::io::add_tensor(writer, name, c.tensor<double>("param." + name));
  writer.write(folder / "model.safetensors");
  attend::io::load_state(model, attend::io::SafetensorsFile::open(folder / "model.safetensors"));
}

/// Holds the gradient of every stored tensor of the model to the case's, and sees that the case has no other.
template <class M>
void check_gradients(const M& model, const Case& c, std::set<std::string> others = {}) {
  for (const auto& t : attend::nn::state(model)) {
    c.check("grad." + t.name, t.grad());
    others.insert(t.name);
  }
  for (const auto& name : c.names("grad.")) {
    INFO("the model has no " << name);
    CHECK(others.contains(name));
  }
}

/// The options by which a case's network is built.
inline attend::nn::StackOptions stack_options(const Case& c, const std::string& side) {
  using namespace attend;
  const auto& file = c.file();
  const auto has = [&](const std::string& key) { return file.metadata().contains(key); };
  const auto size = [&](const std::string& key) { return c.integer(has(side + "_" + key) ? side + "_" + key : key); };
  const auto embedding = "param." + side + ".embed_tokens.weight";
  nn::StackOptions o{.d_model = c.integer("d_model"),
                     .heads = size("heads"),
                     .d_ff = size("d_ff"),
                     .activation = c.text("activation") == "gelu" ? Activation::gelu : Activation::relu,
                     .norm_order = c.text("norm") == "pre" ? nn::NormOrder::pre : nn::NormOrder::post,
                     .final_norm = has("final_norm") && c.flag("final_norm"),
                     .attention_bias = !has("qkv_bias") || c.flag("qkv_bias")};
  if (has("layers") || has(side + "_layers")) o.layers = size("layers");
  if (has("d_k")) o.d_k = c.integer("d_k");
  if (has("scale_embedding")) o.scale_embedding = c.flag("scale_embedding");
  if (has("causal")) o.causal = c.flag("causal");
  if (has("cross_attentions")) o.cross_attentions = c.integer("cross_attentions");
  if (has("base")) o.position_base = c.number("base");
  else o.positions = nn::PositionKind::none;
  if (c.has(embedding)) o.vocabulary = file.info(embedding).shape[0];
  if (has("layer_norm")) {  // such as "sample std, scalar affine, eps 1e-6"
    const std::string kind = c.text("layer_norm");
    o.norm.sample_deviation = kind.find("sample std") != std::string::npos;
    o.norm.scalar_affine = kind.find("scalar affine") != std::string::npos;
    o.norm.eps = std::stod(kind.substr(kind.find("eps ") + 4));
  }
  return o;
}

inline attend::nn::ModelOptions model_options(const Case& c) {
  attend::nn::ModelOptions o{.encoder = stack_options(c, "encoder"),
                             .decoder = stack_options(c, "decoder"),
                             .share_embeddings = !c.has("param.decoder.embed_tokens.weight"),
                             .tie_head = !c.has("param.lm_head.weight"),
                             .head_bias = c.has("param.lm_head.bias")};
  if (o.share_embeddings) o.decoder.vocabulary = o.encoder.vocabulary;
  o.encoder.max_length = c.file().info("input.src").shape[1];
  o.decoder.max_length = c.file().info("input.tgt").shape[1];
  return o;
}

/// The case's sentences and masks.
inline attend::nn::DenseBatch batch(const Case& c) {
  attend::nn::DenseBatch d{.source = c.tokens("src"), .target = c.tokens("tgt"), .labels = c.tokens("labels")};
  if (c.has("input.src_mask")) d.source_mask = c.mask("src_mask");
  if (c.has("input.tgt_mask")) d.target_mask = c.mask("tgt_mask");
  return d;
}

/// A whole encoder-decoder: outputs at all positions of the dense batch; then the rows that are no padding alone. Loss and
/// gradients both ways, and by the loss that never holds all logits.
template <class T>
void check_transformer(const std::string& name, attend::nn::Output output = attend::nn::Output::logits) {
  using namespace attend;
  const Case c(name);
  auto options = model_options(c);
  options.output = output;
  nn::Transformer<T, Where> model(options);
  load(model, c);
  const auto dense = batch(c);
  const CrossEntropyOptions how{.smoothing = c.number("label_smoothing"),
                                .ignore_index = static_cast<token_t>(c.integer("ignore_index"))};
  const std::string special = output == nn::Output::log_probabilities ? "output.log_probs"
                              : output == nn::Output::probabilities   ? "output.probs"
                                                                      : "output.logits";
  for (const bool ragged : {false, true}) {
    INFO((ragged ? "ragged" : "dense"));
    const auto b = (ragged ? nn::ragged_batch(dense) : nn::dense_batch(dense)).template to<Where>();
    const auto check = [&](const std::string& key, const Var<T, Where>& got, bool of_source) {
      const auto& tokens = of_source ? dense.source : dense.target;
      const auto padded = nn::dense_segments(tokens.dim(0), tokens.dim(1), of_source ? dense.source_mask : dense.target_mask);
      const auto expected = c.tensor<double>(key);
      const auto real = ragged ? nn::drop_padding(expected, padded) : expected.reshape(got.shape());
      INFO(name << ", " << key << ", " << type_name<T>);
      CHECK(difference(got.value(), real) == "");
    };
    const auto memory = model.encode(b.source, b.source_segments);
    check("output.memory", memory.x, true);
    const auto logits = model.logits(model.decode(b.target, b.target_segments, memory));
    check("output.logits", logits, false);
    check(special, model(b), false);

    nn::zero_grad(model);
    const auto loss = cross_entropy(logits, b.labels, how);
    c.template check_from<T>("output.loss", loss);
    loss.backward();
    check_gradients(model, c);

    nn::zero_grad(model);
    const auto chunked = model.loss(b, how);
    c.template check_from<T>("output.loss", chunked);
    chunked.backward();
    check_gradients(model, c);
  }
}

}  // namespace reference
