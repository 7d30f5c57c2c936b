#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "attend/core/number_text.hpp"
#include "attend/core/printable.hpp"
#include "attend/core/random.hpp"
#include "attend/io/model_files.hpp"
#include "attend/io/safetensors.hpp"
#include "attend/io/state.hpp"
#include "attend/optim/optimizer.hpp"
#include "attend/train/model_hash.hpp"
#include "attend/train/report.hpp"

/// What a training run that stops must leave behind for another to go on from, bit for bit.
namespace attend::train {

/// Where a run stands, besides the model and the optimizer.
struct TrainingState {
  index_t step = 0;      ///< updates done
  index_t epoch = 0;     ///< passes over the corpus done
  index_t position = 0;  ///< batches of the present epoch done
  index_t tokens = 0;    ///< target tokens seen
  double seconds = 0;
  std::uint64_t generator_seed = 0, generator_drawn = 0;  ///< what dropout draws from next

  index_t validated = -1;                                        ///< the step of the last validation
  index_t twentieths = 0;                                        ///< of the run that were over at the last validation
  index_t since_best = 0;                                        ///< validations since the best
  double best_value = std::numeric_limits<double>::quiet_NaN();  ///< of the metric; NaN before the first

  CurveSum sum = {};  ///< toward the next point of the curve
  std::vector<CurvePoint> curve = {};
  std::vector<ValidationPoint> validations = {};

  /// Notes what this thread's generator draws next.
  void note_generator() { generator_seed = default_generator().seed(), generator_drawn = default_generator().drawn(); }
  /// Has it draw that.
  void restore_generator() const { default_generator().restore(generator_seed, generator_drawn); }

  /// Adds a step of so many labels to the curve, which gets a point every `every` steps; true if this step gives it one.
  bool add(const CurvePoint& now, index_t labels, index_t every) {
    sum.add(now, labels);
    if (now.step % every != 0) return false;
    curve.push_back(sum.mean(now));
    sum = {};
    return true;
  }
};

/// What must be equal for a run to go on where another stopped: `corpus`, `vocabulary`, `seed`, ..., by name.
using RunIdentity = std::map<std::string, std::string>;

namespace detail {

/// Calls number(key, value) for each number of a state, to write it and to read it.
template <class State, class F>
void for_numbers(State& s, F&& number) {
  number("step", s.step), number("epoch", s.epoch), number("position", s.position), number("tokens", s.tokens);
  number("seconds", s.seconds);
  number("generator_seed", s.generator_seed), number("generator_drawn", s.generator_drawn);
  number("validated", s.validated), number("twentieths", s.twentieths), number("since_best", s.since_best),
      number("best_value", s.best_value);
  number("loss_sum", s.sum.loss), number("norm_sum", s.sum.norm);
  number("token_sum", s.sum.tokens), number("step_sum", s.sum.steps);
}

/// In a value of a RunIdentity, what stands before digits that are not meant for people.
inline constexpr const char* fingerprint_mark = ", fingerprint ";

/// Numbers of a point of the curve, and of a validation.
inline constexpr index_t curve_columns = 7, validation_columns = 5;

/// The curve as a table of numbers, a row for each point.
inline std::vector<double> curve_table(const std::vector<CurvePoint>& curve) {
  std::vector<double> table;
  for (const CurvePoint& p : curve)
    for (const double x : {static_cast<double>(p.step), p.epoch, p.seconds, static_cast<double>(p.tokens), p.loss,
                           p.learning_rate, p.gradient_norm})
      table.push_back(x);
  return table;
}
/// A count that was stored as a double; 0 for what is not one, in a file that somebody has changed.
inline index_t count_from(double x) { return x >= 0 && x < 0x1p53 ? static_cast<index_t>(x) : 0; }

/// And back.
inline std::vector<CurvePoint> curve_from(std::span<const double> table) {
  std::vector<CurvePoint> curve;
  for (; !table.empty(); table = table.subspan(curve_columns))
    curve.push_back({count_from(table[0]), table[1], table[2], count_from(table[3]), table[4], table[5], table[6]});
  return curve;
}
/// The same of validations.
inline std::vector<double> validation_table(const std::vector<ValidationPoint>& points) {
  std::vector<double> table;
  for (const ValidationPoint& p : points)
    for (const double x : {static_cast<double>(p.step), p.seconds, p.loss, p.bleu, p.best ? 1.0 : 0.0}) table.push_back(x);
  return table;
}
/// And back.
inline std::vector<ValidationPoint> validations_from(std::span<const double> table) {
  std::vector<ValidationPoint> points;
  for (; !table.empty(); table = table.subspan(validation_columns))
    points.push_back({count_from(table[0]), table[1], table[2], table[3], table[4] != 0});
  return points;
}

/// A string of the file's metadata. Throws FormatError if there is none.
inline const std::string& metadata(const io::SafetensorsFile& file, const std::string& key) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end())
    throw FormatError("resume: ", file.path().string(), " has no `", key, "`, expected a training state");
  return found->second;
}
/// A number of the metadata. Throws FormatError.
template <class N>
void read_number(const io::SafetensorsFile& file, const std::string& key, N& value) {
  const std::string& text = metadata(file, key);
  if (!parse_number(text, value))
    throw FormatError("resume: ", file.path().string(), ": ", key, " is `", attend::detail::printable(text),
                      "`, expected a number");
}
/// A table of so many columns. Throws FormatError.
inline std::vector<double> read_table(const io::SafetensorsFile& file, const char* name, index_t columns) {
  const Shape shape = file.info(name).shape;
  if (shape.rank() != 2 || shape[1] != columns)
    throw FormatError("resume: ", file.path().string(), ": ", name, " has shape ", shape.text(), ", expected [n, ", columns, "]");
  return file.read<double>(name);
}

