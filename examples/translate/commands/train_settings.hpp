#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "attend/core/shape.hpp"
#include "attend/io/json.hpp"
#include "flags/adapter_flags.hpp"
#include "flags/model_flags.hpp"

/// What a run was started with is kept beside the model, so that `--resume --out FOLDER` alone goes on.
namespace translate {

constexpr const char* settings_name = "train.json";

/// Saves them with the `parts` of the run, which follow from the number of ranks if they are not given.
inline void save_settings(const CLI::App& command, const std::filesystem::path& out, attend::index_t parts) {
  using namespace attend;
  io::Json json = io::Json::object();
  for (const CLI::Option* option : command.get_options())
    if (option->count() > 0 && option->get_lnames().size() == 1) json[option->get_lnames().front()] = option->reduced_results();
  json["parts"] = std::vector<std::string>{std::to_string(parts)};
  for (const char* name : {"resume", "overwrite", "out", "help"}) json.erase(name);
  for (const char* name :
       {"pairs", "source", "target", "validation-pairs", "test-pairs", "init", "teacher", "prepared", "csv", "tensorboard"})
    if (json.contains(name))
      for (auto& path : json[name]) path = std::filesystem::absolute(path.get<std::string>()).string();
  io::write_json(out / settings_name, json);
}

/// Whether the command line says anew, by another option, what this option says: where the pairs come from.
inline bool replaced(const CLI::App& command, const std::string& name) {
  const auto given = [&](const char* other) {
    const CLI::Option* option = command.get_option_no_throw(other);
    return option != nullptr && option->count() > 0;
  };
  if (name == "prepared") return given("--pairs") || given("--source");
  if (name == "pairs") return given("--prepared") || given("--source");
  return (name == "source" || name == "target") && (given("--prepared") || given("--pairs"));
}

/// Takes over the settings of the run that is resumed, the text of the file `name_of_text`, but for what the command line says
/// anew. Throws ValueError if it says anew what made the model, or names a teacher for a run that has none; FormatError if `text`
/// is not such settings.
inline void restore_settings(CLI::App& command, const std::filesystem::path& out, const std::string& text,
                             const std::string& name_of_text) {
  using namespace attend;
  const auto json = io::parse_json(text, name_of_text);
  const io::JsonObject settings(json, name_of_text);
  for (CLI::Option* option : command.get_options()) {
    if (option->get_lnames().size() != 1) continue;
    const std::string& name = option->get_lnames().front();
    if (option->count() == 0 && replaced(command, name)) continue;
    auto then = settings.get<std::vector<std::string>>(name, {});
    if (then.empty() && name == "parts") then = {"1"};  // settings of before had them only if they were more
    if (option->count() > 0) {
      std::string now = option->reduced_results().front();
      if (name == "init") now = std::filesystem::absolute(now).string();
      const std::string was = then.empty() ? option->get_default_str() : then.front();
      check_value(name != "teacher" || !then.empty(), "train", "--resume goes on with the run of ", out.string(),
                  ", which has no teacher, so --teacher ", now, " cannot join it: leave it out, or train anew");
      const bool makes_model = option->get_group() == ModelFlags::group || option->get_group() == AdapterFlags::group ||
                               name == "vocabulary" || name == "init";
      check_value(!makes_model || now == was, "train", "--resume goes on with the model of ", out.string(), ", so --", name,
                  " cannot become ", now, (was.empty() ? "" : ", it was " + was));
    } else if (!then.empty()) {
      try {
        option->add_result(then);
        option->run_callback();
      } catch (const CLI::Error& e) {
        throw FormatError(settings.name(), ": ", e.what());
      }
    }
  }
}

}  // namespace translate
