// translate distill: a small model that learns from what a large one makes of the sources.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include "attend/io/file.hpp"
#include "attend/io/folder_lock.hpp"
#include "attend/io/json.hpp"
#include "attend/load.hpp"
#include "attend/text/chrf.hpp"
#include "attend/text/corpus.hpp"
#include "attend/train/recipe.hpp"
#include "attend/train/run_folder.hpp"
#include "attend/version.hpp"
#include "commands.hpp"
#include "line_translator.hpp"
#include "line_work.hpp"
#include "making.hpp"
#include "model_folder.hpp"
#include "ranks.hpp"
#include "train_settings.hpp"
#include "training.hpp"

namespace translate {

namespace {

using namespace attend;
namespace fs = std::filesystem;

struct DistillCommand {
  TrainCommand training;  // the pairs, and what the student's training takes as it is
  ModelsFlags teacher;
  TranslateFlags teaching;
  std::string teacher_precision, level = "sequence";
  bool interpolate = false, keep_references = false;

  /// Whether the teacher translates what the student learns, and whether the student learns the teacher's distributions.
  [[nodiscard]] bool by_sequence() const { return level != "word"; }
  [[nodiscard]] bool by_word() const { return level != "sequence"; }
};

/// What the student learns from, in a folder beside its checkpoints.
struct Texts {
  explicit Texts(const fs::path& out) : folder(out / "distilled") {}

  fs::path folder;
  fs::path record = folder / "distill.json";  ///< what they were made with; is there before any of the others
  fs::path sources = folder / "sources.txt";  ///< each once; is there only if those below are (not with --level word)
  fs::path targets = folder / "targets.tsv";  ///< with --interpolate, the translations that each of them has in the pairs
  fs::path references = folder / "references.tsv", validation = folder / "validation.tsv", test = folder / "test.tsv";
  fs::path pairs =
      folder / "pairs.tsv";  ///< the sources as the teacher, or with --level word the pairs, translate them; appears whole
  fs::path part = folder / "pairs.tsv.part", part_record = folder / "pairs.tsv.part.json";

  /// The record last, so that what is left of the others, should this be cut short, is not taken for another's.
  void remove() const {
    for (const auto* file : {&part, &part_record, &pairs, &sources, &targets, &references, &validation, &test, &record})
      fs::remove(*file);
  }
};

index_t lines_in(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  index_t lines = 0;
  for (std::string line; std::getline(file, line);) ++lines;
  return lines;
}
bool has_text(const fs::path& file) {
  std::error_code ignored;
  return fs::exists(file, ignored) && fs::file_size(file, ignored) > 0;
}

/// With the level that is meant where none is named. Runs that began before there were levels have none.
Making with_level(Making making) {
  making.try_emplace("--level", DistillCommand().level);
  return making;
}

/// What a run that is there as a whole was made with.
Making all_options(const CLI::App& command) {
  auto all = with_level(given_options(command));
  all.erase("--overwrite");
  return all;
}

/// What the texts depend on: the options that concern them, and the contents of the files.
Making making(const CLI::App& command, const DistillCommand& flags) {
  Making all{{"version", version}};
  const auto options = given_options(command);
  const auto take = [&](const std::string& name) {
    if (const auto found = options.find(name); found != options.end()) all.insert(*found);
  };
  for (const char* name : {"--reverse", "--validation-size", "--test-size", "--max-characters", "--skip-invalid-utf8", "--seed",
                           "--from", "--to", "--long-input", "--split-sentences", "--interpolate", "--keep-references", "--level",
                           "--device", "--precision", "--teacher-precision"})
    take(name);
  for (const CLI::Option* option : command.get_options())
    if (option->get_group() == "Search" && option->get_lnames().size() == 1) take("--" + option->get_lnames().front());
  all.erase("--shortlist");
  const auto add_files = [&](const std::string& option, const std::vector<std::string>& files) {
    std::string prints;
    for (const auto& file : files) prints += (prints.empty() ? "" : " ") + fingerprint(file);
    if (!files.empty()) all["the files of " + option] = prints;
  };
  std::vector<std::string> models;
  for (const auto& folder : flags.teacher.folders) models.push_back(model_folder(folder).string());
  add_files("--teacher", models);
  if (!flags.teacher.shortlist.empty()) add_files("--shortlist", {flags.teacher.shortlist});
  const auto& training = flags.training;
  add_files("--pairs", training.files.pairs);
  add_files("--source", training.files.sources);
  add_files("--target", training.files.targets);
  add_files("--validation-pairs", training.validation_pairs);
  add_files("--test-pairs", training.test_pairs);
  return with_level(std::move(all));
}

/// `translate train` as it is given the student's pairs, and those of this command's options that it has too.
class Student {
 public:
  Student(const CLI::App& command, const DistillCommand& distilling) {
    app_.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    add_training(app_, flags_);
    for (const CLI::Option* option : app_.get_options()) {
      if (option->get_lnames().size() != 1) continue;
      const std::string name = "--" + option->get_lnames().front();
      if (std::find(of_texts.begin(), of_texts.end(), name) != of_texts.end()) continue;
      const CLI::Option* from = command.get_option_no_throw(name);
      if (from != nullptr && from->count() > 0) give(name, from->reduced_results());
    }
    if (!distilling.by_word()) return;
    give("--teacher", {distilling.teacher.folders.front()});
    const auto& languages = distilling.teacher.languages;
    if (!languages.from.empty()) give("--from", {languages.from});
    if (!languages.to.empty()) give("--to", {languages.to});
  }

