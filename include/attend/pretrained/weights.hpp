#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "attend/core/printable.hpp"
#include "attend/io/model.hpp"
#include "attend/io/state.hpp"
#include "attend/io/tensors.hpp"
#include "attend/nn/fields.hpp"
#include "attend/nn/transformer.hpp"

/// The weights of a folder of the `transformers` library, by the names that its families give them.
namespace attend::detail {

/// Why a model with adapters has no place in such a file.
inline constexpr const char* adapters_obstacle =
    "it has adapters: merge_adapters folds them into the weights, save_adapters saves them apart";

/// Whether two tensors of a file have the same shape and the same numbers.
template <io::TensorSource File>
bool same_weights(const File& file, const std::string& one, const std::string& other) {
  if (!(file.info(one).shape == file.info(other).shape)) return false;
  const auto a = io::read_tensor<float>(file, one), b = io::read_tensor<float>(file, other);
  return std::equal(a.data(), a.data() + a.size(), b.data());
}

/// Finds the tensors of a file for those of a model. What does not fit is collected, to be said all at once.
template <class T, io::TensorSource File>
class WeightsReader {
 public:
  explicit WeightsReader(const File& file) : file_(file) {}

  [[nodiscard]] const File& file() const { return file_; }
  /// The tensor has a meaning, or is to be passed over: it is not unexpected.
  void use(const std::string& name) { used_.insert(name); }
  bool check_shape(const std::string& name, const Shape& expected) {
    const Shape shape = file_.info(name).shape;
    if (!(shape == expected)) shapes_.push_back(name + " has shape " + shape.text() + ", expected " + expected.text());
    return shape == expected;
  }
  /// The values of the tensor that has one of these names, the likeliest first; nothing if there is none that fits. If the file
  /// has several, the first counts, and with `tied` the others must be the same.
  std::optional<Tensor<T, Cpu>> find(const std::vector<std::string>& names, const Shape& shape, bool tied) {
    std::optional<Tensor<T, Cpu>> value;
    std::string found;
    for (const auto& name : names) {
      if (!file_.contains(name)) continue;
      use(name);
      if (found.empty()) {
        found = name;
        if (check_shape(name, shape)) value = io::read_tensor<T>(file_, name);
      } else if (tied && value && check_shape(name, shape) && !same_weights(file_, found, name)) {
        differing_.push_back(found + " and " + name);
      }
    }
    if (found.empty()) missing_.push_back(names.front());
    return value;
  }
  /// `final_logits_bias`, [1, vocabulary] or [vocabulary]; zeros if there is none.
  std::optional<Tensor<T, Cpu>> find_bias(const Shape& shape) {
    const std::string name = "final_logits_bias";
    if (!file_.contains(name)) return Tensor<T, Cpu>(shape, T(0));
    use(name);
    if (!(file_.info(name).shape == shape) && !check_shape(name, {1, shape[0]})) return std::nullopt;
    return io::read_tensor<T>(file_, name).reshape(shape);
  }

  /// Gives each tensor of `model` what find(name, shape) has for it, an optional. Throws FormatError with all that is wrong,
  /// `faults` first; the model is then as it was.
  template <Device D, class Find>
  void load(const nn::Transformer<T, D>& model, std::string faults, Find&& find) {
    std::vector<std::pair<Tensor<T, Cpu>, Tensor<T, D>>> loaded;
    for (const auto& t : nn::state(model))
      if (const auto value = find(t.name, t.value.shape())) loaded.emplace_back(*value, t.value);
    std::vector<std::string> unexpected;
    for (const auto& info : file_.tensors())
      if (!used_.contains(info.name)) unexpected.push_back(printable(info.name));
    list_names(faults, "missing", missing_);
    list_names(faults, "unexpected", unexpected);
    list_names(faults, "mis-shaped:", shapes_);
    list_names(faults, "tied in config.json, but not the same:", differing_);
    if (!faults.empty()) throw FormatError("load: ", file_.path().string(), " does not fit the model: ", faults);
    for (const auto& [from, to] : loaded) to.assign(from);
  }

 private:
  const File& file_;
  std::unordered_set<std::string> used_;
  std::vector<std::string> missing_, shapes_, differing_;
};

}  // namespace attend::detail
