#pragma once

#include <algorithm>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attend/core/number_text.hpp"
#include "attend/io/safetensors_writer.hpp"
#include "attend/marian/weights.hpp"
#include "attend/nn/fields.hpp"
#include "attend/nn/transformer.hpp"

/// A Transformer's weights as those of a Marian model.
///
/// The d_model channels of a network have no order of their own: permute the columns of the embeddings, of every matrix that
/// reads a row of d_model numbers, the rows of every matrix that writes one, and the gains and biases of the norms, and it is
/// the same function. So a model with sinusoids side by side (column 2i a sine, 2i + 1 its cosine) becomes one with the sines in
/// the first half, and the file needs no table of positions. Positions of any other kind go into the file as tables.
namespace attend::detail {

/// What of a model is rearranged for its file.
struct MarianLayout {
  io::MarianConfig config;  ///< of the exported model
  /// The tokens by their number in the file: a row of the model's embeddings, -1 for a row of zeros.
  std::vector<index_t> source_rows, target_rows;
  index_t begin_row = 0;  ///< of the model: the token that its targets begin with
  /// The embedding of `begin_row` moves to the decoder's first position, and that of `config.begin` is zero.
  bool move_begin = false;
};

/// Why a model cannot be a Marian model of `transformers`; empty where it can.
inline std::vector<std::string> marian_obstacles(const nn::ModelOptions& o) {
  std::vector<std::string> list;
  const auto check = [&](bool good, const std::string& what) {
    if (!good) list.push_back(what);
  };
  for (const auto& [s, name] :
       {std::pair{&o.encoder, std::string("the encoder")}, std::pair{&o.decoder, std::string("the decoder")}}) {
    check(s->norm_order == nn::NormOrder::post, name + " norms before its sublayers, expected after");
    check(!s->final_norm, name + " has a final norm");
    check(s->norm.kind == NormKind::layer, name + "'s norms are root mean square norms");
    check(s->norm.eps == 1e-5, name + "'s norms have eps " + number_text(s->norm.eps) + ", expected 1e-5");
    check(!s->norm.sample_deviation, name + "'s norms divide by the sample deviation");
    check(!s->norm.scalar_affine, name + "'s norms have one gain for all channels");
    check(s->norm.bias, name + "'s norms have no bias");
    check(nn::is_added(s->positions) || s->positions == nn::PositionKind::none,
          name + "'s positions are " + name_of(s->positions) + ", expected such as are added to embeddings");
    check(s->attention_scale == 0, name + "'s attention scale is " + number_text(s->attention_scale));
    check(!s->norm_embedding, name + " has a norm on its embeddings");
    check(s->kv_heads == 0 || s->kv_heads == s->heads, name + "'s keys and values have fewer heads");
    check(!s->gated, name + "'s feed-forwards are gated");
    check(s->bias, name + "'s linear layers have no biases");
    check(s->position.offset == 0, name + "'s positions have an offset");
    check(s->d_model % s->heads == 0 && (s->d_k == 0 || s->d_k * s->heads == s->d_model),
          name + "'s heads are not d_model / heads wide");
    check(s->d_v == 0 || s->d_v * s->heads == s->d_model, name + "'s heads have values that are not d_model / heads wide");
  }
  check(o.encoder.d_model == o.decoder.d_model, "encoder and decoder have other widths, " + std::to_string(o.encoder.d_model) +
                                                    " and " + std::to_string(o.decoder.d_model));
  check(o.encoder.activation == o.decoder.activation, "encoder and decoder have other activations");
  check(o.encoder.scale_embedding == o.decoder.scale_embedding, "encoder and decoder scale their embeddings differently");
  check(!o.scale_head, "what goes to the head is scaled");
  check(o.adapters.rank == 0, adapters_obstacle);
  check(o.encoder.causal != 1, "the encoder sees no later tokens");
  check(o.decoder.causal != 0, "the decoder sees later tokens");
  const index_t longest = std::max(o.encoder.max_length, o.decoder.max_length);
  for (const auto* s : {&o.encoder, &o.decoder})
    check(s->positions != nn::PositionKind::learned || s->max_length == longest,
          "learned positions are fewer than the other side's " + std::to_string(longest));
  return list;
}

/// Writes a model's tensors in the layout of a Marian file.
template <class T, Device D>
class MarianWriter {
 public:
  MarianWriter(const nn::Transformer<T, D>& model, const MarianLayout& layout, io::DType stored)
      : model_(model), layout_(layout), stored_(stored), width_(model.options.encoder.d_model) {
    const auto by_default = [](const nn::StackOptions& o) {
      return o.positions == nn::PositionKind::sinusoidal && o.position_base == 10000;
    };
    const bool permute = by_default(model.options.encoder) && by_default(model.options.decoder);
    for (index_t i = 0; i < width_; ++i) channels_.push_back(permute ? interleaved_column(i, width_, SinusoidOrder::halves) : i);
  }

  void write(const std::filesystem::path& path) {
    writer_.metadata("format", "pt");
    for (const auto& t : nn::state(model_)) {
      if (t.name == "lm_head.bias" || is_positions(t.name)) continue;
      add(t.name, t.value.to_host());
      // The library shares either all embeddings or none.
      if (t.name == "encoder.embed_tokens.weight" && model_.options.share_embeddings && !model_.options.tie_head)
        add("decoder.embed_tokens.weight", t.value.to_host());
    }
    add_missing_biases();
    add_head_bias();
    add_positions("encoder", model_.encoder.positions, model_.options.encoder, false);
    add_positions("decoder", model_.decoder.positions, model_.options.decoder, layout_.move_begin);
    writer_.write(path);
  }

