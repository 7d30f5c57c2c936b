#pragma once

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "attend/core/number_text.hpp"
#include "attend/io/folder_lock.hpp"
#include "attend/io/model.hpp"
#include "attend/io/model_files.hpp"
#include "attend/text/any_tokenizer.hpp"
#include "attend/train/checkpoint.hpp"

/// The folder of a training run: `best/` is the model of the best validation, `last/` that of the last checkpoint, both model
/// folders as `io::save` writes them; `last/training.safetensors` is what a later run goes on from. `step-1000/` and its like are
/// the checkpoints that were kept.
namespace attend::train {

namespace detail {

/// The file of a checkpoint that a run goes on from.
inline constexpr const char* state_name = "training.safetensors";

/// Writes what else is to be there into a folder that is being staged; null: nothing.
using MoreFiles = std::function<void(const std::filesystem::path& folder)>;

/// Writes the model's files, and the tokenizer's if it has any to save, into such a folder.
template <class Model>
void stage_model(const std::filesystem::path& staging, const Model& model, const text::AnyTokenizer& tokenizer,
                 const MoreFiles& more) {
  const io::SaveOptions options{.stored = {}};  // as the model has them, so that a run that goes on has the same
  if constexpr (requires { attend::detail::write_model_files(staging, model, options); }) {
    attend::detail::write_model_files(staging, model, options);
  } else {
    io::SafetensorsWriter writer;
    io::add_state(writer, model);
    writer.write(staging / "model.safetensors");
  }
  tokenizer.save_files(staging);
  if (more) more(staging);
}

}  // namespace detail

/// The model folder to use of `folder`: `folder` itself if it is one, otherwise its `best/`, otherwise its `last/`. Throws
/// IoError if it has none of these.
inline std::filesystem::path model_folder(const std::filesystem::path& folder) {
  for (const auto& candidate : {folder, folder / "best", folder / "last"}) {
    std::error_code ignored;
    if (std::filesystem::is_directory(candidate, ignored) && io::FolderReader(candidate).contains("model.safetensors"))
      return candidate;
  }
  std::error_code ignored;
  if (!std::filesystem::exists(folder, ignored))
    throw IoError("read: ", folder.string(), " is no model: there is no such folder");
  if (std::filesystem::is_directory(folder, ignored) && io::FolderReader(folder).contains("adapter_config.json"))
    throw IoError("read: ", folder.string(),
                  " is no model: it holds adapters, which `translate merge --adapters` or io::load_adapters puts into the model "
                  "that they are for");
  throw IoError("read: ", folder.string(), " is no model: it has neither model.safetensors nor best/ nor last/ with one");
}

/// The checkpoints that a run kept in its folder, oldest first; none if it kept none, or if there is no such folder.
inline std::vector<std::filesystem::path> kept_checkpoints(const std::filesystem::path& folder) {
  std::vector<std::pair<index_t, std::filesystem::path>> found;
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) return {};
  for (const std::string& name : attend::detail::names_in("read", folder)) {
    index_t step = 0;
    if (!name.starts_with("step-") || !parse_number(std::string_view(name).substr(5), step) || step < 0) continue;
    const auto path = folder / name;
    if (std::filesystem::is_directory(path, ignored) && io::FolderReader(path).contains(io::weights_file))
      found.emplace_back(step, path);
  }
  std::sort(found.begin(), found.end());
  std::vector<std::filesystem::path> list;
  for (auto& [step, path] : found) list.push_back(std::move(path));
  return list;
}

/// Writes the checkpoints of one run.
class RunFolder {
 public:
  /// No folder if `path` is empty. `more` writes what else each model is to have. The lock on the folder makes it: see
  /// io::FolderLock.
  explicit RunFolder(std::filesystem::path path, detail::MoreFiles more = {}) : path_(std::move(path)), more_(std::move(more)) {}

