// translate quantize: a model whose matrices are 8-bit integers.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "attend/load.hpp"
#include "commands.hpp"
#include "model_folder.hpp"

namespace translate {

namespace {

using namespace attend;

struct QuantizeCommand {
  std::string model, out;
};

/// Megabytes of the parameters in floats.
double megabytes(const nn::Transformer<float>& model) {
  double numbers = 0;
  for (const auto& p : nn::parameters(model)) numbers += static_cast<double>(p.size());
  return numbers * sizeof(float) / 1e6;
}

void quantize(const QuantizeCommand& flags) {
  check_out("quantize", flags.out);
  check_floats("quantize", flags.model);
  const io::LoadFor purpose(Precision::full);  // which leaves a file in bfloat16 where it is
  const auto loaded = load(flags.model);
  io::save(flags.out, loaded.model, loaded.tokenizer,
           {.quantized = true, .more = [&](const auto& folder) { decode::save_search(folder, loaded.search); }});
  const auto bytes = std::filesystem::file_size(io::FolderReader(flags.out).file(io::weights_file));
  std::fprintf(stderr, "quantize: the weights take %.1f MB, in floats %.1f\nquantize: translate with: translate run --model %s\n",
               static_cast<double>(bytes) / 1e6, megabytes(loaded.model), flags.out.c_str());
}

}  // namespace

void add_quantize(CLI::App& app) {
  auto* command = app.add_subcommand("quantize", "Write a model in 8-bit integers, a quarter of the size, for translation");
  command->footer(
      "Matrices become 8-bit integers with a scale for each row. `translate run` takes the folder as it is, loads it sooner, "
      "needs\n"
      "a quarter of the memory, and translates as with --precision int8. It can no more be trained on, merged or averaged: keep\n"
      "the model that it was made of.\n\n"
      "  translate quantize --model model --out model-int8\n"
      "  translate run --model model-int8 < input.txt");
  auto flags = std::make_shared<QuantizeCommand>();
  command
      ->add_option("--model", flags->model,
                   "The model: a folder of this program, of a training, or of a family of the transformers library")
      ->type_name("FOLDER")
      ->required();
  command->add_option("--out", flags->out, "Where the model in 8-bit integers goes, with its tokenizer")
      ->type_name("FOLDER")
      ->required();
  command->callback([flags] { quantize(*flags); });
}

}  // namespace translate
