#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "attend/io/folder_lock.hpp"
#include "attend/text/corpus.hpp"
#include "flags/adapter_flags.hpp"
#include "flags/language_flags.hpp"
#include "flags/model_flags.hpp"
#include "flags/place.hpp"
#include "flags/train_flags.hpp"
#include "pair_files.hpp"
#include "ranks.hpp"

/// Training from the command line: `translate train`, and commands that end with one.
namespace translate {

struct TrainCommand {
  PairFiles files;
  std::string out, init, prepared, teacher;
  std::vector<std::string> validation_pairs, test_pairs, freeze;
  attend::index_t validation_size = 1000, test_size = 0, vocabulary = 0, max_characters = 1000;
  bool skip_invalid_utf8 = false, reverse = false, no_bleu = false, resume = false, overwrite = false;

  [[nodiscard]] attend::text::ReadOptions reading() const {
    return {.max_characters = max_characters, .skip_invalid_utf8 = skip_invalid_utf8};
  }
  LanguageFlags languages;
  ModelFlags model;
  AdapterFlags adapters;
  TrainFlags train;
  Place place;
  RankList ranks;
};

/// The options of a training of a new model: where its pairs, sizes and settings come from and where it goes. Gives `--pairs` and
/// `--source`, for what excludes them.
std::pair<CLI::Option*, CLI::Option*> add_new_training(CLI::App& command, TrainCommand& flags);
/// All options of `translate train`.
void add_training(CLI::App& command, TrainCommand& flags);

/// The pairs to train on, to validate with and to test with, as the options say; says on standard error what became of the lines
/// of the files. Throws ValueError if there is nothing to train on, and whatever reading throws.
attend::text::Split split_pairs(const char* command, const TrainCommand& flags);
/// Throws ValueError if the options of a training do not go together, as far as that shows before its pairs are read.
void check_training(const CLI::App& command, const TrainCommand& flags);
/// Throws what loading the teacher throws, for a command that has to know before its training begins that this goes well.
void check_teacher(const TrainCommand& flags);
/// As check_training for a training of a new model on so many pairs, and whether there are some to validate with.
void check_new_training(const CLI::App& command, const TrainCommand& flags, attend::index_t pairs, bool validates);
/// Trains. `command` must have the options of `add_training`, `flags` what it says, and `lock` may be the lock on `--out`.
void start_training(CLI::App& command, TrainCommand& flags, std::optional<attend::io::FolderLock>& lock);

}  // namespace translate
