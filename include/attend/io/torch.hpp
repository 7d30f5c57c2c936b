#pragma once

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attend/io/state.hpp"
#include "attend/nn/fields.hpp"
#include "attend/nn/stack.hpp"

/// Weights of torch.nn.Transformer, TransformerEncoder and TransformerDecoder, saved by
///
///     safetensors.torch.save_file(model.state_dict(), "model.safetensors")
namespace attend::io {

/// What PyTorch calls a parameter of a stack, or of several in one model: `decoder.layers.0.final_layer_norm.weight` is
/// `decoder.layers.0.norm3.weight`, and `encoder.layers.0.self_attn.q_proj.weight` the packed
/// `encoder.layers.0.self_attn.in_proj_weight`. Layers are those of a decoder if `decoder` is one of the parts of the name, or if
/// `in_decoder` says so. Other names stay as they are.
inline std::string torch_name(const std::string& name, bool in_decoder = false) {
  using Names = std::vector<std::pair<std::string_view, std::string_view>>;
  static const Names names = {{"fc1", "linear1"},
                              {"fc2", "linear2"},
                              {"encoder_attn", "multihead_attn"},
                              {"self_attn_layer_norm", "norm1"},
                              {"encoder_attn_layer_norm", "norm2"},
                              {"layer_norm", "norm"}};
  std::string result;
  for (std::size_t begin = 0, end = 0; begin <= name.size(); begin = end + 1) {
    end = std::min(name.find('.', begin), name.size());
    std::string_view part(name.data() + begin, end - begin);
    if (part == "decoder") in_decoder = true;
    if (part == "final_layer_norm") part = in_decoder ? "norm3" : "norm2";
    else if (const auto known = std::find_if(names.begin(), names.end(), [&](const auto& n) { return n.first == part; });
             known != names.end())
      part = known->second;
    if (part == "q_proj" || part == "k_proj" || part == "v_proj") {
      result += (begin > 0 ? ".in_proj_" : "in_proj_");
      begin = end + 1;
      end = std::min(name.find('.', begin), name.size());
      part = begin < name.size() ? std::string_view(name.data() + begin, end - begin) : std::string_view();
      result += part;
      continue;
    }
    result += (begin > 0 ? "." : "") + std::string(part);
  }
  return result;
}

/// What the tensors of a PyTorch model do not tell.
struct TorchOptions {
  index_t heads = 8;                               ///< `nhead`
  nn::NormOrder norm_order = nn::NormOrder::post;  ///< pre for `norm_first=True`
  Activation activation = Activation::relu;        ///< `activation`
  double norm_eps = 1e-5;                          ///< `layer_norm_eps`
  double dropout = 0.1;                            ///< `dropout`, of sublayers, attention weights and the feed-forward
  bool causal = true;                              ///< a decoder's token sees itself and those before it (`tgt_mask`)
  std::string prefix = {};                ///< of its tensors' names, such as `transformer.` if it is part of a larger module
  std::vector<std::string> ignored = {};  ///< see `LoadOptions`
};

/// A torch.nn.Transformer: vectors in, vectors out.
template <class T = float, Device D = Cpu>
struct TorchTransformer {
  using value_type = T;
  using device_type = D;
  nn::Encoder<T, D> encoder;
  nn::Decoder<T, D> decoder;

  /// x [source rows, d_model], y [target rows, d_model] -> [target rows, d_model].
  Var<T, D> operator()(const Var<T, D>& x, const Segments& sources, const Var<T, D>& y, const Segments& targets) const {
    const nn::Memory<T, D> memory{encoder(x, sources), sources};
    return decoder(y, targets, {.memories = {&memory, 1}});
  }
  template <class F>
  void fields(F&& field) {
    field("encoder", encoder);
    field("decoder", decoder);
  }
};

}  // namespace attend::io

