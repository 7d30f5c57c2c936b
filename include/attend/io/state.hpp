#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "attend/core/glob.hpp"
#include "attend/core/printable.hpp"
#include "attend/io/load_parameters.hpp"
#include "attend/io/quantized_tensors.hpp"
#include "attend/io/safetensors.hpp"
#include "attend/io/safetensors_writer.hpp"
#include "attend/io/tensors.hpp"
#include "attend/nn/fields.hpp"

/// A model's parameters in a safetensors file, under the names that its `fields` give.
namespace attend::detail {

/// Where the rows of q, k or v of a projection stand in a file that packs them.
struct PackedRows {
  std::string name;   ///< of the tensor in the file
  bool head_by_head;  ///< true: the q, k and v rows of each head in turn; false: all of q, then all of k, then all of v
  bool with_q;        ///< false: the tensor holds k and v only
};

/// The packed tensors that may hold `....q_proj.weight` and its like.
inline std::vector<PackedRows> packed_names(const std::string& name, char& part) {
  for (const char* suffix : {"q_proj.weight", "k_proj.weight", "v_proj.weight", "q_proj.bias", "k_proj.bias", "v_proj.bias"}) {
    const std::string_view end = suffix;
    if (name.size() < end.size() || name.compare(name.size() - end.size(), end.size(), end) != 0) continue;
    part = end[0];
    const std::string prefix = name.substr(0, name.size() - end.size()), kind(end.substr(7));
    std::vector<PackedRows> list{{prefix + "in_proj_" + kind, false, true}, {prefix + "qkv_proj." + kind, true, true}};
    if (part != 'q') list.push_back({prefix + "kv_proj." + kind, true, false});
    return list;
  }
  return {};
}

/// Calls piece(from, to, count), in elements, for what of a packed tensor is one part of it, of shape `out`, [heads * width,
/// ...]. Returns false if the sizes do not fit.
template <class F>
bool unpack(const Shape& packed, const PackedRows& how, char part, index_t heads, const Shape& out, F&& piece) {
  if (packed.rank() != out.rank() || packed.rank() == 0 || heads < 1) return false;
  const index_t rows = packed[0], count = out[0], row_size = count == 0 ? 0 : out.size() / count;
  if (rows == 0 || packed.size() / rows != row_size || rows % heads != 0 || count % heads != 0 || rows < count) return false;
  const index_t group = how.head_by_head ? rows / heads : rows, width = how.head_by_head ? count / heads : count;
  // q comes first and v last, each as wide as the part itself; k comes after q, which is as wide as k.
  const index_t first = part == 'q' ? 0 : part == 'v' ? group - width : how.with_q ? width : 0;
  if (first < 0 || first + width > group) return false;
  for (index_t begin = 0, to = 0; to < count; begin += group, to += width)
    piece((begin + first) * row_size, to * row_size, width * row_size);
  return true;
}

}  // namespace attend::detail

namespace attend::io {

/// How the tensors of a file are found for those of a model.
struct LoadOptions {
  /// What the file calls the tensor that the model calls so, without the prefix; empty: the same. Where the file packs q, k and
  /// v, `q_proj.weight` may be turned into the name of the packed tensor, or `in_proj_weight` and its like into what it is
  /// called.
  std::function<std::string(const std::string& name)> rename = {};
  std::string prefix = {};  ///< what these names begin with in the file; tensors whose names do not are left alone
  std::vector<std::string> absent =
      {};  ///< patterns (see `matches`) of the model's names that may be missing; they keep their values
  std::vector<std::string> ignored = {};  ///< patterns of names in the file that are left alone
  /// On the processor, parameters whose numbers lie in the file as the model has them become a mapping of it, which takes no
  /// other memory and no time (see `MapFrom`); what is written to them stays in the program. What looked into their tensors
  /// before no longer does. The library's own functions that build a model do so.
  bool map = false;
  /// The identities (`Var::id`) of parameters that are of 8-bit integers afterwards where the file has them so; for float models
  /// on the CPU.
  std::vector<const void*> quantizable = {};
};

}  // namespace attend::io

