#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include "attend/io/model.hpp"
#include "attend/train/checkpoint.hpp"

/// The folder of a training run: `best/` is the model of the best validation, `last/` that of the last checkpoint, both model
/// folders as `io::save` writes them; `last/training.safetensors` is what a later run goes on from.
namespace attend::train {

namespace detail {

inline constexpr const char* state_name = "training.safetensors";

/// Writes the model folder. A model that `io::save` does not know gets its weights alone, without a `config.json`.
template <class Model, class Tokenizer>
void save_model(const std::filesystem::path& folder, const Model& model, const Tokenizer& tokenizer) {
  const io::SaveOptions options{.stored = io::dtype_of<typename Model::value_type>()};
  if constexpr (requires { io::save(folder, model, tokenizer, options); }) {
    io::save(folder, model, tokenizer, options);
  } else if constexpr (requires { io::save(folder, model, options); }) {
    io::save(folder, model, options);
  } else {
    io::write_folder_atomically(folder, [&](const std::filesystem::path& staging) {
      io::SafetensorsWriter writer;
      io::add_state(writer, model);
      writer.write(staging / "model.safetensors");
      if constexpr (requires { tokenizer.save(staging); }) tokenizer.save(staging / "tokenizer.model");
    });
  }
}

}  // namespace detail

/// The model folder to use of `folder`: itself where it is one, else its `best/`, else its `last/`. Throws IoError where it has
/// none of these.
inline std::filesystem::path model_folder(const std::filesystem::path& folder) {
  for (const auto& candidate : {folder, folder / "best", folder / "last"}) {
    std::error_code ignored;
    if (std::filesystem::is_directory(candidate, ignored) && io::FolderReader(candidate).contains("model.safetensors"))
      return candidate;
  }
  throw IoError("read: " + folder.string() + " is no model: it has neither model.safetensors nor best/ nor last/ with one");
}

/// Writes the checkpoints of one run.
class RunFolder {
 public:
  /// No folder where `path` is empty; else it is made. Throws IoError.
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {
    if (!used()) return;
    std::error_code error;
    std::filesystem::create_directories(path_, error);
    if (error) throw IoError("fit: " + path_.string() + ": " + error.message());
  }

  [[nodiscard]] bool used() const { return !path_.empty(); }
  [[nodiscard]] std::filesystem::path best() const { return path_ / "best"; }
  [[nodiscard]] std::filesystem::path last() const { return path_ / "last"; }
  /// Whether there is a state to go on from.
  [[nodiscard]] bool has_state() const { return has(last(), detail::state_name); }
  /// Whether a run has left anything here.
  [[nodiscard]] bool holds_run() const { return has_state() || has(best(), "model.safetensors"); }
  /// Takes away what an earlier run wrote, so that nothing of it is mistaken for this one's. Other files stay.
  void clear() const {
    for (const auto& folder : {best(), last()}) {
      std::error_code ignored;
      if (!used() || !std::filesystem::is_directory(folder, ignored)) continue;
      io::write_folder_atomically(folder, [](const std::filesystem::path&) {},
                                  {.remove = {"model.safetensors", "config.json", "tokenizer.model", detail::state_name}});
      std::filesystem::remove(folder, ignored);  // where it is empty
    }
  }

  template <class Model, class Tokenizer>
  void save_best(const Model& model, const Tokenizer& tokenizer) const {
    detail::save_model(best(), model, tokenizer);
  }
  /// write_state(path) writes the training state, which is all that a later run needs; then the model is saved beside it. Each
  /// is replaced as a whole, so a crash between the two leaves the model one checkpoint behind, and no harm.
  template <class Model, class Tokenizer, class F>
  void save_last(const Model& model, const Tokenizer& tokenizer, F&& write_state) const {
    std::error_code error;
    std::filesystem::create_directories(last(), error);
    if (error) throw IoError("fit: " + last().string() + ": " + error.message());
    write_state(last() / detail::state_name);
    detail::save_model(last(), model, tokenizer);
  }
  /// Calls read_state(path). Throws IoError where there is none.
  template <class F>
  void load_last(F&& read_state) const {
    if (!has_state()) throw IoError("fit: cannot resume: " + last().string() + " has no " + detail::state_name);
    const io::FolderReader reader(last());
    read_state(reader.file(detail::state_name));
  }

 private:
  [[nodiscard]] bool has(const std::filesystem::path& folder, const char* name) const {
    std::error_code ignored;
    return used() && std::filesystem::is_directory(folder, ignored) && io::FolderReader(folder).contains(name);
  }
  std::filesystem::path path_;
};

}  // namespace attend::train
