#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "attend/marian/config.hpp"
#include "attend/ops/packed_weights.hpp"
#include "attend/ops/positions.hpp"
#include "attend/pretrained/bart_family.hpp"
#include "attend/pretrained/weights.hpp"

/// The weights of a Marian model as the `transformers` library stores them.
///
/// Besides the parameters a file may hold the tables of positions. Usually they are the sinusoids that can be computed; if they
/// are not, they count, because `transformers` would take them. `save_marian` uses that: CTranslate2 wants a begin token whose
/// embedding is zero, so any other embedding of it is moved to row 0 of the decoder's table, a position that no other token ever
/// has.
namespace attend::detail {

/// The bias of a begin token that moved to the table of positions: its row of a head that is tied to the embedding is zero, so
/// its logit is not what it was, and this keeps it from taking part. Within the range of half-precision numbers.
inline constexpr float hidden_logit = -1e4f;

/// What a file calls a stack's table of positions.
inline std::string marian_table(const char* stack) { return std::string("model.") + stack + ".embed_positions.weight"; }

/// The rows, `first` to `last`, of a table of positions that are not the sinusoids; none if `last` is below `first`.
struct OtherRows {
  index_t first = 0, last = -1;
};

/// Where a stored table differs from the sinusoids; a table in half precision is compared to within its own precision.
template <io::TensorSource File>
OtherRows other_positions(const File& file, const std::string& name) {
  const auto table = io::read_tensor<float>(file, name);
  const index_t width = table.dim(1);
  const auto expected = sinusoid<float>(table.dim(0), width, 10000, SinusoidOrder::halves);
  const auto dtype = file.info(name).dtype;
  const float allowed = dtype == io::DType::bf16 ? 4e-3f : dtype == io::DType::f16 ? 5e-4f : 1e-5f;
  OtherRows rows;
  for (index_t i = 0; i < table.size(); ++i) {
    if (std::abs(table.data()[i] - expected.data()[i]) <= allowed) continue;
    if (rows.last < rows.first) rows.first = i / width;
    rows.last = i / width;
  }
  return rows;
}

/// Reads a Marian file for a model of these options.
template <class T, io::TensorSource File>
class MarianReader {
 public:
  MarianReader(const File& file, const io::MarianConfig& config)
      : weights_(file), file_(file), options_(config.model), begin_(config.begin) {
    read_positions("encoder", options_.encoder, false);
    read_positions("decoder", options_.decoder, true);
  }

  /// The options, with learned positions if the file's tables are not the sinusoids.
  [[nodiscard]] const nn::ModelOptions& options() const { return options_; }

  /// Gives `model`, built from `options()`, its weights. Throws FormatError with all that is wrong, `faults` first.
  template <Device D>
  void load(const nn::Transformer<T, D>& model, std::string faults) {
    weights_.load(model, std::move(faults),
                  [&](const std::string& name, const Shape& shape) { return find_bart(weights_, options_, name, shape); });
    if (begin_moved_) restore_begin(model.decoder.embed_tokens->weight);
  }

 private:
  void read_positions(const char* stack, nn::StackOptions& o, bool decoder) {
    const std::string name = marian_table(stack);
    if (!file_.contains(name)) return;
    weights_.use(name);
    if (!weights_.check_shape(name, {o.max_length, o.d_model})) return;
    const OtherRows rows = other_positions(file_, name);
    if (rows.last < rows.first) return;
    begin_moved_ = decoder && rows.last == 0 && is_begin_moved();
    if (!begin_moved_) o.positions = nn::PositionKind::learned;
  }

  /// Whether the begin token's embedding is zero and its logit of no account, as `save_marian` leaves them.
  [[nodiscard]] bool is_begin_moved() const {
    const auto row_is_zero = [&](const std::string& name) {
      const Shape shape = file_.info(name).shape;
      if (shape.rank() != 2 || begin_ >= shape[0]) return false;
      std::vector<float> row(shape[1]);
      file_.read_part(name, begin_ * shape[1], std::span(row));
      return std::all_of(row.begin(), row.end(), [](float x) { return x == 0; });
    };
    for (const auto& name : bart_names("decoder.embed_tokens.weight", options_))
      if (file_.contains(name)) {
        if (!row_is_zero(name)) return false;
        break;
      }
    if (!options_.tie_head) return true;
    if (!file_.contains("final_logits_bias")) return false;
    const auto bias = io::read_tensor<float>(file_, "final_logits_bias");
    return begin_ < bias.size() && bias.data()[begin_] <= hidden_logit / 2;
  }

  /// Brings the begin token's embedding back from row 0 of the decoder's positions.
  template <Device D>
  void restore_begin(const Var<T, D>& embedding) const {
    if constexpr (std::same_as<T, float> && std::same_as<D, Cpu>)
      if (const auto* rows = embedding.value().in_bfloat16())  // which may not hold what comes back
        embedding.set_value(converted<float>(*rows));
    const auto table = io::read_tensor<double>(file_, marian_table("decoder"));
    const index_t width = table.dim(1);
    const auto sinusoids = sinusoid<double>(1, width, 10000, SinusoidOrder::halves);
    const double scale = options_.decoder.scale_embedding ? std::sqrt(static_cast<double>(width)) : 1;
    const Tensor<T, Cpu> row({1, width});
    for (index_t i = 0; i < width; ++i) row.data()[i] = static_cast<T>((table.data()[i] - sinusoids.data()[i]) / scale);
    embedding.value().rows(begin_, 1).assign(row);
  }

  WeightsReader<T, File> weights_;
  const File& file_;
  nn::ModelOptions options_;
  token_t begin_;
  bool begin_moved_ = false;
};

}  // namespace attend::detail

namespace attend::io {

/// Builds the model of a Marian configuration with the weights of a file; it is in evaluation mode. `faults`, if any, is what
/// else is known to be wrong. Throws FormatError with all that is missing, unexpected or of another shape.
template <class T = float, Device D = Cpu, TensorSource File>
nn::Transformer<T, D> marian_model(const MarianConfig& config, const File& file, const std::string& faults = {}) {
  detail::check_memory("config.json", config.model, file);
  detail::MarianReader<T, File> reader(file, config);
  auto model = nn::without_initial_values<nn::Transformer<T, D>>(reader.options());
  reader.load(model, faults);
  nn::set_training(model, false);
  return model;
}

}  // namespace attend::io
