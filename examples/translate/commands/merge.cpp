// translate merge: a model with its low-rank adapters folded into its weights; translate adapters: the adapters alone.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "attend/adapters.hpp"
#include "attend/load.hpp"
#include "commands.hpp"
#include "model_folder.hpp"

namespace translate {

namespace {

using namespace attend;

struct MergeCommand {
  std::string model, adapters, out, base;
};

void merge(const MergeCommand& flags) {
  check_out("merge", flags.out);
  check_floats("merge", flags.model,
               "; `translate adapters` writes adapters beside them by themselves, which may be merged into such a model");
  auto loaded = load(flags.model);
  if (!flags.adapters.empty()) {
    check_value(!nn::has_adapters(loaded.model), "merge", flags.model,
                " has adapters of its own; merge them first, or leave out --adapters");
    io::load_adapters(flags.adapters, loaded.model);
  }
  check_value(nn::has_adapters(loaded.model), "merge", flags.model, " has no adapters; give those of --adapters");
  const auto modules = nn::adapted_modules(loaded.model).size();
  nn::merge_adapters(loaded.model);
  io::save(flags.out, loaded.model, loaded.tokenizer,
           {.more = [&](const auto& folder) { decode::save_search(folder, loaded.search); }});
  std::fprintf(stderr, "merge: %zu adapters are in the weights now\nmerge: translate with: translate run --model %s\n", modules,
               flags.out.c_str());
}

void save_adapters(const MergeCommand& flags) {
  const io::LoadFor purpose(Precision::full);  // of the matrices nothing is wanted
  const auto loaded = load(flags.model);
  check_value(nn::has_adapters(loaded.model), "adapters", flags.model, " has no adapters");
  check_out("adapters", flags.out);
  io::save_adapters(flags.out, loaded.model,
                    {.family = flags.base.empty() ? "" : pretrained_family(flags.base), .base = flags.base});
  std::fprintf(stderr, "adapters: %zu adapters of rank %lld are in %s\n", nn::adapted_modules(loaded.model).size(),
               static_cast<long long>(loaded.model.options.adapters.rank), flags.out.c_str());
}

}  // namespace

void add_merge(CLI::App& app) {
  auto* command = app.add_subcommand("merge", "Fold low-rank adapters into the weights of a model");
  command->footer(
      "What `translate train --adapter-rank` writes, `translate run` takes as it is. Folded in, the adapters cost no time, the\n"
      "translations are the same but for rounding, and the model may be trained on as a whole.\n\n"
      "  translate train --init model --adapter-rank 8 --pairs law.tsv --out law\n"
      "  translate merge law --out law-merged\n"
      "  translate merge t5-small --adapters from-peft --out law-merged");
  auto flags = std::make_shared<MergeCommand>();
  command->add_option("model", flags->model, "A model with adapters, or with --adapters one without")
      ->type_name("FOLDER")
      ->required();
  command
      ->add_option("--adapters", flags->adapters,
                   "Adapters by themselves, as `translate adapters` or the PEFT library writes them, for that model")
      ->type_name("FOLDER");
  command->add_option("--out", flags->out, "Where the model goes")->type_name("FOLDER")->required();
  command->callback([flags] { merge(*flags); });
}

void add_adapters(CLI::App& app) {
  auto* command =
      app.add_subcommand("adapters", "Write the low-rank adapters of a model by themselves, as the PEFT library does");
  command->footer(
      "A folder of adapter_config.json and adapter_model.safetensors, some hundred kilobytes. `translate merge --adapters` puts\n"
      "them into the model that they were trained for; so does Python's PeftModel.from_pretrained where --base names the\n"
      "folder of the transformers library that they were trained beside.\n\n"
      "  translate train --init t5-small --adapter-rank 8 --pairs law.tsv --out law\n"
      "  translate adapters law --base t5-small --out law-adapters\n"
      "  translate merge t5-small --adapters law-adapters --out law-merged");
  auto flags = std::make_shared<MergeCommand>();
  command->add_option("model", flags->model, "A model with adapters")->type_name("FOLDER")->required();
  command->add_option("--base", flags->base, "The model that they were trained beside: modules are called as in its family")
      ->type_name("FOLDER");
  command->add_option("--out", flags->out, "Where the adapters go")->type_name("FOLDER")->required();
  command->callback([flags] { save_adapters(*flags); });
}

}  // namespace translate
