#include "training.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "attend/core/error.hpp"

namespace translate {

using namespace attend;

std::pair<CLI::Option*, CLI::Option*> add_new_training(CLI::App& command, TrainCommand& flags) {
  const auto pairs = flags.files.add_to(command);
  command.add_flag("--reverse", flags.reverse, "Translate the other way, from target to source, and from --to to --from");
  flags.languages.add_to(command, "the sources");
  command.add_option("--out", flags.out, "Where the checkpoints go: best/ and last/, both whole models")
      ->type_name("FOLDER")
      ->required();
  command.add_flag("--overwrite", flags.overwrite, "Begin anew where --out holds another run, which is then lost");
  auto* validation = command.add_option("--validation-size", flags.validation_size, "Pairs to hold out for validation");
  validation->check(CLI::Range(0, 1 << 30))->capture_default_str();
  takes_all(command.add_option("--validation-pairs", flags.validation_pairs,
                               "A file of pairs to validate with, in place of held-out ones. May come often"))
      ->excludes(validation);
  command.add_flag("--no-bleu", flags.no_bleu,
                   "Validate by the loss alone, without translating: less time and memory beside a large model");
  auto* test = command.add_option("--test-size", flags.test_size, "Pairs to hold out and score the best model with at the end");
  test->check(CLI::Range(0, 1 << 30))->capture_default_str();
  takes_all(command.add_option("--test-pairs", flags.test_pairs,
                               "A file of pairs to score it with, in place of held-out ones. May come often"))
      ->excludes(test);
  command
      .add_option("--vocabulary", flags.vocabulary,
                  "Subwords of both languages together, by the number of pairs; a small corpus gives fewer")
      ->check(CLI::Range(8, 1 << 20));
  command.add_option("--max-characters", flags.max_characters, "Pairs with a longer side are left out")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str();
  command.add_flag("--skip-invalid-utf8", flags.skip_invalid_utf8,
                   "Leave out and count pairs that are not UTF-8, instead of an error");
  flags.model.add_to(command);
  flags.train.add_to(command);
  flags.place.add_to(command, false);
  return pairs;
}

void add_training(CLI::App& command, TrainCommand& flags) {
  const auto [pairs, source] = add_new_training(command, flags);
  auto* prepared =
      command.add_option("--prepared", flags.prepared, "In place of all that: what `translate prepare` has made of pairs");
  prepared->type_name("FOLDER")->excludes(pairs)->excludes(source);
  command
      .add_option("--init", flags.init,
                  "Train on from this model, of a training or of Hugging Face (Marian, NLLB, BART, T5, …), with its tokenizer")
      ->type_name("FOLDER");
  command
      .add_option(
          "--teacher", flags.teacher,
          "Learn also from how likely this model thinks each word of the targets, as --init of any folder; a new model has "
          "its tokenizer")
      ->type_name("FOLDER");
  command.add_option("--freeze", flags.freeze, "Leave the weights of that name as they are; *: any characters. May come often")
      ->type_name("PATTERN")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->expected(1);
  flags.adapters.add_to(command);
  command.add_flag("--resume", flags.resume, "Go on from the last checkpoint in --out, with the options of that run");
  for (const char* name : {"--reverse", "--validation-size", "--validation-pairs", "--test-size", "--test-pairs", "--vocabulary",
                           "--max-characters", "--skip-invalid-utf8"})
    prepared->excludes(name);
}

text::Split split_pairs(const char* command, const TrainCommand& flags) {
  const auto read = [&](const PairFiles& files) {
    auto corpus = files.read(command, flags.reading());
    return flags.reverse ? corpus.reversed() : corpus;
  };
  auto corpus = read(flags.files);
  check_value(!corpus.empty(), command, "there is no sentence pair to train on");
  const bool own_validation = !flags.validation_pairs.empty(), own_test = !flags.test_pairs.empty();
  // Of a small file, a tenth at most is held out, lest too little is left to learn from.
  const index_t validation = own_validation ? 0 : std::min(flags.validation_size, corpus.size() / 10);
  if (!own_validation && validation < flags.validation_size)
    std::fprintf(stderr, "%s: %lld pairs are few, so %lld of them are for validation instead of %lld\n", command,
                 static_cast<long long>(corpus.size()), static_cast<long long>(validation),
                 static_cast<long long>(flags.validation_size));
  auto parts = text::split_by_source(
      std::move(corpus), {.validation = validation, .test = own_test ? 0 : flags.test_size, .seed = flags.train.fit.given.seed});
  if (own_validation) {
    parts.validation = read({.pairs = flags.validation_pairs});
    check_value(!parts.validation.empty(), command, "there is no sentence pair in --validation-pairs to validate with");
  }
  if (own_test) {
    parts.test = read({.pairs = flags.test_pairs});
    check_value(!parts.test.empty(), command, "there is no sentence pair in --test-pairs to test with");
  }
  return parts;
}

}  // namespace translate
