// translate average: a model whose weights are the mean of those of several.

#include "attend/io/average.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "attend/core/shape.hpp"
#include "attend/train/run_folder.hpp"
#include "commands.hpp"
#include "model_folder.hpp"

namespace translate {

namespace {

using namespace attend;
namespace fs = std::filesystem;

struct AverageCommand {
  std::vector<std::string> folders;
  std::string out;
  index_t last = 0;
};

/// The models that a folder stands for: the checkpoints that a run kept there, otherwise the one that `translate run` would take.
std::vector<fs::path> models(const std::string& folder, index_t last) {
  auto kept = train::kept_checkpoints(folder);
  if (kept.empty()) return {train::model_folder(folder)};
  if (last > 0 && count_of(kept) > last) kept.erase(kept.begin(), kept.end() - last);
  return kept;
}

void average(const AverageCommand& flags) {
  std::vector<fs::path> list;
  for (const auto& folder : flags.folders)
    for (const auto& found : models(folder, flags.last)) list.push_back(found);
  check_out("average", flags.out);
  io::average(list, flags.out);
  std::string names;
  for (const auto& path : list) names += "\n  " + path.string();
  std::fprintf(stderr, "average: the mean of%s\naverage: translate with: translate run --model %s\n", names.c_str(),
               flags.out.c_str());
}

}  // namespace

void add_average(CLI::App& app) {
  auto* command = app.add_subcommand("average", "Make one model of several checkpoints: the mean of their weights");
  command->footer(
      "The last checkpoints of one training, averaged, often translate better than any of them. They must be alike in\n"
      "configuration and tokenizer.\n\n"
      "  translate train --pairs en-es.tsv --out model --checkpoint-every 500 --keep-checkpoints 5\n"
      "  translate average model --out averaged\n"
      "  translate run --model averaged");
  auto flags = std::make_shared<AverageCommand>();
  command
      ->add_option("folders", flags->folders,
                   "Folders of models; that of a training stands for the checkpoints it kept, or else for its best model")
      ->type_name("FOLDER")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->required();
  command->add_option("--out", flags->out, "Where the mean goes, a whole model")->type_name("FOLDER")->required();
  command->add_option("--last", flags->last, "Of each training's kept checkpoints, so many of the last; 0: all")
      ->check(CLI::Range(0, 1 << 30))
      ->capture_default_str();
  command->callback([flags] { average(*flags); });
}

}  // namespace translate
