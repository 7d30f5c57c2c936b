// translate prepare: pairs in tokens, for corpora that are larger than memory, or trained on more than once.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include "attend/io/folder.hpp"
#include "attend/io/model_files.hpp"
#include "attend/load.hpp"
#include "attend/text/sentencepiece.hpp"
#include "attend/text/suspicions.hpp"
#include "attend/train/pair_file.hpp"
#include "attend/train/recipe.hpp"
#include "commands.hpp"
#include "flags/language_flags.hpp"
#include "model_folder.hpp"
#include "pair_files.hpp"
#include "prepared.hpp"
#include "ranks.hpp"

namespace translate {

using namespace attend;
namespace fs = std::filesystem;

void check_prepared(const text::AnyTokenizer& tokenizer, const text::AnyTokenizer& other, const std::string& folder) {
  bool same = tokenizer.size() == other.size() && tokenizer.target_size() == other.target_size();
  for (token_t t = 0; same && t < tokenizer.size(); ++t) same = tokenizer.piece(t) == other.piece(t);
  for (token_t t = 0; same && t < tokenizer.target_size(); ++t) same = tokenizer.target_piece(t) == other.target_piece(t);
  check_value(same, "train", "--prepared is in the tokens of another tokenizer than that of ", folder, ": prepare --model ",
              folder, " takes its");
  const auto first = [](const text::AnyTokenizer& t) {
    return t.forced_begin() < 0 ? "no token of its own" : detail::printable(t.target_piece(t.forced_begin()));
  };
  const bool spoken = !tokenizer.target_language().empty() || !other.target_language().empty();
  check_value(spoken || tokenizer.forced_begin() == other.forced_begin(), "train", "--prepared has targets that begin with ",
              first(tokenizer), ", and those of ", folder, " begin with ", first(other), ": prepare --model ", folder,
              " once more");
  const auto flags_for = [](const text::AnyTokenizer& t) {
    return (t.source_language().empty() ? "" : "--from " + t.source_language() + " ") + "--to " + t.target_language();
  };
  std::string advice;
  if (!tokenizer.target_language().empty()) advice = "train with " + flags_for(tokenizer);
  if (!other.target_language().empty())
    advice += (advice.empty() ? "" : ", or ") + ("prepare the pairs with " + flags_for(other));
  // Where a source need not say its own language, saying it changes nothing.
  const bool from_counts = !tokenizer.source_language().empty() && !other.source_language().empty();
  check_value((!from_counts || tokenizer.source_language() == other.source_language()) &&
                  tokenizer.target_language() == other.target_language(),
              "train", "--prepared is ", languages_text(tokenizer), ", and the training ", languages_text(other), ": ", advice);
  check_value(tokenizer.source_end() == other.source_end() && tokenizer.encode("a") == other.encode("a"), "train",
              "--prepared has sources that begin or end otherwise than those of ", folder, ": prepare --model ", folder,
              " once more");
}

PreparedPairs open_prepared(const fs::path& folder) {
  const io::FolderReader reader(folder);
  const auto held_out = [&](const char* name) {
    text::Corpus corpus;
    if (reader.contains(name) && fs::file_size(reader.file(name)) > 0)
      corpus = text::read_tsv(reader.file(name), {.max_characters = index_t{1} << 40});
    return corpus;
  };
  auto pairs = train::open_pairs(reader.file(pairs_name));
  auto tokenizer = load_tokenizer(folder);
  const auto check_tokens = [&](const char* side, const train::EncodedSentences& sentences, index_t vocabulary) {
    for (std::size_t i = 0; i < sentences.tokens.size(); ++i)
      if (sentences.tokens[i] < 0 || sentences.tokens[i] >= vocabulary)
        throw FormatError((folder / pairs_name).string(), ": a ", side, " has token ", sentences.tokens[i],
                          ", outside the vocabulary of ", vocabulary);
  };
  check_tokens("source", pairs.sources(), tokenizer.size());
  check_tokens("target", pairs.targets(), tokenizer.target_size());
  return {.pairs = std::move(pairs),
          .tokenizer = std::move(tokenizer),
          .validation = held_out(validation_name),
          .test = held_out(test_name)};
}

std::string prepared_fingerprint(const fs::path& folder) {
  const io::FolderReader reader(folder);
  const auto file = io::SafetensorsFile::open(reader.file(pairs_name));
  const auto print = file.metadata().find("fingerprint");
  std::string all = print == file.metadata().end() ? "" : print->second + " " + std::to_string(fs::file_size(file.path()));
  std::vector<fs::path> others;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.is_regular_file() && entry.path().filename() != pairs_name) others.push_back(entry.path());
  std::sort(others.begin(), others.end());
  for (const auto& path : others) all += " " + fingerprint(path);
  return all;
}

