#pragma once

#if (defined(_MSVC_LANG) ? _MSVC_LANG : __cplusplus) < 202002L
#error "attend needs C++20: compile with -std=c++20, or let CMake do it by linking attend::core or attend::attend"
#else

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "attend/core/number_text.hpp"
#include "attend/core/printable.hpp"
#include "attend/io/folder.hpp"
#include "attend/io/json.hpp"
#include "attend/io/safetensors_writer.hpp"
#include "attend/io/tensors.hpp"
#include "attend/io/weight_files.hpp"
#include "attend/nn/adapters.hpp"
#include "attend/pretrained/bart_family.hpp"
#include "attend/pretrained/config.hpp"
#include "attend/pretrained/t5_family.hpp"

/// Low-rank adapters in folders of their own, as the PEFT library has them: `adapter_config.json` says what they are,
/// `adapter_model.safetensors` has the matrices, or `adapter_model.bin`, as older releases of PEFT wrote it.
namespace attend::io {

/// How adapters are saved.
struct SaveAdaptersOptions {
  /// The `model_type` of the model of the `transformers` library that they are for (`bart`, `t5`, `marian`), whose names they
  /// then have; empty: the names of this library.
  std::string family = {};
  std::string base = {};      ///< where that model is to be found, for PEFT: a folder, or a name such as `google-t5/t5-small`
  DType stored = DType::f32;  ///< the type of the stored numbers
};

}  // namespace attend::io