 private:
  static bool ends_with(std::string_view name, std::string_view end) { return name.ends_with(end); }
  static bool is_positions(std::string_view name) { return ends_with(name, "embed_positions.weight"); }

  /// Which rows and columns of a tensor are channels, by its name.
  [[nodiscard]] bool writes_channels(std::string_view name) const {
    return ends_with(name, "out_proj.weight") || ends_with(name, "out_proj.bias") || ends_with(name, "fc2.weight") ||
           ends_with(name, "fc2.bias") || name.find("layer_norm.") != name.npos;
  }
  [[nodiscard]] bool reads_channels(std::string_view name) const {
    return !ends_with(name, "out_proj.weight") && !ends_with(name, "fc2.weight");
  }

  void add(const std::string& name, const Tensor<T, Cpu>& value) {
    const bool embedding = ends_with(name, "embed_tokens.weight"), head = name == "lm_head.weight";
    std::vector<index_t> rows;
    if (embedding || head) rows = name.starts_with("encoder") ? layout_.source_rows : layout_.target_rows;
    else if (writes_channels(name)) rows = channels_;
    else
      for (index_t i = 0; i < value.dim(0); ++i) rows.push_back(i);
    const index_t width = value.rank() == 1 ? 1 : value.dim(1);
    const bool columns = value.rank() == 2 && reads_channels(name);
    std::vector<T> out(rows.size() * static_cast<std::size_t>(width), T(0));
    for (std::size_t r = 0; r < rows.size(); ++r) {
      // A head that is tied to the embedding loses the begin token's row with it; its bias keeps the token from coming.
      const bool moved = embedding && is_moved(r);
      if (rows[r] < 0 || moved) continue;
      for (index_t c = 0; c < width; ++c)
        out[r * static_cast<std::size_t>(width) + static_cast<std::size_t>(c)] =
            value.data()[rows[r] * width + (columns ? nth(channels_, c) : c)];
    }
    const auto count = count_of(rows);
    const Shape shape = value.rank() == 1 ? Shape{count} : Shape{count, width};
    const bool shared = embedding && model_.options.share_embeddings && model_.options.tie_head;
    put(shared ? "model.shared.weight" : head ? name : "model." + name, shape, out);
  }

  [[nodiscard]] bool is_moved(std::size_t token) const {
    return layout_.move_begin && token == static_cast<std::size_t>(layout_.config.begin);
  }

  void put(const std::string& name, const Shape& shape, const std::vector<T>& values) {
    const Tensor<T, Cpu> tensor(shape, std::span<const T>(values));
    io::add_tensor(writer_, name, tensor, stored_);
  }

  /// The library's projections always have biases.
  void add_missing_biases() {
    const auto zeros = [&](const std::string& name, index_t count) {
      put("model." + name, {count}, std::vector<T>(static_cast<std::size_t>(count), T(0)));
    };
    for (const auto& t : nn::state(model_)) {
      const std::string end = "_proj.weight";
      const bool decoder = t.name.starts_with("decoder");
      if (!ends_with(t.name, end) || ends_with(t.name, "out" + end)) continue;
      if (!(decoder ? model_.options.decoder : model_.options.encoder).attention_bias)
        zeros(t.name.substr(0, t.name.size() - std::string_view("weight").size()) + "bias", t.value.dim(0));
    }
  }

  void add_head_bias() {
    std::vector<T> out(layout_.target_rows.size(), T(0));
    Tensor<T, Cpu> bias;  // empty where the head has none
    if (model_.head_bias) bias = model_.head_bias->value().to_host();
    for (std::size_t r = 0; r < out.size(); ++r) {
      const index_t row = layout_.target_rows[r];
      const bool hidden = row < 0 || (is_moved(r) && model_.options.tie_head);
      out[r] = hidden ? static_cast<T>(hidden_logit) : bias.size() > 0 ? bias.data()[row] : T(0);
    }
    put("final_logits_bias", {1, count_of(out)}, out);
  }

  /// A stack's table of positions where it is not the sinusoids that any reader computes.
  void add_positions(const char* stack, const nn::Positions<T, D>& positions, const nn::StackOptions& o, bool move_begin) {
    const index_t length = std::max(model_.options.encoder.max_length, model_.options.decoder.max_length);
    Tensor<double, Cpu> table({length, width_}, 0.0);
    bool known = false;
    if (o.positions == nn::PositionKind::learned) {
      const auto learned = positions.table.value().to_host();
      for (index_t i = 0; i < table.size(); ++i) table.data()[i] = static_cast<double>(learned.data()[i]);
    } else if (o.positions != nn::PositionKind::none) {
      const bool halves = o.positions == nn::PositionKind::sinusoidal_halves || permuted();
      known = halves && o.position_base == 10000;
      table = sinusoid<double>(length, width_, o.position_base, halves ? SinusoidOrder::halves : SinusoidOrder::interleaved);
    }
    if (known && !move_begin) return;
    if (move_begin) {
      const auto embedding = model_.decoder.embed_tokens->weight.value().to_host();
      for (index_t i = 0; i < width_; ++i)
        table.data()[i] += model_.decoder.embed_tokens->scale *
                           static_cast<double>(embedding.data()[layout_.begin_row * width_ + nth(channels_, i)]);
    }
    io::add_tensor(writer_, marian_table(stack), table, stored_);
  }
  [[nodiscard]] bool permuted() const {
    for (index_t i = 0; i < width_; ++i)
      if (nth(channels_, i) != i) return true;
    return false;
  }

  const nn::Transformer<T, D>& model_;
  const MarianLayout& layout_;
  io::DType stored_;
  index_t width_;
  std::vector<index_t> channels_;  // of the model, by their place in the file
  io::SafetensorsWriter writer_;
};

}  // namespace attend::detail
