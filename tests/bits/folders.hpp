#pragma once

#include <fstream>
#include <iterator>
#include <string>

#include "../temporary_folder.hpp"
#include "attend/io/model.hpp"
#include "networks.hpp"

/// Model folders: the bytes of what is written, and what comes back.
namespace bits {

template <class T>
void folder(Record& record, const std::string& name, const nn::TransformerOptions& options, io::DType stored) {
  seed(81);
  const nn::Transformer<T, D> model(options);
  const TemporaryFolder folder;
  io::save(folder.path(), model, io::SaveOptions{.stored = stored});
  for (const char* file : {"config.json", "model.safetensors"}) {
    std::ifstream in(folder.path() / file, std::ios::binary);
    record.add("folder/" + name + "/" + file, std::string(std::istreambuf_iterator<char>(in), {}));
  }
  const auto loaded = io::load_model<T, D>(folder.path());
  weights(record, "folder/" + name, loaded);
}

template <class T>
void folders(Record& record) {
  const nn::TransformerOptions plain{.vocabulary = 40, .d_model = 16, .heads = 2, .layers = 1, .max_length = 20};
  folder<T>(record, "float", plain, io::DType::f32);
  folder<T>(record, "bfloat16", plain, io::DType::bf16);
  folder<T>(record, "half", plain, io::DType::f16);
  auto other = plain;
  other.norm_order = nn::NormOrder::pre, other.final_norm = other.share_embeddings = other.tie_head = true;
  other.positions = nn::PositionKind::learned, other.activation = Activation::gelu_tanh, other.attention_bias = false;
  folder<T>(record, "other", other, io::DType::f64);
}

}  // namespace bits