/// `vocabulary 8000 (this run: 4000)`; in words if the values are fingerprints, whose digits say nothing to anybody.
inline std::string difference(const std::string& name, const std::string& theirs, const std::string& ours,
                              const std::string& us) {
  if (name == "corpus") return "other sentence pairs in the corpus (their text, tokens or order)";
  if (name == "validation") {
    if (theirs == "none") return "no validation pairs (" + us + ": some)";
    if (ours == "none") return "validation pairs (" + us + ": none)";
    return "other validation pairs (their text, tokens or order)";
  }
  const auto plain = [](const std::string& value) { return value.substr(0, value.find(fingerprint_mark)); };
  const bool same = plain(theirs) == plain(ours);
  return name + " " + attend::detail::printable(plain(theirs)) + " (" + us + ": " + (same ? "others" : plain(ours)) + ")";
}

/// A fingerprint of some of a model's tensors, of their names, shapes and numbers.
class Fingerprint {
 public:
  /// Of none.
  Fingerprint() = default;
  /// Of those that `chosen` is true of.
  template <class Model, class F>
  Fingerprint(const Model& model, F&& chosen) {
    for (const auto& t : nn::state(model))
      if (chosen(t)) add(t.name, t.value.to_host());
  }
  /// One more.
  template <class T>
  void add(const std::string& name, const Tensor<T>& values) {
    hash_.add(name, values);
    ++count_;
  }
  /// Whether there is any.
  explicit operator bool() const { return count_ > 0; }
  /// How many there are, and the fingerprint.
  [[nodiscard]] std::string text() const {
    return count_ == 0 ? "none" : std::to_string(count_) + fingerprint_mark + number_text(hash_.value());
  }

 private:
  ModelHash hash_;
  index_t count_ = 0;
};
/// Whether a tensor holds other numbers than elements.
inline constexpr auto is_held = [](const auto& t) { return t.value.instead() != nullptr; };
/// Whether a training state leaves a tensor out, since it stays as it is.
inline constexpr auto is_left_out = [](const auto& t) { return is_held(t) || !t.parameter.requires_grad(); };
/// The key in the metadata of the fingerprint of those that were left out.
inline constexpr const char* left_out_name = "left_out";

/// The weights in the same folder as a training state, if they have what it left out: these tensors, but for those that the model
/// holds itself, with this fingerprint. Throws FormatError, IoError.
template <class T, Device D>
std::optional<io::SafetensorsFile> weights_beside(const std::filesystem::path& path,
                                                  const std::vector<nn::NamedTensor<T, D>>& left_out,
                                                  const std::string& fingerprint) {
  const auto beside = path.parent_path() / io::weights_file;
  std::error_code ignored;
  if (!std::filesystem::exists(beside, ignored)) return std::nullopt;
  auto file = io::SafetensorsFile::open(beside);
  Fingerprint found;
  for (const auto& t : left_out) {
    if (is_held(t)) {
      found.add(t.name, t.value.to_host());
      continue;
    }
    if (!file.contains(t.name)) return std::nullopt;
    const auto& info = file.info(t.name);
    if (info.dtype != io::dtype_of<T>() || !(info.shape == t.value.shape())) return std::nullopt;
    found.add(t.name, io::read_tensor<T>(file, t.name));
  }
  if (found.text() != fingerprint) return std::nullopt;
  return file;
}