namespace {

struct PrepareCommand {
  PairFiles files;
  std::string out, model;
  LanguageFlags languages;
  std::vector<std::string> validation_pairs;
  index_t validation_size = 1000, test_size = 0, vocabulary = 0;
  std::uint64_t seed = 1;
  text::ReadOptions reading;
  bool reverse = false, overwrite = false;

  [[nodiscard]] text::SentencePair turned(text::SentencePair pair) const {
    if (reverse) std::swap(pair.source, pair.target);
    return pair;
  }
};

/// Holds out pairs by the hashes of their sources, the smallest first: all pairs of one source together, and the same ones in
/// both passes over the files.
class HeldOut {
 public:
  HeldOut(index_t validation, index_t test, std::uint64_t seed) : wanted_{validation, test}, seed_(seed) {}

  /// The first pass.
  void see(const std::string& source) {
    const index_t all = wanted_[0] + wanted_[1];
    if (all == 0) return;
    const std::uint64_t h = hash(source);
    if (count_of(pairs_of_) == candidates(all) && h > std::prev(pairs_of_.end())->first) return;
    ++pairs_of_[h];
    if (count_of(pairs_of_) > candidates(all)) pairs_of_.erase(std::prev(pairs_of_.end()));
  }
  /// After it: sources that fit, as `split_by_source` takes them.
  void choose() {
    std::array<index_t, 2> chosen{};
    for (const auto& [h, pairs] : pairs_of_)
      for (const std::size_t part : {0, 1})
        if (part_of_.count(h) == 0 && chosen[part] + pairs <= wanted_[part]) {
          part_of_[h] = part;
          chosen[part] += pairs;
        }
    for (const std::size_t part : {0, 1})
      check_value(wanted_[part] == 0 || chosen[part] > 0, "prepare",
                  "no source has so few translations that they could be held out for ", part == 0 ? "validation" : "test");
  }
  /// The second pass: whether this pair is held out.
  bool take(const text::SentencePair& pair) {
    const auto found = part_of_.find(hash(pair.source));
    if (found == part_of_.end()) return false;
    held_[found->second].push_back(pair);
    return true;
  }
  std::vector<text::SentencePair>& validation() { return held_[0]; }
  std::vector<text::SentencePair>& test() { return held_[1]; }

 private:
  /// More sources than are held out, for some have too many translations.
  static index_t candidates(index_t wanted) { return 2 * wanted + 100; }
  [[nodiscard]] std::uint64_t hash(const std::string& text) const {
    std::uint64_t h = 0xcbf29ce484222325 ^ seed_ * 0x9e3779b97f4a7c15;
    for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    for (int shift = 0; shift < 2; ++shift) h = (h ^ h >> 32) * 0xd6e8feb86659fd93;  // so that all bits count for the order
    return h ^ h >> 32;
  }

  std::array<index_t, 2> wanted_;  // pairs for validation, for test
  std::uint64_t seed_;
  std::map<std::uint64_t, index_t> pairs_of_;  // the smallest hashes
  std::unordered_map<std::uint64_t, std::size_t> part_of_;
  std::array<std::vector<text::SentencePair>, 2> held_;
};

/// Some of the pairs, evenly spread over all of them.
class Sample {
 public:
  void see(const text::SentencePair& pair) {
    if (seen_++ % step_ != 0) return;
    corpus_.pairs.push_back(pair);
    if (corpus_.size() < most) return;
    for (std::size_t i = 0; 2 * i < corpus_.pairs.size(); ++i) corpus_.pairs[i] = std::move(corpus_.pairs[2 * i]);
    corpus_.pairs.resize((corpus_.pairs.size() + 1) / 2);
    step_ *= 2;
  }
  [[nodiscard]] index_t seen() const { return seen_; }
  [[nodiscard]] const text::Corpus& corpus() const { return corpus_; }

