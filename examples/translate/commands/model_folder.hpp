#pragma once

#include <filesystem>
#include <string>
#include <system_error>

#include "attend/load.hpp"
#include "attend/text/any_tokenizer.hpp"
#include "attend/train/run_folder.hpp"

namespace translate {

/// The model folder that a folder on the command line stands for: itself if it is of the `transformers` library, whatever its
/// weights are called, otherwise as train::model_folder says. Throws as that, and as attend::pretrained_family.
inline std::filesystem::path model_folder(const std::filesystem::path& folder) {
  return attend::is_pretrained_folder(folder) ? folder : attend::train::model_folder(folder);
}

/// The tokenizer there. Throws also as attend::load_tokenizer.
inline attend::text::AnyTokenizer tokenizer_of(const std::filesystem::path& folder) {
  return attend::load_tokenizer(model_folder(folder));
}

/// The config.json of a model in attend's own layout; empty, and false, for a folder of the `transformers` library.
struct OwnConfig {
  explicit OwnConfig(const std::string& folder) {
    const auto found = model_folder(folder);
    if (attend::is_pretrained_folder(found)) return;
    path = attend::io::FolderReader(found).file("config.json").string();
    json = attend::io::read_json(path);
  }
  explicit operator bool() const { return !path.empty(); }

  std::string path;
  nlohmann::json json;
};

/// Whether the model there is of 8-bit integers.
inline bool is_quantized(const std::string& folder) {
  const OwnConfig config(folder);
  return config && attend::io::says_quantized(config.json, config.path);
}

/// Throws ValueError, which begins with the command's name and ends with the advice, if it is.
inline void check_floats(const char* command, const std::string& folder, const char* advice = "") {
  attend::check_value(!is_quantized(folder), command, folder,
                      " is of 8-bit integers, which are for translation; expected a model in floats", advice);
}

/// Whether the model there has low-rank adapters, beside which its weights stay as they are in training.
inline bool trains_adapters(const std::string& folder) {
  const OwnConfig config(folder);
  return config && attend::io::model_options_from(config.json, config.path).adapters.rank > 0;
}

/// Throws ValueError for a folder in which another model would be lost.
inline void check_out(const char* command, const std::string& out) {
  using namespace attend;
  std::error_code ignored;
  if (!std::filesystem::is_directory(out, ignored)) return;
  check_value(!io::FolderReader(out).contains("config.json") && !io::FolderReader(out).contains(io::weights_file), command, out,
              " holds a model already, which would be lost; choose another --out");
  check_value(!train::RunFolder(out).holds_run(), command, out,
              " is the folder of a training, whose best model would no more be what `translate run` takes; choose another --out");
}

/// Throws ValueError, which begins with the command's name, if the model that learns is written where its teacher is: into the
/// same folder, whatever it is called, or into that of a run of which the teacher is the best, the last or a kept model. Throws
/// as model_folder if there is such a folder and no teacher.
inline void check_teacher_apart(const char* command, const std::string& teacher, const std::filesystem::path& out) {
  using namespace attend;
  std::error_code ignored;
  if (!std::filesystem::is_directory(out, ignored)) return;
  const auto model = model_folder(teacher);
  auto places = train::kept_checkpoints(out);
  for (const auto& place : {out, train::RunFolder(out).best(), train::RunFolder(out).last()}) places.push_back(place);
  for (const auto& place : places)
    check_value(!std::filesystem::equivalent(model, place, ignored), command, "--teacher ", teacher, " is a model in --out ",
                out.string(), ", which the student would take the place of; choose another --out");
}

}  // namespace translate