/// Each entry that differs.
inline std::string differences(const RunIdentity& theirs, const RunIdentity& ours, const std::string& us = "this run") {
  std::string text;
  const auto eos = theirs.find("run.eos");
  for (const auto& [name, value] : ours) {
    const auto found = theirs.find("run." + name);
    // States written before these entries existed lack them.
    const std::string before = name == "source_end" && eos != theirs.end()                                 ? eos->second
                               : name == "frozen" || name == "teacher" || name.starts_with("distillation") ? "none"
                               : name == "parts"                                                           ? "1"
                               : name == "precision"                                                       ? "full"
                                                                                                           : "unknown";
    const std::string other = found != theirs.end() ? found->second : before;
    if (other != value) text += (text.empty() ? "" : ", ") + difference(name, other, value, us);
  }
  return text;
}

}  // namespace detail

/// Lets a run go on in another number of parts: where the training state has other parts than `identity`, that gets them, so that
/// they are no difference. Returns what is to be said of it, nothing if they are the same. Throws FormatError, IoError.
inline std::string accept_parts(const std::filesystem::path& path, RunIdentity& identity) {
  const auto file = io::SafetensorsFile::open(path);
  const auto found = file.metadata().find("run.parts");
  const std::string theirs = found != file.metadata().end() ? found->second : "1";
  const std::string ours = std::exchange(identity["parts"], theirs);
  if (ours == theirs) return "";
  return "parts were " + attend::detail::printable(theirs) + " and are " + ours +
         " from here on: sums are made otherwise, so the run comes to other bits than it would have";
}

/// Writes the state of a run, with all parameters that learn and all that the optimizer remembers in their own precision, as one
/// safetensors file. Of what is frozen, which stands in the model's own file, it has a fingerprint alone. `memory` is an
/// `optim::OptimizerState`, or has `steps`, `skipped` and `add_to(writer)`. Throws IoError; a file that was there before is then
/// as it was.
template <class Model, class Memory>
void write_training_state(const std::filesystem::path& path, const TrainingState& state, const RunIdentity& identity,
                          const Model& model, const Memory& memory, const std::string& layout) {
  io::SafetensorsWriter writer;
  writer.metadata("format", "attend training state 1");
  writer.metadata("layout", layout);
  for (const auto& [name, value] : identity) writer.metadata("run." + name, value);
  detail::for_numbers(state, [&](const char* name, const auto& value) { writer.metadata(name, number_text(value)); });
  writer.metadata("optimizer_steps", number_text(memory.steps));
  writer.metadata("optimizer_skipped", number_text(memory.skipped));
  const auto curve = detail::curve_table(state.curve), validations = detail::validation_table(state.validations);
  writer.add<double>("curve", {count_of(state.curve), detail::curve_columns}, curve);
  writer.add<double>("validations", {count_of(state.validations), detail::validation_columns}, validations);
  if (const detail::Fingerprint left_out(model, detail::is_left_out); left_out)
    writer.metadata(detail::left_out_name, left_out.text());
  for (const auto& t : nn::state(model))
    if (!detail::is_left_out(t)) io::add_tensor(writer, "model." + t.name, t.value);
  if constexpr (requires { memory.add_to(writer); }) memory.add_to(writer);
  else
    for (const auto& entry : memory.entries) io::add_tensor(writer, "optimizer." + entry.name, entry.values);
  writer.write(path);
}

