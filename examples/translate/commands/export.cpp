// translate export: a model as the transformers library of Hugging Face has it.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "attend/load.hpp"
#include "commands.hpp"
#include "model_folder.hpp"

namespace translate {

namespace {

using namespace attend;

struct ExportCommand {
  std::string model, base, out, stored = "float32";

  /// The folder that says the family and its marks.
  [[nodiscard]] const std::string& origin() const { return base.empty() ? model : base; }
  [[nodiscard]] io::DType type() const {
    return stored == "bfloat16" ? io::DType::bf16 : stored == "float16" ? io::DType::f16 : io::DType::f32;
  }
};

/// The family that a model is written as: that of the model with which its training began, or else Marian's.
std::string family_of(const ExportCommand& flags) {
  const std::string family = pretrained_family(flags.origin());
  check_value(flags.base.empty() || !family.empty(), "export", "--base ", flags.base, " is no model of the transformers library");
  return family.empty() ? "marian" : family;
}

void export_model(const ExportCommand& flags) {
  check_out("export", flags.out);
  check_floats("export", flags.model);
  const std::string family = family_of(flags);
  const auto loaded = load(flags.model);
  check_value(family != "marian" || !loaded.tokenizer.as<text::PretrainedTokenizer>(), "export", flags.model,
              " has a tokenizer of another family than Marian's; name the folder with which its training began by --base");
  if (family == "marian") {
    io::SaveMarianOptions options{.stored = flags.type()};
    const auto folder = model_folder(flags.model);
    // One that nobody has said is to be searched otherwise than usual, which Marian's files cannot say.
    if (is_pretrained_folder(folder) || io::FolderReader(folder).contains(io::search_file)) options.search = loaded.search;
    io::save_marian(flags.out, loaded.model, loaded.tokenizer, options);
  } else {
    io::save_pretrained(flags.out, loaded, io::pretrained_config(flags.origin()), {.stored = flags.type()});
  }
  std::fprintf(stderr, "export: a model of the family %s is in %s\n", family.c_str(), flags.out.c_str());
}

}  // namespace

void add_export(CLI::App& app) {
  auto* command = app.add_subcommand("export", "Write a model for the transformers library");
  command->footer(
      "What was trained on from a model of Hugging Face's becomes one of its family again: --base names the folder with which\n"
      "training began. A model of this program's own is written as one of Marian's, if its tokenizer and its options allow\n"
      "that; what stands in the way is said. Adapters are to be merged first. CTranslate2 converts such folders.\n\n"
      "  translate train --init t5-small --pairs law.tsv --out law\n"
      "  translate export law --base t5-small --out law-t5\n"
      "  translate export model --out model-marian");
  auto flags = std::make_shared<ExportCommand>();
  command->add_option("model", flags->model, "The model: a folder of this program, of a training, or of the transformers library")
      ->type_name("FOLDER")
      ->required();
  command->add_option("--base", flags->base, "The folder of the transformers library that it was trained on from")
      ->type_name("FOLDER");
  command->add_option("--stored", flags->stored, "How its numbers are stored")
      ->check(CLI::IsMember({"float32", "bfloat16", "float16"}))
      ->capture_default_str();
  command->add_option("--out", flags->out, "Where the folder goes")->type_name("FOLDER")->required();
  command->callback([flags] { export_model(*flags); });
}

}  // namespace translate
