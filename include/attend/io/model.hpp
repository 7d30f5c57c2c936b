#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <unordered_set>

#include "attend/core/tokenizer.hpp"
#include "attend/io/config.hpp"
#include "attend/io/folder.hpp"
#include "attend/io/model_files.hpp"
#include "attend/io/state.hpp"
#include "attend/nn/quantized.hpp"
#include "attend/nn/transformer.hpp"

/// A model is a folder: `config.json`, `model.safetensors`, and where it has a tokenizer the files of that, such as
/// `tokenizer.model`.
namespace attend::io {

/// How a model is saved.
struct SaveOptions {
  /// The type of the stored numbers: f64, f32, bf16 or f16. Nothing: that of the model, and bf16 for what it holds in bfloat16
  /// (see `LoadFor`).
  std::optional<DType> stored = DType::f32;
  /// Matrices are stored as 8-bit integers with a float scale for each row, in a quarter of the room, for translation on the CPU;
  /// see nn::quantize, which says what may be made so. A model that is of 8-bit integers is stored as such in any case.
  bool quantized = false;
  /// Writes what else the folder is to have, all files or none: how the model is to be searched, say, by
  /// `decode::save_search(folder, search)`. Empty: nothing.
  std::function<void(const std::filesystem::path& folder)> more = {};
};

}  // namespace attend::io

namespace attend::detail {

/// Adds every parameter of a model once, its matrices as 8-bit integers.
template <class T, Device D>
void add_quantized_state(io::SafetensorsWriter& writer, const nn::Transformer<T, D>& model, std::optional<io::DType> stored) {
  nn::check_quantizable(model);
  std::unordered_set<const void*> matrices;
  for (const auto& p : nn::quantizable_parameters(model)) matrices.insert(p.id());
  for (const auto& t : nn::state(model))
    if (matrices.contains(t.parameter.id())) io::add_quantized(writer, t.name, nn::quantized_rows(t.name, t.value));
    else io::add_tensor(writer, t.name, t.value, stored.value_or(io::dtype_of<T>()));
}

/// Writes `config.json` and the weights.
template <class T, Device D>
void write_model_files(const std::filesystem::path& staging, const nn::Transformer<T, D>& model, const io::SaveOptions& options) {
  const bool is_quantized = nn::is_quantized(model);
  io::write_json(staging / "config.json", io::to_json(model.options, options.quantized || is_quantized));
  io::SafetensorsWriter writer;
  writer.metadata("format", "pt");  // what other programs that read safetensors look for
  if (options.quantized && !is_quantized) add_quantized_state(writer, model, options.stored);
  else io::add_state(writer, model, options.stored);
  writer.write(staging / "model.safetensors");
  if (options.more) options.more(staging);
}

/// A count without its decimals.
inline std::string whole(double count) {
  const std::string text = std::to_string(count);
  return text.substr(0, text.find('.'));
}

/// The values of a stack's matrices; biases and gains would add little. In floating point, which cannot overflow.
inline double least_parameters(const nn::StackOptions& o, bool decoder) {
  const double d_model = static_cast<double>(o.d_model), heads = static_cast<double>(o.heads);
  const double d_k = o.d_k ? static_cast<double>(o.d_k) : d_model / heads, d_v = o.d_v ? static_cast<double>(o.d_v) : d_k;
  const double kv_heads = o.kv_heads ? static_cast<double>(o.kv_heads) : heads;
  const auto attention = [&](double d_memory) { return heads * (d_k + d_v) * d_model + kv_heads * (d_k + d_v) * d_memory; };
  double layer = attention(d_model) + 2 * d_model * static_cast<double>(o.d_ff);
  if (decoder)
    layer += static_cast<double>(o.cross_attentions) * attention(o.d_memory ? static_cast<double>(o.d_memory) : d_model);
  const double positions =
      o.positions == nn::PositionKind::learned ? static_cast<double>(o.position.offset + o.max_length) * d_model : 0;
  return static_cast<double>(o.layers) * layer + positions;
}

/// The same of a whole model, with its embeddings and its head.
inline double least_parameters(const nn::ModelOptions& o) {
  const auto embedding = [](const nn::StackOptions& s) {
    return static_cast<double>(s.vocabulary) * static_cast<double>(s.d_model);
  };
  const int of_decoder = (o.share_embeddings ? 0 : 1) + (o.tie_head ? 0 : 1);
  return least_parameters(o.encoder, false) + least_parameters(o.decoder, true) + embedding(o.encoder) +
         of_decoder * embedding(o.decoder);
}

/// A damaged configuration must not make loading ask for far more memory than the weights it came with have. One that is wrong
/// by less goes on to the message that lists which tensors do not fit. Sinusoids are in no file: what they may take is a quarter
/// of a gigabyte in float, and more in large models. Throws FormatError.
template <io::TensorSource File>
void check_memory(const std::string& config, const nn::ModelOptions& o, const File& file) {
  double stored = 0;
  for (const auto& t : file.tensors()) stored += static_cast<double>(t.shape.size());
  const double least = least_parameters(o);
  if (least > 4 * stored + 0x1p20)
    throw FormatError("load: ", config, " describes at least ", whole(least), " parameters, ", file.path().string(), " holds ",
                      whole(stored));
  // However few its numbers, a layer takes some kilobytes once it is built.
  const index_t layers = o.encoder.layers + o.decoder.layers, tensors = count_of(file.tensors());
  if (layers > tensors)
    throw FormatError("load: ", config, " describes ", layers, " layers, ", file.path().string(), " holds ", tensors, " tensors");
  for (const auto* stack : {&o.encoder, &o.decoder})
    if (static_cast<double>(stack->max_length) * static_cast<double>(stack->d_model) > 4 * stored + 0x1p26)
      throw FormatError("load: ", config, " describes ", stack->max_length, " positions of width ", stack->d_model,
                        ", more than a model has");
}

}  // namespace attend::detail

