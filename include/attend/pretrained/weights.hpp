#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "attend/core/printable.hpp"
#include "attend/io/load_parameters.hpp"
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

/// Whether two tensors of a file have the same shape and the same numbers. They are read in pieces: the two may be most of a
/// model.
template <io::TensorSource File>
bool same_weights(const File& file, const std::string& one, const std::string& other) {
  const Shape shape = file.info(one).shape;
  if (!(shape == file.info(other).shape)) return false;
  std::vector<float> a(1 << 16), b(a.size());
  for (index_t at = 0; at < shape.size(); at += count_of(a)) {
    const auto count = static_cast<std::size_t>(std::min(count_of(a), shape.size() - at));
    file.read_part(one, at, std::span(a).first(count));
    file.read_part(other, at, std::span(b).first(count));
    if (!std::equal(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(count), b.begin())) return false;
  }
  return true;
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
  /// The tensor that has one of these names, the likeliest first; nothing if there is none that fits. If the file has several,
  /// the first counts, and with `tied` the others must be the same.
  std::optional<std::string> find(const std::vector<std::string>& names, const Shape& shape, bool tied) {
    std::optional<std::string> fits;
    std::string found;
    for (const auto& name : names) {
      if (!file_.contains(name)) continue;
      use(name);
      if (found.empty()) {
        found = name;
        if (check_shape(name, shape)) fits = name;
      } else if (tied && fits && check_shape(name, shape) && !same_weights(file_, found, name)) {
        differing_.push_back(found + " and " + name);
      }
    }
    if (found.empty()) missing_.push_back(names.front());
    return fits;
  }
  /// `final_logits_bias`, [1, vocabulary] or [vocabulary]; the empty name, which stands for zeros, if there is none.
  std::optional<std::string> find_bias(const Shape& shape) {
    const std::string name = "final_logits_bias";
    if (!file_.contains(name)) return "";
    use(name);
    if (!(file_.info(name).shape == shape) && !check_shape(name, {1, shape[0]})) return std::nullopt;
    return name;
  }

  /// Gives each tensor of `model` the one of the file that find(name, shape) names for it, an optional. Throws FormatError with
  /// all that is wrong, `faults` first; the model is then as it was.
  template <Device D, class Find>
  void load(const nn::Transformer<T, D>& model, std::string faults, Find&& find) {
    ParameterLoader<T, D, File> loader(file_, true);
    std::vector<Tensor<T, D>> zeros;
    for (const auto& t : nn::state(model))
      if (const std::optional<std::string> name = find(t.name, t.value.shape())) {
        if (name->empty()) zeros.push_back(t.value);
        else loader.add(t, *name);
      }
    std::vector<std::string> unexpected;
    for (const auto& info : file_.tensors())
      if (!used_.contains(info.name)) unexpected.push_back(printable(info.name));
    list_names(faults, "missing", missing_);
    list_names(faults, "unexpected", unexpected);
    list_names(faults, "mis-shaped:", shapes_);
    list_names(faults, "tied in config.json, but not the same:", differing_);
    if (!faults.empty()) throw FormatError("load: ", file_.path().string(), " does not fit the model: ", faults);
    loader.heed_purpose(model);
    loader.load();
    for (const auto& tensor : zeros) tensor.fill(T(0));
  }

 private:
  const File& file_;
  std::unordered_set<std::string> used_;
  std::vector<std::string> missing_, shapes_, differing_;
};

}  // namespace attend::detail