namespace attend::detail {

/// Files of an adapter in the layout of PEFT, and what the names of its tensors begin with.
inline constexpr const char* adapter_config_name = "adapter_config.json";
inline constexpr const char* adapter_weights_name = "adapter_model.safetensors";
inline constexpr const char* older_adapter_weights_name = "adapter_model.bin";
inline constexpr const char* adapter_prefix = "base_model.model";

/// What somebody calls the module that this library calls so.
using ModuleNames = std::function<std::string(const std::string& name)>;

/// The names of T5's family for modules of such a model.
inline ModuleNames t5_modules(const nn::ModelOptions& o) {
  return [&o](const std::string& name) {
    const std::string weight = ".weight", theirs = t5_names(name + weight, o).front();
    return theirs.substr(0, theirs.size() - weight.size());
  };
}
/// Those of BART's, and Marian's.
inline std::string bart_module(const std::string& name) { return "model." + name; }
/// Those of models in this library's own layout.
inline std::string own_module(const std::string& name) { return name; }

/// Somebody's names of modules, and whether a model can be one of theirs.
struct ModuleWay {
  ModuleNames names;
  const char* whose;
  bool fits;
};
/// All that are known, for the modules of a model.
template <class M>
std::vector<ModuleWay> module_ways(const M& model) {
  std::vector<ModuleWay> ways{{own_module, "this library", true}, {bart_module, "BART's families and Marian", true}};
  if constexpr (requires { t5_modules(model.options); }) {
    const bool t5 = nn::is_relative(model.options.encoder.positions);
    ways.back().fits = !t5;
    ways.push_back({t5_modules(model.options), "T5's families", t5});
  }
  return ways;
}

/// What PEFT calls the matrix A or B beside the module that it calls so.
inline std::string adapter_tensor(const std::string& theirs, const char* which) {
  return nn::detail::join(adapter_prefix, nn::detail::join(theirs, std::string("lora_") + which + ".weight"));
}

/// A matrix of a model that may have an adapter.
template <class T, Device D>
struct AdaptableMatrix {
  std::string name;
  index_t out, in;
  std::optional<nn::Adapter<T, D>> adapter;
};

/// The matrices of a model that an adapter may stand beside.
template <class M>
auto adaptable_matrices(const M& model) {
  std::vector<AdaptableMatrix<typename M::value_type, typename M::device_type>> list;
  for (const auto& [name, rows, adapter] : nn::adaptables(model)) list.push_back({name, rows.count, rows.packed.dim(1), adapter});
  return list;
}

/// The shortest names that say which of these modules are chosen: their last parts, if these are no other's; else all of it.
inline std::vector<std::string> short_names(const std::vector<std::pair<std::string, bool>>& modules) {
  std::set<std::string> ends, full;
  const auto end_of = [](const std::string& name) { return name.substr(name.rfind('.') + 1); };
  for (const auto& [name, chosen] : modules)
    if (chosen) ends.insert(end_of(name)), full.insert(name);
  const bool others = std::any_of(modules.begin(), modules.end(),
                                  [&](const auto& module) { return !module.second && ends.contains(end_of(module.first)); });
  const auto& names = others ? full : ends;
  return {names.begin(), names.end()};
}

/// What a value of an `adapter_config.json` says that would change what the adapters compute and is not done here; empty if none.
inline std::string unknown_adapter_setting(const std::string& key, const io::Json& value) {
  // What says how training began or goes on, where it is of no account, or how PEFT chose the modules, which the tensors show.
  static const std::set<std::string> ignored{
      "auto_mapping",   "base_model_name_or_path", "eva_config",   "exclude_modules", "inference_mode",
      "layers_pattern", "layers_to_transform",     "loftq_config", "megatron_config", "megatron_core",
      "peft_version",   "qalora_group_size",       "revision",     "target_modules",  "task_type"};
  static const std::set<std::string> read{"peft_type", "r", "lora_alpha", "lora_dropout", "use_rslora"};
  if (ignored.contains(key) || read.contains(key)) return {};
  // Other ways to begin change the weights of the model too.
  if (key == "init_lora_weights" &&
      (value.is_null() || value.is_boolean() || value == "gaussian" || value == "eva" || value == "orthogonal"))
    return {};
  if (key == "bias" && (value.is_null() || value == "none")) return {};
  const bool off = value.is_null() || value == false || ((value.is_structured() || value.is_string()) && value.empty());
  return key != "bias" && key != "init_lora_weights" && off ? "" : printable(key) + " is " + json_excerpt(value);
}

/// What an `adapter_config.json` says, but for the modules. What is wrong with it goes to `faults`.
inline nn::AdapterOptions adapter_options_from(const io::Json& json, const std::string& name, std::string& faults) {
  const io::JsonObject object(json, name);
  nn::AdapterOptions o;
  const auto collect = [&](auto&& read) {
    try {
      read();
    } catch (const Error& e) {
      const std::string text = e.what(), prefix = name + ": ";
      list_names(faults, "", {text.starts_with(prefix) ? text.substr(prefix.size()) : text});
    }
  };
  collect([&] {
    const auto type = object.get<std::string>("peft_type");
    if (type != "LORA") throw FormatError("peft_type is \"", printable(type), "\", expected \"LORA\"");
  });
  collect([&] { o.rank = object.get<index_t>("r"); });
  collect([&] { o.alpha = object.get<double>("lora_alpha"); });
  collect([&] { o.dropout = object.get<double>("lora_dropout", 0); });
  collect([&] { o.rslora = object.get<bool>("use_rslora", false); });
  collect([&] {
    if (o.rank < 1) throw FormatError("r is ", o.rank, ", expected 1 or more");
    check_fields(name.c_str(), o);
  });
  std::vector<std::string> unknown;
  for (const auto& [key, value] : json.items())
    if (auto setting = unknown_adapter_setting(key, value); !setting.empty()) unknown.push_back(std::move(setting));
  list_names(faults, "settings that adapters of this library do not have:", unknown);
  return o;
}

}  // namespace attend::detail