namespace attend::io {

/// Writes the model to `folder`, all files or none; how another was to be searched goes. Throws IoError; the model that was there
/// is then as it was.
template <class T, Device D>
void save(const std::filesystem::path& folder, const nn::Transformer<T, D>& model, const SaveOptions& options = {}) {
  write_folder_atomically(folder,
                          [&](const std::filesystem::path& staging) { detail::write_model_files(staging, model, options); },
                          {.remove = {search_file}});
}

/// The same with the tokenizer, which has `save(path)` or `save_files(folder)`: see `text::save_files`.
template <class T, Device D, class Tokenizer>
requires text::has_files<Tokenizer>
void save(const std::filesystem::path& folder, const nn::Transformer<T, D>& model, const Tokenizer& tokenizer,
          const SaveOptions& options = {}) {
  const auto write = [&](const std::filesystem::path& staging) {
    detail::write_model_files(staging, model, options);
    text::save_files(tokenizer, staging);
  };
  FolderOptions writing = replacing_tokenizer();
  writing.remove.emplace_back(search_file);
  write_folder_atomically(folder, write, writing);
}

/// Builds the model that `folder` describes and reads its weights. It is in evaluation mode; if it has adapters, all else is
/// frozen; if it was saved in 8-bit integers, it is as nn::quantize makes one. Throws IoError if a file is missing, FormatError
/// where one is not what it should be, ValueError for 8-bit integers unless the model is of float on the CPU.
template <class T = float, Device D = Cpu>
nn::Transformer<T, D> load_model(const std::filesystem::path& folder) {
  const FolderReader reader(folder);
  const auto config = reader.file("config.json");
  const Json json = read_json(config);
  const auto options = model_options_from(json, config.string());
  const bool quantized = says_quantized(json, config.string());
  check_value(!quantized || (std::same_as<T, float> && std::same_as<D, Cpu>), "load", folder.string(),
              " is of 8-bit integers, which are for float models on the CPU");
  const auto file = SafetensorsFile::open(reader.file("model.safetensors"));
  detail::check_memory(config.string(), options, file);
  auto model = [&] {
    try {
      return nn::without_initial_values<nn::Transformer<T, D>>(options);
    } catch (const ValueError& e) {  // adapters that do not fit the matrices
      throw FormatError(config.string(), ": ", e.what());
    }
  }();
  LoadOptions loading{.map = true};
  if (quantized)
    for (const auto& p : nn::quantizable_parameters(model)) loading.quantizable.push_back(p.id());
  load_state(model, file, loading);
  if (quantized && !nn::is_quantized(model))
    throw FormatError("load: ", file.path().string(), " has no matrix of 8-bit integers, as ", config.string(), " says");
  nn::set_training(model, false);
  return model;
}

/// The tokenizer of a model folder. Throws IoError if it has none, FormatError where it is none.
template <class Tokenizer>
Tokenizer load_tokenizer(const std::filesystem::path& folder) {
  const FolderReader reader(folder);
  return Tokenizer::load(reader.file(text::tokenizer_file));
}

}  // namespace attend::io