  /// Keeps other runs out by a lock, unless the caller already does so by `lock`, which may be null. Throws ValueError for the
  /// lock of another folder.
  void take(const io::FolderLock* lock) {
    if (lock == nullptr) {
      if (used()) lock_.emplace(path_);
      return;
    }
    std::error_code ignored;
    check_value(std::filesystem::equivalent(lock->folder(), path_, ignored), "fit", "lock is that of ", lock->folder().string(),
                ", expected that of output, `", path_.string(), "`");
  }
  [[nodiscard]] bool used() const { return !path_.empty(); }
  [[nodiscard]] std::filesystem::path best() const { return path_ / "best"; }
  [[nodiscard]] std::filesystem::path last() const { return path_ / "last"; }
  /// Whether there is a state to go on from.
  [[nodiscard]] bool has_state() const { return has(last(), detail::state_name); }
  /// Whether a run has left anything here.
  [[nodiscard]] bool holds_run() const {
    return has_state() || has(best(), io::weights_file) || !kept_checkpoints(path_).empty();
  }
  /// Takes away what an earlier run wrote, so that nothing of it is mistaken for this one's. Other files stay.
  void clear() const {
    if (!used()) return;
    for (const auto& folder : {best(), last()}) take_away(folder);
    for (const auto& folder : kept_checkpoints(path_)) take_away(folder);
  }

  /// Writes best/, whole or not at all. Throws IoError.
  template <class Model>
  void save_best(const Model& model, const text::AnyTokenizer& tokenizer) const {
    io::write_folder_atomically(
        best(), [&, this](const std::filesystem::path& staging) { detail::stage_model(staging, model, tokenizer, more_); });
  }
  /// Writes last/: the model and, by write_state(path), the training state, together all that a later run needs. It is replaced
  /// as one: a crash leaves either this checkpoint or the one before.
  template <class Model, class F>
  void save_last(const Model& model, const text::AnyTokenizer& tokenizer, F&& write_state) const {
    io::write_folder_atomically(last(), [&](const std::filesystem::path& staging) {
      detail::stage_model(staging, model, tokenizer, more_);
      write_state(staging / detail::state_name);
    });
  }
  /// The model of that step in a folder of its own, of which the last `count` stay.
  template <class Model>
  void keep(const Model& model, const text::AnyTokenizer& tokenizer, index_t step, index_t count) const {
    io::write_folder_atomically(path_ / ("step-" + std::to_string(step)), [&](const std::filesystem::path& staging) {
      detail::stage_model(staging, model, tokenizer, more_);
    });
    const auto kept = kept_checkpoints(path_);
    for (std::size_t i = 0; i + static_cast<std::size_t>(count) < kept.size(); ++i) take_away(kept[i]);
  }
  /// Calls read_state(path). Throws IoError if there is none.
  template <class F>
  void load_last(F&& read_state) const {
    if (!has_state()) throw IoError("fit: cannot resume: ", last().string(), " has no ", detail::state_name);
    const io::FolderReader reader(last());
    read_state(reader.file(detail::state_name));
  }

 private:
  /// Removes a run's files from a folder, and the folder if nothing else is in it.
  static void take_away(const std::filesystem::path& folder) {
    std::error_code ignored;
    if (!std::filesystem::is_directory(folder, ignored)) return;
    std::vector<std::string> names(io::settings_files.begin(), io::settings_files.end());
    for (const char* name : {io::weights_file, detail::state_name}) names.emplace_back(name);
    io::write_folder_atomically(folder, [](const std::filesystem::path&) {}, {.remove = names});
    std::filesystem::remove(folder, ignored);
  }
  [[nodiscard]] bool has(const std::filesystem::path& folder, const char* name) const {
    std::error_code ignored;
    return used() && std::filesystem::is_directory(folder, ignored) && io::FolderReader(folder).contains(name);
  }
  std::filesystem::path path_;
  detail::MoreFiles more_;
  std::optional<io::FolderLock> lock_;  // if the caller has none
};

}  // namespace attend::train