namespace attend::detail {

/// Whether no layer under `prefix` has a bias (`bias=False`).
inline bool without_biases(const io::SafetensorsFile& file, const std::string& prefix) {
  const auto& tensors = file.tensors();
  return std::none_of(tensors.begin(), tensors.end(), [&](const io::TensorInfo& t) {
    return t.name.starts_with(prefix + "layers.") && t.name.ends_with("bias");
  });
}

/// The sizes of a stack, from the shapes of its tensors. Throws FormatError if they are not there.
inline nn::StackOptions torch_stack(const io::SafetensorsFile& file, const std::string& prefix, const io::TorchOptions& o,
                                    nn::StackKind kind) {
  const auto shape_of = [&](index_t layer, const std::string& name) {
    const std::string whole = prefix + "layers." + std::to_string(layer) + "." + name;
    if (!file.contains(whole))
      throw FormatError("load: ", file.path().string(), " has no ", whole,
                        ", expected the state of a torch.nn.Transformer or of one of its stacks under that prefix");
    return file.info(whole).shape;
  };
  const auto check = [&](index_t layer, const std::string& name, bool fits, const std::string& expected) {
    if (!fits)
      throw FormatError("load: ", file.path().string(), ": ", prefix, "layers.", layer, ".", name, " has shape ",
                        shape_of(layer, name).text(), ", expected ", expected);
  };
  const auto check_is = [&](index_t layer, const std::string& name, const Shape& expected) {
    check(layer, name, shape_of(layer, name) == expected, expected.text());
  };
  const Shape ff = shape_of(0, "linear1.weight");
  check(0, "linear1.weight", ff.rank() == 2 && ff.size() > 0, "[dim_feedforward, d_model]");
  nn::StackOptions stack{.d_model = ff[1],
                         .heads = o.heads,
                         .d_ff = ff[0],
                         .layers = 1,
                         .activation = o.activation,
                         .norm_order = o.norm_order,
                         .norm = {.eps = o.norm_eps},
                         .final_norm = file.contains(prefix + "norm.weight"),
                         .attention_bias = !without_biases(file, prefix),
                         .positions = nn::PositionKind::none,
                         .causal = kind == nn::StackKind::decoder && o.causal};
  while (file.contains(prefix + "layers." + std::to_string(stack.layers) + ".linear1.weight")) ++stack.layers;
  for (index_t i = 0; i < stack.layers; ++i) {  // so that what is built from these sizes is no larger than the file
    check_is(i, "linear1.weight", ff);
    check_is(i, "self_attn.in_proj_weight", {3 * ff[1], ff[1]});
  }
  stack.dropout.attention = stack.dropout.activation = stack.dropout.residual = o.dropout;
  return stack;
}

/// Fills a model that was built from the file's own sizes. Biases that the file may lack, and does lack, stay zero.
template <class M>
void load_torch_state(M& model, const io::SafetensorsFile& file, const io::TorchOptions& o, bool decoder,
                      const std::vector<std::string>& absent) {
  const auto rename = [=](const std::string& name) { return io::torch_name(name, decoder); };
  io::load_state(model, file, {.rename = rename, .prefix = o.prefix, .absent = absent, .ignored = o.ignored, .map = true});
  for (const auto& t : nn::state(model))
    if (matches_any(absent, t.name) && !file.contains(o.prefix + rename(t.name))) t.parameter.set_requires_grad(false);
  nn::set_training(model, false);
}

/// The patterns of biases that a stack's file may lack: those of all biases if its layers have none.
inline std::vector<std::string> absent_biases(const nn::StackOptions& stack, const char* pattern) {
  return stack.attention_bias ? std::vector<std::string>{} : std::vector<std::string>{pattern};
}

}  // namespace attend::detail

namespace attend::io {

/// The torch.nn.Transformer whose state the file at `path` holds in any floating-point type, with sizes taken from its tensors.
/// It is in evaluation mode.
///
/// A stack whose layers are without biases (`bias=False`) gets biases of zero, which compute the same and are frozen (see
/// `nn::freeze`), so that training on keeps them zero.
/// Throws FormatError that lists what is missing, unexpected or of another shape, by the names in the file; ValueError for
/// options that are out of range or do not fit the sizes; IoError.
///
///     const auto model = io::load_torch_transformer<float>("model.safetensors", {.heads = 8, .prefix = "transformer."});
template <class T = float, Device D = Cpu>
TorchTransformer<T, D> load_torch_transformer(const std::filesystem::path& path, const TorchOptions& options = {}) {
  const auto file = SafetensorsFile::open(path);
  const auto encoder = detail::torch_stack(file, options.prefix + "encoder.", options, nn::StackKind::encoder),
             decoder = detail::torch_stack(file, options.prefix + "decoder.", options, nn::StackKind::decoder);
  TorchTransformer<T, D> model{nn::without_initial_values<nn::Encoder<T, D>>(encoder),
                               nn::without_initial_values<nn::Decoder<T, D>>(decoder)};
  auto absent = detail::absent_biases(encoder, "encoder.*.bias");
  for (auto& pattern : detail::absent_biases(decoder, "decoder.*.bias")) absent.push_back(std::move(pattern));
  detail::load_torch_state(model, file, options, false, absent);
  return model;
}

/// The same for a TransformerEncoder of torch alone, with its final norm or without. `prefix` is that of its own names,
/// `encoder.` within a torch.nn.Transformer.
template <class T = float, Device D = Cpu>
nn::Encoder<T, D> load_torch_encoder(const std::filesystem::path& path, const TorchOptions& options = {}) {
  const auto file = SafetensorsFile::open(path);
  auto model =
      nn::without_initial_values<nn::Encoder<T, D>>(detail::torch_stack(file, options.prefix, options, nn::StackKind::encoder));
  detail::load_torch_state(model, file, options, false, detail::absent_biases(model.options, "*.bias"));
  return model;
}

/// The same for a torch.nn.TransformerDecoder alone.
template <class T = float, Device D = Cpu>
nn::Decoder<T, D> load_torch_decoder(const std::filesystem::path& path, const TorchOptions& options = {}) {
  const auto file = SafetensorsFile::open(path);
  auto model =
      nn::without_initial_values<nn::Decoder<T, D>>(detail::torch_stack(file, options.prefix, options, nn::StackKind::decoder));
  detail::load_torch_state(model, file, options, true, detail::absent_biases(model.options, "*.bias"));
  return model;
}

}  // namespace attend::io
