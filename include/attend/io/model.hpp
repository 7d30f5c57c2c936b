#pragma once

#include <filesystem>
#include <string>

#include "attend/io/config.hpp"
#include "attend/io/folder.hpp"
#include "attend/io/state.hpp"
#include "attend/nn/transformer.hpp"

/// A model is a folder: `config.json`, `model.safetensors`, and `tokenizer.model` where it has a tokenizer.
namespace attend::io {

/// How a model is saved.
struct SaveOptions {
  DType stored = DType::f32;  ///< the type of the stored numbers: f64, f32, bf16 or f16
};

}  // namespace attend::io

namespace attend::detail {

template <class T, Device D>
void write_model_files(const std::filesystem::path& staging, const nn::Transformer<T, D>& model, const io::SaveOptions& options) {
  io::write_json(staging / "config.json", io::to_json(model.options));
  io::SafetensorsWriter writer;
  writer.metadata("format", "pt");  // what other programs that read safetensors look for
  io::add_state(writer, model, options.stored);
  writer.write(staging / "model.safetensors");
}

}  // namespace attend::detail

namespace attend::io {

/// Writes the model to `folder`, all files or none. Throws IoError; the model that was there is then as it was.
template <class T, Device D>
void save(const std::filesystem::path& folder, const nn::Transformer<T, D>& model, const SaveOptions& options = {}) {
  write_folder_atomically(folder,
                          [&](const std::filesystem::path& staging) { detail::write_model_files(staging, model, options); });
}

/// The same with the tokenizer, which has `save(path)`.
template <class T, Device D, class Tokenizer>
requires requires(const Tokenizer& t, const std::filesystem::path& p) { t.save(p); }
void save(const std::filesystem::path& folder, const nn::Transformer<T, D>& model, const Tokenizer& tokenizer,
          const SaveOptions& options = {}) {
  write_folder_atomically(folder, [&](const std::filesystem::path& staging) {
    detail::write_model_files(staging, model, options);
    tokenizer.save(staging / "tokenizer.model");
  });
}

/// Builds the model that `folder` describes and reads its weights. It is in evaluation mode. Throws IoError where a file is
/// missing, FormatError where one is not what it should be.
template <class T = float, Device D = Cpu>
nn::Transformer<T, D> load_model(const std::filesystem::path& folder) {
  const FolderReader reader(folder);
  const auto config = reader.file("config.json");
  const auto options = model_options_from(read_json(config), config.string());
  const auto file = SafetensorsFile::open(reader.file("model.safetensors"));
  // A damaged config must not make this ask for far more memory than the weights it came with have.
  index_t stored = 0;
  for (const auto& t : file.tensors()) stored += Shape(t.shape).size();
  const index_t smallest = options.decoder.vocabulary * options.decoder.d_model +
                           (options.encoder.layers * options.encoder.d_ff * options.encoder.d_model +
                            options.decoder.layers * options.decoder.d_ff * options.decoder.d_model);
  if (smallest > stored)
    throw FormatError("load: " + config.string() + " describes at least " + std::to_string(smallest) + " parameters, " +
                      file.path().string() + " holds " + std::to_string(stored));
  nn::Transformer<T, D> model(options);
  load_state(model, file);
  nn::set_training(model, false);
  return model;
}

/// The tokenizer of a model folder. Throws IoError where it has none, FormatError where it is none.
template <class Tokenizer>
Tokenizer load_tokenizer(const std::filesystem::path& folder) {
  const FolderReader reader(folder);
  return Tokenizer::load(reader.file("tokenizer.model"));
}

}  // namespace attend::io