/// Reads what `write_training_state` wrote into `model` and into the entries of `memory`, which also say what is expected: an
/// `optim::OptimizerState`, or entries whose `values` have a `shape()` and `read(file, name)`. What it left out the model must
/// have already, held as it was or as the floats that this stands for; or else `model.safetensors` in the same folder as floats.
/// Throws ValueError that lists everything in which the run that wrote it differs from this one (frozen weights are compared only
/// if all else is the same), FormatError if the file is no training state, IoError. After an exception nothing has changed,
/// unless reading itself failed.
template <class Model, class Memory>
TrainingState read_training_state(const std::filesystem::path& path, const RunIdentity& identity, const Model& model,
                                  Memory& memory, const std::string& layout) {
  using T = typename Model::value_type;
  const auto file = io::SafetensorsFile::open(path);
  const std::string format = detail::metadata(file, "format");  // no reference: GCC 14 takes it to be one to the key
  if (format != "attend training state 1")
    throw FormatError("resume: ", path.string(), " has the format `", attend::detail::printable(format),
                      "`, expected `attend training state 1`");
  std::string faults = detail::differences(file.metadata(), identity);
  const auto fault = [&](const std::string& text) { faults += (faults.empty() ? "" : ", ") + text; };

  std::size_t wanted = 0, misfits = 0;
  const auto look_at = [&](const std::string& name, const Shape& shape, io::DType dtype, const char* held = nullptr) {
    constexpr std::size_t shown = 3;
    const auto described = [](io::DType type, const Shape& s) { return std::string(io::dtype_name(type)) + " " + s.text(); };
    std::string found = "none";
    ++wanted;
    if (file.contains(name)) {
      const auto& info = file.info(name);
      if (info.shape == shape && info.dtype == dtype && !held) return;
      found = described(info.dtype, Shape(info.shape));
    }
    if (++misfits <= shown) fault(name + " " + found + " (this run: " + (held ? held : described(dtype, shape)) + ")");
  };
  std::vector<nn::NamedTensorOf<Model>> stored, left_out;
  const auto fingerprint = file.metadata().find(detail::left_out_name);
  for (const auto& t : nn::state(model)) {
    const std::string name = "model." + t.name;
    if (fingerprint != file.metadata().end() && detail::is_left_out(t) && !file.contains(name)) {
      left_out.push_back(t);
      continue;
    }
    look_at(name, t.value.shape(), io::dtype_of<T>(), t.value.instead());
    stored.push_back(t);
  }
  for (const auto& entry : memory.entries) look_at("optimizer." + entry.name, entry.values.shape(), io::dtype_of<Wide<T>>());
  if (misfits > 3) fault("and " + std::to_string(misfits - 3) + " tensors more");
  if (file.tensors().size() > wanted + 2) fault(std::to_string(file.tensors().size() - wanted - 2) + " tensors too many");
  if (faults.empty() && detail::metadata(file, "layout") != layout) fault("other parameters were trained (some are frozen?)");
  std::optional<io::SafetensorsFile> weights;
  if (faults.empty() && fingerprint != file.metadata().end()) {  // of the same tensors
    detail::Fingerprint ours;
    for (const auto& t : left_out) ours.add(t.name, t.value.to_host());
    if (ours.text() != fingerprint->second) weights = detail::weights_beside(path, left_out, fingerprint->second);
    if (ours.text() != fingerprint->second && !weights) fault("the frozen weights are others");
  }
  if (!faults.empty()) throw ValueError("resume: ", path.string(), " is of another run: ", faults);

  TrainingState state;
  detail::for_numbers(state, [&](const char* name, auto& value) {
    // States written before validation went by twentieths lack this number.
    if (std::string_view(name) != "twentieths" || file.metadata().contains(name)) detail::read_number(file, name, value);
  });
  index_t steps = 0, skipped = 0;
  detail::read_number(file, "optimizer_steps", steps);
  detail::read_number(file, "optimizer_skipped", skipped);
  constexpr index_t most = index_t{1} << 53;  // beyond any run, and far from where counting on would overflow
  for (const auto& [name, value] :
       {std::pair("step", state.step), std::pair("epoch", state.epoch), std::pair("position", state.position),
        std::pair("tokens", state.tokens), std::pair("optimizer_steps", steps), std::pair("optimizer_skipped", skipped),
        std::pair("twentieths", state.twentieths), std::pair("since_best", state.since_best),
        std::pair("token_sum", state.sum.tokens), std::pair("step_sum", state.sum.steps)})
    if (value < 0 || value > most)
      throw FormatError("resume: ", path.string(), ": ", name, " is ", value, ", expected 0 to ", most);
  state.curve = detail::curve_from(detail::read_table(file, "curve", detail::curve_columns));
  state.validations = detail::validations_from(detail::read_table(file, "validations", detail::validation_columns));
  for (const auto& t : stored) io::read_tensor_into(file, "model." + t.name, t.value);
  if (weights)
    for (const auto& t : left_out)
      if (!detail::is_held(t)) io::read_tensor_into(*weights, t.name, t.value);
  for (const auto& entry : memory.entries) {
    const std::string name = "optimizer." + entry.name;
    if constexpr (requires { entry.values.read(file, name); }) entry.values.read(file, name);
    else io::read_tensor_into(file, name, entry.values);
  }
  memory.steps = steps, memory.skipped = skipped;
  return state;
}

}  // namespace attend::train