namespace attend::io {

/// Writes the adapters of a model, all files or none, to a folder that PEFT's `PeftModel.from_pretrained` and `load_adapters` can
/// open: `adapter_config.json` and `adapter_model.safetensors`, and no other weights. A model that came from a folder of the
/// `transformers` library needs `options.family`, for PEFT to find its modules.
/// Throws ValueError if the model has no adapters, if those of its modules differ in rank, scale or dropout, and for a family
/// that is none; IoError. The folder is then as it was.
///
///     io::save_adapters("adapters", loaded.model, {.family = "t5", .base = "google-t5/t5-small"});
template <class M>
void save_adapters(const std::filesystem::path& folder, const M& model, const SaveAdaptersOptions& options = {}) {
  detail::ModuleNames theirs = detail::own_module;
  if (detail::bart_family(options.family) != nullptr || options.family == "marian") {
    theirs = detail::bart_module;
  } else if (!options.family.empty()) {
    check_value(detail::is_t5_family(options.family), "save_adapters", "the family is '", detail::printable(options.family),
                "', which it does not know");
    if constexpr (requires { theirs = detail::t5_modules(model.options); }) theirs = detail::t5_modules(model.options);
    else throw ValueError("save_adapters: a model of the family ", options.family, " is a Transformer, and this is another");
  }
  if constexpr (requires { model.options.encoder.positions; })
    check_value(options.family.empty() || model.options.encoder.positions != nn::PositionKind::sinusoidal, "save_adapters",
                "the model has sines and cosines in turn, which save_marian parts by another order of the channels; merge the "
                "adapters before it, or save them without a family");
  const auto matrices = detail::adaptable_matrices(model);
  const auto first = std::find_if(matrices.begin(), matrices.end(), [](const auto& m) { return m.adapter.has_value(); });
  check_value(first != matrices.end(), "save_adapters", "the model has no adapters");
  const auto& like = *first->adapter;
  const index_t rank = like.a.dim(0);
  SafetensorsWriter writer;
  writer.metadata("format", "pt");
  std::vector<std::pair<std::string, bool>> modules;
  for (const auto& m : matrices) {
    modules.emplace_back(theirs(m.name), m.adapter.has_value());
    if (!m.adapter) continue;
    const auto& a = *m.adapter;
    check_value(a.a.dim(0) == rank && a.scale == like.scale && a.dropout.p == like.dropout.p, "save_adapters", "the adapters of ",
                first->name, " and ", m.name, " differ in rank, scale or dropout");
    add_tensor(writer, detail::adapter_tensor(modules.back().first, "A"), a.a.value(), options.stored);
    add_tensor(writer, detail::adapter_tensor(modules.back().first, "B"), a.b.value(), options.stored);
  }
  bool rslora = false;
  double alpha = like.scale * static_cast<double>(rank);
  if constexpr (requires { model.options.adapters.rslora; })
    if (model.options.adapters.rank == rank) rslora = model.options.adapters.rslora, alpha = model.options.adapters.alpha;
  Json json;
  json["peft_type"] = "LORA";
  json["task_type"] = "SEQ_2_SEQ_LM";
  json["base_model_name_or_path"] = options.base.empty() ? Json() : Json(options.base);
  json["r"] = rank;
  // PEFT has it as a whole number where it can be one.
  if (alpha == std::floor(alpha) && alpha < 0x1p53) json["lora_alpha"] = static_cast<index_t>(alpha);
  else json["lora_alpha"] = alpha;
  json["lora_dropout"] = like.dropout.p;
  json["use_rslora"] = rslora;
  json["target_modules"] = detail::short_names(modules);
  json["bias"] = "none";
  json["fan_in_fan_out"] = false;
  json["inference_mode"] = true;
  json["init_lora_weights"] = true;
  json["modules_to_save"] = Json();
  write_folder_atomically(folder, [&](const std::filesystem::path& staging) {
    write_json(staging / detail::adapter_config_name, json);
    writer.write(staging / detail::adapter_weights_name);
  });
}

/// Reads adapters that PEFT or `save_adapters` wrote into a model that has the weights which they stand beside. Modules may be
/// called as this library calls them, or as in Marian, BART's families or T5's. A model without adapters gets those of the
/// folder, see nn::add_adapters: all else is then frozen. One with adapters must have the same, and gets their values; B and A
/// are converted to the model's type.
///
/// Which modules have one is told by the tensors. Settings of `adapter_config.json` that say how training began are passed over;
/// those that would change what is computed (`use_dora`, `rank_pattern`, `modules_to_save`, trained biases, …) are refused.
/// Throws IoError if a file is missing, FormatError with all that does not fit; the model is then as it was.
template <class M>
void load_adapters(const std::filesystem::path& folder, M& model) {
  using T = typename M::value_type;
  const FolderReader reader(folder);
  const auto config = reader.file(detail::adapter_config_name);
  const Json json = read_json(config);
  std::string faults;
  nn::AdapterOptions o = detail::adapter_options_from(json, config.string(), faults);
  const bool older = !reader.contains(detail::adapter_weights_name) && reader.contains(detail::older_adapter_weights_name);
  const auto file = WeightFiles::of(reader.file(older ? detail::older_adapter_weights_name : detail::adapter_weights_name));

  const auto matrices = detail::adaptable_matrices(model);
  // Of the ways to call modules, the one by which most are found.
  const auto ways = detail::module_ways(model);
  const auto found = [&](const detail::ModuleWay& way) {
    return std::count_if(matrices.begin(), matrices.end(), [&](const auto& m) {
      return file.contains(detail::adapter_tensor(way.names(m.name), "A")) ||
             file.contains(detail::adapter_tensor(way.names(m.name), "B"));
    });
  };
  const auto& chosen_way =
      *std::max_element(ways.begin(), ways.end(), [&](const auto& a, const auto& b) { return found(a) < found(b); });
  using Names = std::vector<std::string>;  // named below, because nvcc takes `{name}` for `name`
  if (!chosen_way.fits)
    detail::list_names(faults, "for another family: the adapters have module names of", Names{chosen_way.whose});
  const auto& way = chosen_way.names;

  std::vector<std::string> missing, shapes, unexpected;
  std::vector<std::pair<std::string, bool>> modules;
  std::set<std::string> used;
  const bool has_some = nn::has_adapters(model);
  for (const auto& m : matrices) {
    const std::string theirs = way(m.name), a = detail::adapter_tensor(theirs, "A"), b = detail::adapter_tensor(theirs, "B");
    const bool wanted = has_some ? m.adapter.has_value() : file.contains(a) || file.contains(b);
    modules.emplace_back(m.name, wanted);
    if (!wanted) continue;
    for (const auto& [name, shape] : {std::pair{a, Shape{o.rank, m.in}}, std::pair{b, Shape{m.out, o.rank}}}) {
      used.insert(name);
      if (!file.contains(name)) missing.push_back(name);
      else if (!(file.info(name).shape == shape))
        shapes.push_back(name + " has shape " + file.info(name).shape.text() + ", expected " + shape.text());
    }
  }
  for (const auto& info : file.tensors())
    if (!used.contains(info.name)) unexpected.push_back(detail::printable(info.name));
  detail::list_names(faults, "missing", missing);
  detail::list_names(faults, "unexpected", unexpected);
  detail::list_names(faults, "mis-shaped:", shapes);
  o.modules = detail::short_names(modules);
  if (has_some) {
    for (const auto& m : matrices)
      if (m.adapter && (m.adapter->a.dim(0) != o.rank || std::abs(m.adapter->scale - o.scale()) > 1e-12 * o.scale())) {
        detail::list_names(faults, "other adapters than the model's:",
                           Names{"rank " + std::to_string(o.rank) + ", scale " + number_text(o.scale()) + ", expected rank " +
                                 std::to_string(m.adapter->a.dim(0)) + ", scale " + number_text(m.adapter->scale)});
        break;
      }
  } else if (used.empty()) {
    detail::list_names(
        faults, "no module of the model has an adapter there:",
        Names{matrices.empty() ? "it has none that may" : detail::adapter_tensor(way(matrices.front().name), "A")});
  } else if (faults.empty()) {
    faults = nn::detail::adapter_faults(model, o);
  }
  if (!faults.empty()) throw FormatError("load: ", folder.string(), " does not fit the model: ", faults);

  std::vector<std::pair<Tensor<T>, Tensor<T>>> values;  // read before anything changes
  for (const auto& [name, chosen] : modules)
    if (chosen)
      values.emplace_back(read_tensor<T>(file, detail::adapter_tensor(way(name), "A")),
                          read_tensor<T>(file, detail::adapter_tensor(way(name), "B")));
  if (!has_some) nn::add_adapters(model, o);
  auto value = values.begin();
  for (const auto& m : nn::adaptables(model)) {
    if (!m.adapter) continue;
    m.adapter->a.value().assign(value->first);
    m.adapter->b.value().assign(value->second);
    ++value;
  }
}

}  // namespace attend::io

#endif  // C++20