 private:
  static constexpr index_t most = 1'000'000;
  text::Corpus corpus_;
  index_t seen_ = 0, step_ = 1;
};

std::string lines_of(const std::vector<text::SentencePair>& pairs) {
  std::string lines;
  for (const auto& pair : pairs) lines += pair.source + '\t' + pair.target + '\n';
  return lines;
}

/// That of --model, in the languages of its targets and sources; none if there is no --model.
std::optional<text::AnyTokenizer> given_tokenizer(const PrepareCommand& flags) {
  check_value(!flags.languages.given() || !flags.model.empty(), "prepare",
              "--from and --to choose among the languages of a model, and new subwords have none: add --model");
  if (flags.model.empty()) return {};
  const auto languages = flags.reverse ? flags.languages.reversed() : flags.languages;
  auto tokenizer = languages.choose(tokenizer_of(flags.model), flags.model);
  check_target_language("prepare", tokenizer, flags.model);
  return tokenizer_for_training(tokenizer, load_search(model_folder(flags.model)));
}

text::AnyTokenizer new_tokenizer(const PrepareCommand& flags, const Sample& sample) {
  std::fprintf(stderr, "prepare: learning subwords\n");
  const index_t vocabulary = flags.vocabulary > 0 ? flags.vocabulary : train::recipe(sample.seen()).vocabulary;
  return text::SentencePiece::train(sample.corpus(), {.vocabulary = vocabulary});
}

/// Finds out, before the work begins, what would keep it from ending well, or would destroy something.
void check(const PrepareCommand& flags) {
  check_value(!flags.out.empty(), "prepare", "--out is empty, expected a folder");
  const auto ranks = launched_ranks();
  check_value(!ranks || ranks->size() == 1, "prepare", "it is for one process, and ", ranks ? ranks->size() : 1, " were started");
  const fs::path out = flags.out;
  if (fs::is_directory(out) && !fs::is_empty(out)) {
    check_value(fs::exists(out / pairs_name), "prepare", flags.out, " holds something else, expected no folder or an empty one");
    check_value(flags.overwrite, "prepare", flags.out, " is there already: lose it by --overwrite, or choose another --out");
  }
  flags.files.check("prepare");
  for (const auto* list : {&flags.files.pairs, &flags.files.sources, &flags.files.targets, &flags.validation_pairs})
    for (const auto& file : *list) {
      (void)io::InputFile(file);  // each is read twice, and a pipe can be read only once
      std::error_code ignored;
      check_value(!fs::equivalent(fs::absolute(file).parent_path(), out, ignored), "prepare", file, " is in --out");
    }
}

void prepare(const PrepareCommand& flags) {
  check(flags);
  const auto given = given_tokenizer(flags);
  const bool own_validation = !flags.validation_pairs.empty();
  std::vector<text::SentencePair> validation;
  if (own_validation) {
    for (auto& pair : PairFiles{.pairs = flags.validation_pairs}.read("prepare", flags.reading).pairs)
      validation.push_back(flags.turned(std::move(pair)));
    check_value(!validation.empty(), "prepare", "there is no sentence pair in --validation-pairs to validate with");
  }
  Sample sample;
  const index_t validation_size = own_validation ? 0 : flags.validation_size;
  HeldOut held(validation_size, flags.test_size, flags.seed);
  flags.files.for_each(
      "prepare", flags.reading,
      [&](text::SentencePair pair) {
        pair = flags.turned(std::move(pair));
        held.see(pair.source);
        sample.see(pair);
      },
      [](const std::string& name, const text::CorpusReport& report) { PairFiles::say_report("prepare", name, report); });
  const index_t wanted = validation_size + flags.test_size;
  check_value(sample.seen() > wanted, "prepare", "there are ", sample.seen(), " pairs, expected more than the ", wanted,
              " that are held out");
  held.choose();
  for (const auto& suspicion : text::suspicions(sample.corpus()))
    std::fprintf(stderr, "prepare: warning: %s\n", suspicion.c_str());
  const auto tokenizer = given ? *given : new_tokenizer(flags, sample);

  index_t pairs = 0, tokens = 0;
  const auto write = [&](const fs::path& folder) {
    train::PairWriter writer(folder / pairs_name);
    flags.files.for_each(
        "prepare", flags.reading,
        [&](text::SentencePair pair) {
          pair = flags.turned(std::move(pair));
          if (held.take(pair)) return;
          const auto source = tokenizer.encode(pair.source), target = text::encode_whole_target(tokenizer, pair.target);
          writer.add(source, target);
          tokens += count_of(source) + count_of(target);
        },
        [](const std::string&, const text::CorpusReport&) {});
    writer.finish();
    pairs = writer.size();
    if (!own_validation) validation = std::move(held.validation());
    io::write_file_atomically(folder / validation_name, lines_of(validation));
    io::write_file_atomically(folder / test_name, lines_of(held.test()));
    tokenizer.save_files(folder);
  };
  io::write_folder_atomically(flags.out, write, io::replacing_tokenizer());
  const std::string languages = languages_text(tokenizer);
  std::fprintf(stderr,
               "prepare: %lld pairs of %lld tokens to learn from, %lld for validation, %lld for test; %lld subwords%s\n"
               "prepare: train on them with: translate train --prepared %s --out FOLDER\n",
               static_cast<long long>(pairs), static_cast<long long>(tokens), static_cast<long long>(validation.size()),
               static_cast<long long>(held.test().size()), static_cast<long long>(tokenizer.size()),
               (languages.empty() ? "" : ", " + languages).c_str(), flags.out.c_str());
}

}  // namespace

