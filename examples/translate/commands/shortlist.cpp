// translate shortlist: which words a translation of a sentence may need, learned from sentence pairs.

#include "attend/translate/shortlist.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "attend/train/batches.hpp"
#include "commands.hpp"
#include "flags/language_flags.hpp"
#include "model_folder.hpp"
#include "pair_files.hpp"

namespace translate {

namespace {

using namespace attend;

struct ShortlistCommand {
  std::string model, out;
  PairFiles files;
  LanguageFlags languages;
  bool skip_invalid_utf8 = false;
  decode::ShortlistOptions options;
};

void learn_shortlist(const ShortlistCommand& flags) {
  const auto tokenizer = flags.languages.choose(tokenizer_of(flags.model), flags.model);
  const auto corpus = flags.files.read("shortlist", {.skip_invalid_utf8 = flags.skip_invalid_utf8});
  const auto pairs = train::encode_pairs(corpus, tokenizer);
  const auto list = decode::Shortlist::learn(pairs, tokenizer.size(), tokenizer.target_size(), flags.options);
  list.save(flags.out);
  double sum = 0;
  const index_t looked_at = std::min<index_t>(pairs.size(), 10'000);
  for (index_t i = 0; i < looked_at; ++i) sum += static_cast<double>(list.allowed(pairs.source(i)).size());
  std::fprintf(stderr, "%s: about %.0f of %lld tokens for a sentence\n", flags.out.c_str(),
               looked_at > 0 ? sum / static_cast<double>(looked_at) : 0, static_cast<long long>(tokenizer.target_size()));
}

}  // namespace

void add_shortlist(CLI::App& app) {
  auto* command = app.add_subcommand("shortlist", "Learn which words translations may need, for a faster `translate run`");
  auto flags = std::make_shared<ShortlistCommand>();
  command->add_option("--model", flags->model, "Folder of the model whose tokens they are")->type_name("FOLDER")->required();
  flags->languages.add_to(*command, "the sources");
  auto* pairs = takes_all(command->add_option(
      "--pairs", flags->files.pairs, "Sentence pairs, `source, tab, target` a line: those of the training. May come often"));
  auto* source = takes_all(command->add_option("--source", flags->files.sources, "Or the sources, a sentence a line"));
  source->excludes(pairs);
  takes_all(command->add_option("--target", flags->files.targets, "And their translations"))->needs(source);
  command->add_flag("--skip-invalid-utf8", flags->skip_invalid_utf8,
                    "Leave out and count pairs that are not UTF-8, instead of an error");
  command->add_option("--out", flags->out, "The file to write, shortlist.safetensors for example")->type_name("FILE")->required();
  command->add_option("--best", flags->options.best, "For each source token its most probable translations, so many")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  command->add_option("--frequent", flags->options.frequent, "For every sentence the most frequent target tokens, so many")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  command->add_option("--iterations", flags->options.iterations, "Of the learning")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->callback([flags] { learn_shortlist(*flags); });
}

}  // namespace translate