  /// Throws ValueError if there can be no such training.
  void check() const { check_training(app_, flags_); }
  /// Throws what loading the teacher would.
  void check_teacher() const { translate::check_teacher(flags_); }
  void train(const Texts& texts, std::optional<io::FolderLock>& lock) {
    // Before the first checkpoint there may be a best model, or a curve, of a training that was ended.
    give(train::RunFolder(flags_.out).has_state() ? "--resume" : "--overwrite", {"true"});
    std::vector<std::string> pairs{texts.pairs.string()};
    if (fs::exists(texts.references)) pairs.push_back(texts.references.string());
    give("--pairs", pairs);
    if (has_text(texts.validation)) give("--validation-pairs", {texts.validation.string()});
    else give("--validation-size", {"0"});
    // Subwords go by how much text there is, and several translations of a sentence are not that much more.
    if (flags_.teacher.empty() && app_.get_option("--vocabulary")->count() == 0)
      give("--vocabulary", {std::to_string(train::recipe(lines_in(texts.sources)).vocabulary)});
    if (has_text(texts.test)) give("--test-pairs", {texts.test.string()});
    start_training(app_, flags_, lock);
  }

 private:
  /// Options that say what the texts are, and need not say it again of the texts themselves.
  static constexpr std::array<std::string_view, 12> of_texts{
      "--teacher", "--pairs", "--source",          "--target",           "--reverse",   "--from",
      "--to",      "--help",  "--validation-size", "--validation-pairs", "--test-size", "--test-pairs"};

  void give(const std::string& name, const std::vector<std::string>& values) {
    auto* option = app_.get_option(name);
    option->clear();
    option->add_result(values);
    option->run_callback();
  }