void add_prepare(CLI::App& app) {
  auto* command = app.add_subcommand("prepare", "Turn sentence pairs into tokens once, for large corpora");
  command->footer(
      "Reads the files twice, line by line: first for subwords and for what is held out, then to write the pairs in\n"
      "tokens. Training maps that file into memory, so a corpus may be larger than memory, and begins at once.\n\n"
      "  translate prepare --pairs large.tsv --out large\n"
      "  translate train --prepared large --out model");
  auto flags = std::make_shared<PrepareCommand>();
  flags->files.add_to(*command);
  command->add_flag("--reverse", flags->reverse, "Translate the other way, from target to source, and from --to to --from");
  command->add_option("--out", flags->out, "Where it goes")->type_name("FOLDER")->required();
  command->add_flag("--overwrite", flags->overwrite, "Lose what --out holds");
  auto* model = command->add_option("--model", flags->model, "Take the tokenizer of this model, to train it on with --init");
  model->type_name("FOLDER");
  flags->languages.add_to(*command, "the sources");
  command
      ->add_option("--vocabulary", flags->vocabulary,
                   "Subwords of both languages together, by the number of pairs; a small corpus gives fewer")
      ->check(CLI::Range(8, 1 << 20))
      ->excludes(model);
  auto* validation = command->add_option("--validation-size", flags->validation_size, "Pairs to hold out for validation");
  validation->check(CLI::Range(0, 1 << 30))->capture_default_str();
  takes_all(command->add_option("--validation-pairs", flags->validation_pairs,
                                "A file of pairs to validate with, in place of held-out ones. May come often"))
      ->excludes(validation);
  command->add_option("--test-size", flags->test_size, "Pairs to hold out and score the best model with at the end")
      ->check(CLI::Range(0, 1 << 30))
      ->capture_default_str();
  command->add_option("--max-characters", flags->reading.max_characters, "Pairs with a longer side are left out")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str();
  command->add_flag("--skip-invalid-utf8", flags->reading.skip_invalid_utf8,
                    "Leave out and count pairs that are not UTF-8, instead of an error");
  command->add_option("--seed", flags->seed, "Of what is held out")->capture_default_str();
  command->callback([flags] { prepare(*flags); });
}

}  // namespace translate