namespace attend::detail {

/// Tells `loader` where in its file each parameter of `model` is, and `quantized` of those that are of 8-bit integers, which it
/// reads. Throws FormatError with all that does not fit.
template <class M, class T, Device D, io::TensorSource File>
void find_state(const M& model, const File& file, const io::LoadOptions& options, ParameterLoader<T, D, File>& loader,
                QuantizedParameters<File>& quantized) {
  const auto all = nn::named_tensors(model);
  std::unordered_map<const void*, std::vector<const nn::NamedTensor<T, D>*>> names_of;  // by where the tensor lives
  for (const auto& t : all) names_of[t.value.place()].push_back(&t);
  const auto in_file = [&](const std::string& name) { return options.prefix + (options.rename ? options.rename(name) : name); };
  std::set<std::string> used, misfits;  // misfits: packed tensors
  const auto read_quantized = [&]([[maybe_unused]] const std::string& name, [[maybe_unused]] const nn::NamedTensor<T, D>& t,
                                  [[maybe_unused]] bool known) {
    if constexpr (std::same_as<T, float> && std::same_as<D, Cpu>) {
      const auto& list = options.quantizable;
      const bool scaled = file.contains(io::scale_name(name));
      if (!scaled && file.info(name).dtype != io::DType::i8) return false;
      if (std::find(list.begin(), list.end(), t.parameter.id()) == list.end()) return false;
      if (scaled) used.insert(io::scale_name(name));
      if (!known) quantized.add(name, t);
      return true;
    } else {
      return false;
    }
  };

  std::vector<std::string> missing, shapes;
  std::map<std::string, index_t> taken;  // how many rows of each packed tensor
  for (const auto& t : nn::state(model)) {
    char part = 0;
    auto packed_in = t.heads > 0 ? packed_names(t.name, part) : std::vector<PackedRows>{};
    for (auto& packed : packed_in) packed.name = in_file(packed.name);
    bool found = false;
    for (const auto* alias : names_of[t.value.place()]) {
      const std::string name = in_file(alias->name);
      const auto is_it = [&](const PackedRows& packed) { return packed.name == name; };
      if (!file.contains(name) || std::any_of(packed_in.begin(), packed_in.end(), is_it)) continue;
      used.insert(name);
      const bool known = std::exchange(found, true);  // a second copy of a shared parameter; the first one counts
      if (read_quantized(name, t, known) || known) continue;
      const Shape shape = file.info(name).shape;
      if (shape == t.value.shape()) loader.add(t, name);
      else shapes.push_back(name + " has shape " + shape.text() + ", expected " + t.value.shape().text());
    }
    for (const auto& packed : packed_in) {
      if (found || !file.contains(packed.name)) continue;
      used.insert(packed.name);
      found = true;
      const Shape whole = file.info(packed.name).shape;
      std::vector<typename ParameterLoader<T, D, File>::Piece> pieces;
      const auto note = [&](index_t from, index_t to, index_t count) { pieces.push_back({packed.name, from, to, count}); };
      if (unpack(whole, packed, part, t.heads, t.value.shape(), note)) {
        loader.add(t, std::move(pieces));
        taken[packed.name] += t.value.dim(0);
      } else if (misfits.insert(packed.name).second) {
        shapes.push_back(packed.name + " has shape " + whole.text() + ", which does not hold " + t.name + " " +
                         t.value.shape().text());
      }
    }
    if (found || matches_any(options.absent, t.name)) continue;
    const std::string name = in_file(t.name);
    if (std::find(missing.begin(), missing.end(), name) == missing.end()) missing.push_back(name);
  }
  for (const auto& [name, rows] : taken)
    if (const Shape& shape = file.info(name).shape; shape[0] != rows && !misfits.contains(name))
      shapes.push_back(name + " has shape " + shape.text() + ", expected " + std::to_string(rows) + " rows");
  std::vector<std::string> unexpected;
  for (const auto& info : file.tensors())
    if (info.name.starts_with(options.prefix) && !used.contains(info.name) && !matches_any(options.ignored, info.name))
      unexpected.push_back(printable(info.name));
  std::string faults;
  list_names(faults, "missing", missing);
  list_names(faults, "unexpected", unexpected);
  list_names(faults, "mis-shaped:", shapes);
  list_names(faults, "damaged:", quantized.read());
  if (!faults.empty()) throw FormatError("load: ", file.path().string(), " does not fit the model: ", faults);
}

}  // namespace attend::detail

namespace attend::io {

/// Reads every parameter of `model` from the file, converted to the model's type. A shared parameter may stand in the file under
/// any of its names. q, k and v projections may be packed: `in_proj_weight` (q, k, v one after the other, as
/// torch.nn.MultiheadAttention has them), `qkv_proj.weight` and `kv_proj.weight` (head by head); biases likewise. Nothing of the
/// model changes unless all of it fits, or reading itself fails. Throws FormatError with all names that are missing, unexpected
/// or of the wrong shape, as the file spells them; ValueError for a model that is of 8-bit integers or bfloat16 already; IoError.
///
///     io::load_state(model, file, {.rename = [](const std::string& name) {
///                                    return name == "lm_head.weight" ? "out.weight" : "transformer." + io::torch_name(name);
///                                  },
///                                  .ignored = {"*.num_batches_tracked"}});
template <class M, TensorSource File>
void load_state(const M& model, const File& file, const LoadOptions& options = {}) {
  for (const auto& t : nn::named_tensors(model))
    check_value(!t.value.instead(), "load_state", t.name, " is of ", t.value.instead(), ", in whose place nothing can be read");
  detail::ParameterLoader<typename M::value_type, typename M::device_type, File> loader(file, options.map);
  detail::QuantizedParameters<File> quantized(file, options.map);
  detail::find_state(model, file, options, loader, quantized);
  quantized.assign();
  loader.heed_purpose(model);
  loader.load();
}

/// Adds every parameter of `model` once: 8-bit integers as they are, all else stored as `stored`; if nothing is given, in the
/// model's own type, and what it holds in bfloat16 as that.
template <class M>
void add_state(SafetensorsWriter& writer, const M& model, std::optional<DType> stored = {}) {
  constexpr DType own = dtype_of<typename M::value_type>();
  for (const auto& t : nn::state(model))
    if (const auto* q = t.value.quantized()) add_quantized(writer, t.name, *q);
    else if (const auto* rows = t.value.in_bfloat16()) add_tensor(writer, t.name, *rows, stored.value_or(DType::bf16));
    else add_tensor(writer, t.name, t.value, stored.value_or(own));
}

}  // namespace attend::io