  CLI::App app_{"", "train"};
  TrainCommand flags_;
};

/// Throws ValueError if options do not go with what the student learns from its teacher.
void check_level(const CLI::App& command, const DistillCommand& flags) {
  const auto given = [&](const CLI::Option* option) { return option != nullptr && option->count() > 0; };
  if (flags.by_word())
    check_value(flags.teacher.folders.size() == 1, "distill", "--level ", flags.level, " takes one --teacher, got ",
                flags.teacher.folders.size());
  else
    for (const char* name : {"--distillation-weight", "--distillation-temperature"})
      check_value(!given(command.get_option(name)), "distill", name, " goes with --level word or both");
  const CLI::Option* n_best = command.get_option("--n-best");
  if (flags.interpolate && given(n_best))
    check_value(n_best->as<index_t>() > 1, "distill", "--interpolate chooses among several translations, --n-best asks for one");
  if (flags.by_sequence()) return;
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_lnames().size() == 1 ? "--" + option->get_lnames().front() : "";
    const bool of_translations = option->get_group() == "Search" || name == "--interpolate" || name == "--keep-references" ||
                                 name == "--teacher-precision";
    check_value(!of_translations || !given(option), "distill", name,
                " is for the teacher's translations, of which --level word makes none");
  }
}

/// Throws ValueError, IoError if nothing can be begun in --out.
void check_new(const DistillCommand& flags, const Texts& texts) {
  const auto& out = flags.training.out;
  if (flags.training.overwrite) return;
  check_value(!train::RunFolder(out).holds_run(), "distill", out,
              " holds another run: lose it by --overwrite, or choose another --out");
  for (const auto* file : {&texts.sources, &texts.pairs, &texts.part})
    check_value(!fs::exists(*file), "distill", file->string(), " is there, and ", texts.record.string(),
                ", which says what it was made with, is not: lose it by --overwrite, or choose another --out");
  const auto& csv = flags.training.train.fit.given.csv;
  check_value(csv.empty() || !fs::exists(csv), "distill", csv.string(),
              " is there already: lose it by --overwrite, or choose another --csv");
}

/// Throws ValueError if the teacher cannot translate in the languages of the command line, or if it has many and none is chosen.
void check_languages(const DistillCommand& flags) {
  for (const auto& folder : flags.teacher.folders) {
    const auto tokenizer = flags.teacher.languages.choose(tokenizer_of(folder), folder);
    // What a folder has its translations begin with may be a language too.
    const auto names = tokenizer.languages();
    const auto is_language = [&](token_t token) {
      return token >= 0 && std::find(names.begin(), names.end(), tokenizer.target_piece(token)) != names.end();
    };
    if (!is_language(load_search(model_folder(folder)).first) && !is_language(tokenizer.bos()))
      check_target_language("distill", tokenizer, folder);
  }
}

std::string lines_of(const text::Corpus& corpus) {
  std::string lines;
  for (const auto& pair : corpus) lines += pair.source + '\t' + pair.target + '\n';
  return lines;
}
/// Each source once, with all that it is in the pairs, separated by tabs.
std::vector<text::SentencePair> by_source(const text::Corpus& corpus) {
  std::unordered_map<std::string_view, std::size_t> places;
  std::vector<text::SentencePair> list;
  for (const auto& pair : corpus) {
    const auto [place, is_new] = places.try_emplace(pair.source, list.size());
    if (is_new) list.push_back(pair);
    else list[place->second].target += '\t' + pair.target;
  }
  return list;
}

void write_texts(const Texts& texts, const text::Split& split, const DistillCommand& flags) {
  if (flags.keep_references) io::write_file_atomically(texts.references, lines_of(split.train));
  io::write_file_atomically(texts.validation, lines_of(split.validation));
  io::write_file_atomically(texts.test, lines_of(split.test));
  if (!flags.by_sequence()) return io::write_file_atomically(texts.pairs, lines_of(split.train));
  std::string sources, targets;
  for (const auto& pair : by_source(split.train)) {
    sources += pair.source + '\n';
    targets += pair.target + '\n';
  }
  if (flags.interpolate) io::write_file_atomically(texts.targets, targets);
  io::write_file_atomically(texts.sources, sources);
}

void write_record(const Texts& texts, const Making& made_with, const std::optional<Making>& finished_with = {}) {
  io::Json json{{"made_with", made_with}};
  if (finished_with) json["finished_with"] = *finished_with;
  io::write_json(texts.record, json);
}

/// Of the teacher's translations of a source, the one that is nearest to a translation of it in the pairs.
class Nearest {
 public:
  /// A line of `targets` for each source. Throws IoError if it cannot be read, or has more lines or fewer.
  void read(const fs::path& targets, const fs::path& sources) {
    std::istringstream file(io::read_file(targets));
    for (std::string line; std::getline(file, line);) targets_.push_back(std::move(line));
    if (count_of(targets_) != lines_in(sources))
      throw IoError("distill: ", targets.string(), " has ", targets_.size(), " lines, expected one for each of ",
                    sources.string());
  }
  /// Leaves that one alone in `list`; of several equally near the first, which the teacher thinks best.
  void choose(std::size_t source, std::vector<decode::Translation>& list) const {
    if (list.size() < 2) return;
    std::vector<std::vector<std::string>> references;
    std::istringstream targets(targets_.at(source));
    for (std::string target; std::getline(targets, target, '\t');) references.push_back({target});
    if (references.empty()) references.push_back({""});  // an empty line has nothing to get
    std::size_t nearest = 0;
    double best = -1;
    for (std::size_t i = 0; i < list.size(); ++i) {
      // In characters, because not every language separates words. Precision counts as much as recall: with chrF's usual weights
      // long translations would be preferred.
      const double score = text::chrf({&list[i].text, 1}, references, {.word_order = 2, .beta = 1}).score;
      if (score <= best) continue;
      best = score;
      nearest = i;
    }
    list = {std::move(list[nearest])};
  }

 private:
  std::vector<std::string> targets_;
};

/// Says from time to time how far the teacher is.
class TeachingProgress {
 public:
  explicit TeachingProgress(const fs::path& sources) : all_(static_cast<std::size_t>(lines_in(sources))) {}
  void see(const Lines& lines) {
    done_ += lines.lines.size();
    const auto now = Clock::now();
    const std::size_t so_far = lines.before + lines.lines.size();
    if (so_far < all_ && now - said_ < std::chrono::seconds(10)) return;
    said_ = now;
    const double seconds = std::max(1e-3, std::chrono::duration<double>(now - begun_).count());
    std::fprintf(stderr, "distill: %zu of %zu sentences are translated, %.1f a second\n", so_far, all_,
                 static_cast<double>(done_) / seconds);
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::size_t all_, done_ = 0;
  Clock::time_point begun_ = Clock::now(), said_ = begun_;
};

/// Has the teacher translate what it has not translated yet.
void teach(const Texts& texts, const DistillCommand& flags, const std::function<LineResults(const Lines&)>& translate) {
  LineFlags lines;
  lines.in = texts.sources.string();
  lines.out = texts.pairs.string();
  lines.advice = "the same command";
  lines.resume = fs::exists(texts.part_record);  // without it, it is not known how far a part goes
  lines.overwrite = !lines.resume;
  TeachingProgress progress(texts.sources);
  // Its record is that of all texts, and has been looked at.
  work_on_lines(
      "distill", [] { return Making(); }, lines, flags.teacher,
      [&](const ModelsFlags&) {
        return [&](const Lines& some) {
          auto results = translate(some);
          progress.see(some);
          return results;
        };
      });
  exit_code = 0;  // pairs without a translation are left out, as those that are too long are in any training
}

void distill(CLI::App& command, DistillCommand& flags) {
  auto& training = flags.training;
  const fs::path out = training.out;
  const auto ranks = launched_ranks();
  check_value(!ranks || ranks->size() == 1, "distill", "it is for one process, and ", ranks ? ranks->size() : 1, " were started");
  check_value(!out.empty(), "distill", "--out is empty, expected a folder");
  training.files.check("distill");
  check_level(command, flags);
  std::error_code ignored;
  if (fs::exists(out, ignored) && !fs::is_directory(out, ignored))
    throw IoError("distill: ", out.string(), " is a file, expected a folder");
  for (const auto& folder : flags.teacher.folders) check_teacher_apart("distill", folder, out);
  std::optional<io::FolderLock> lock;
  if (fs::is_directory(out, ignored)) lock.emplace(out);

  flags.teacher.languages = training.reverse ? training.languages.reversed() : training.languages;
  flags.teacher.place = training.place;
  if (!flags.teacher_precision.empty()) flags.teacher.place.precision = flags.teacher_precision;
  const Texts texts(out);
  const auto made_with = making(command, flags);
  const bool begun = !training.overwrite && fs::exists(texts.record);
  if (begun) {
    const auto json = io::read_json(texts.record);
    const io::JsonObject record(json, texts.record.string());
    check_making(with_level(read_making(record.object("made_with"))), made_with, "distill", out.string());
    if (json.contains("finished_with") && with_level(read_making(record.object("finished_with"))) == all_options(command)) {
      std::fprintf(stderr, "distill: %s is there as a whole; translate with: translate run --model %s\n", out.string().c_str(),
                   out.string().c_str());
      return;
    }
  } else {
    check_new(flags, texts);
  }
  Student student(command, flags);
  student.check();
  if (!begun || !fs::exists(texts.pairs)) {
    if (flags.by_sequence()) check_languages(flags);
    std::optional<text::Split> split;
    if (!begun || !fs::exists(texts.sources)) {
      split = split_pairs("distill", training);
      check_new_training(command, training, split->train.size(), !split->validation.empty());
    }
    std::function<LineResults(const Lines&)> translate;
    Nearest nearest;
    if (flags.interpolate)
      flags.teaching.choose = [&](std::size_t source, std::vector<decode::Translation>& list) { nearest.choose(source, list); };
    if (flags.by_sequence()) translate = line_translator(flags.teaching, flags.teacher);
    else if (!begun) student.check_teacher();  // before the run is lost that may be there
    if (!lock) lock.emplace(out);
    if (!begun) {
      train::RunFolder(out).clear();
      fs::remove(out / settings_name);
      texts.remove();
      fs::create_directories(texts.folder);
      write_record(texts, made_with);
    }
    if (split) write_texts(texts, *split, flags);
    split.reset();
    if (flags.interpolate) nearest.read(texts.targets, texts.sources);
    if (translate) teach(texts, flags, translate);
  }
  student.train(texts, lock);
  if (exit_code == 0) write_record(texts, made_with, all_options(command));
}

}  // namespace

void add_distill(CLI::App& app) {
  auto* command = app.add_subcommand("distill", "Train a small model on what a large one makes of the sources");
  command->footer(
      "Holds some pairs out, as `translate train` does, has the teacher translate the sources of the others, and trains a new\n"
      "model, the student, on these translations. Validation and test pairs stay what they are. All texts are in distilled/\n"
      "of --out. Whatever ends it, the same command goes on where it was. With --level word the student learns the pairs as "
      "they\n"
      "are, and at each of their words how likely the teacher thinks every word there; with --level both it learns that at each\n"
      "word of the teacher's translations. It then has the teacher's tokenizer.\n\n"
      "  translate distill --teacher large --pairs en-es.tsv --preset tiny --out small\n"
      "  translate distill --teacher large --level both --pairs en-es.tsv --preset tiny --out small\n"
      "  translate run --model small");
  auto flags = std::make_shared<DistillCommand>();
  command->add_option("--teacher", flags->teacher.folders, "As --model of `translate run`: who translates the sources")
      ->type_name("FOLDER")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false)
      ->required();
  command
      ->add_option("--teacher-precision", flags->teacher_precision,
                   "What the teacher multiplies in, as --precision of `translate run`; --precision where not given")
      ->check(CLI::IsMember({"float32", "int8", "tf32", "bf16"}));
  command
      ->add_option(
          "--level", flags->level,
          "What the student learns from the teacher: its translations (sequence), how likely it thinks each word (word), "
          "or both")
      ->check(CLI::IsMember({"sequence", "word", "both"}))
      ->capture_default_str();
  command->add_flag("--interpolate", flags->interpolate,
                    "Of the teacher's translations of each sentence, as many as --n-best says or the beam holds, learn only from "
                    "the one nearest to its own in the pairs, by chrF");
  command->add_flag("--keep-references", flags->keep_references, "Learn from the pairs themselves too");
  add_new_training(*command, flags->training);
  flags->teaching.format = "pairs";
  flags->teaching.search.add_to(*command, false);
  command->add_option("--shortlist", flags->teacher.shortlist, "Tokens that may come, as `translate shortlist` writes them")
      ->type_name("FILE")
      ->group("Search");
  flags->teaching.add_long_input(*command, "Search", "leaves its pair out");
  flags->teaching.seed = &flags->training.train.fit.given.seed;
  command->callback([command, flags] { distill(*command, *flags); });
}

}  // namespace translate
