// translate distill: what the student learns from, and that whatever ends it, the same command goes on.

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "../pretrained/make_folder.hpp"
#include "attend/io/file.hpp"
#include "attend/io/json.hpp"
#include "attend/load.hpp"
#include "attend/text/chrf.hpp"
#include "attend/text/corpus.hpp"
#include "attend/text/utf8.hpp"
#include "attend/train/recipe.hpp"
#include "catch.hpp"
#include "files.hpp"
#include "words.hpp"

namespace {

namespace fs = std::filesystem;
using namespace attend;
using Catch::Matchers::ContainsSubstring;

const Files files;
/// Pairs in few words, of which one comes twice and one line is empty.
const std::string& pairs() {
  static const std::string path = files.write("pairs.tsv", few_words() + "\nI sees tea.\tyo ve te.\n");
  return path;
}

const Words small{"--d-model",          "16", "--heads",    "2", "--layers", "1", "--vocabulary", "60", "--max-length", "40",
                  "--tokens-per-batch", "60", "--patience", "0", "--warmup", "5"};

/// The model that teaches, trained once for all tests.
const std::string& teacher() {
  static const std::string folder = [] {
    const auto trained = run({"train",
                              "--pairs",
                              pairs(),
                              "--out",
                              files("teacher"),
                              "--d-model",
                              "32",
                              "--heads",
                              "2",
                              "--layers",
                              "1",
                              "--vocabulary",
                              "60",
                              "--max-length",
                              "40",
                              "--tokens-per-batch",
                              "200",
                              "--validation-size",
                              "2",
                              "--patience",
                              "0",
                              "--warmup",
                              "20",
                              "--learning-rate",
                              "0.005",
                              "--max-steps",
                              "150",
                              "--validate-every",
                              "150"});
    if (trained.code != 0) throw std::runtime_error(trained.errors);
    return files("teacher");
  }();
  return folder;
}

Words distill(const std::string& folder, const Words& more = {}) {
  Words words{"distill", "--out", folder, "--max-steps", "3", "--validation-size", "2", "--max-tokens", "12"};
  const auto unless_given = [&](const char* option, const std::string& value) {  // these may come often
    if (std::find(more.begin(), more.end(), option) == more.end()) words.insert(words.end(), {option, value});
  };
  unless_given("--teacher", teacher());
  unless_given("--pairs", pairs());
  return with(with(words, small), more);
}

std::vector<text::SentencePair> read(const std::string& path) {
  std::vector<text::SentencePair> all;
  std::istringstream lines(io::read_file(path));
  for (std::string line; std::getline(lines, line);)
    all.push_back({line.substr(0, line.find('\t')), line.substr(line.find('\t') + 1)});
  return all;
}
std::string translated(const std::string& sources, const Words& flags = {}) {
  return run_on_file(with({"run", "--model", teacher(), "--max-tokens", "12"}, flags), sources).output;
}
void fails_early(const Words& words, const std::string& message, int code = 1) {
  const auto outcome = run(words);
  CAPTURE(words, outcome.errors);
  CHECK(outcome.code == code);
  CHECK_THAT(outcome.errors, ContainsSubstring(message));
  CHECK_THAT(outcome.errors, !ContainsSubstring("are translated"));
  CHECK_THAT(outcome.errors, !ContainsSubstring("learning subwords"));
}
std::string weights(const std::string& folder) { return io::read_file(fs::path(folder) / "last/model.safetensors"); }

}  // namespace

TEST_CASE("translate distill: the student learns what the teacher makes of the sources, and is judged by the real pairs",
          "[translate]") {
  const std::string folder = files("student"), texts = folder + "/distilled/";
  const auto done = run(distill(folder, {"--test-size", "2"}));
  REQUIRE(done.code == 0);
  CHECK_THAT(done.errors, ContainsSubstring("26 lines, 25 pairs; left out: 1 empty"));
  CHECK_THAT(done.errors, ContainsSubstring("pairs to learn from, 2 for validation, 2 for test"));
  CHECK_THAT(done.output, ContainsSubstring("test, 2 pairs"));

  std::set<std::string> real, sources;
  for (const auto& pair : read(pairs())) real.insert(pair.source + '\t' + pair.target);
  std::string targets;
  for (const auto& pair : read(texts + "pairs.tsv")) {
    CHECK(sources.insert(pair.source).second);
    targets += pair.target + '\n';
  }
  CHECK(sources.size() >= 18);  // of 24, 2 and 2 are held out
  CHECK(targets == translated(texts + "sources.txt"));
  for (const char* name : {"validation.tsv", "test.tsv"})
    for (const auto& pair : read(texts + name)) {
      CHECK(real.count(pair.source + '\t' + pair.target) == 1);
      CHECK(sources.count(pair.source) == 0);
    }
  CHECK_FALSE(fs::exists(texts + "references.tsv"));

  // The student is what `train` makes of these pairs, its own tokenizer included.
  REQUIRE(run(with({"train", "--pairs", texts + "pairs.tsv", "--validation-pairs", texts + "validation.tsv", "--out",
                    files("plain"), "--max-steps", "3"},
                   small))
              .code == 0);
  CHECK(weights(folder) == weights(files("plain")));
  CHECK(io::read_file(folder + "/last/tokenizer.model") != io::read_file(teacher() + "/last/tokenizer.model"));
  CHECK(run({"run", "--model", folder}, "I sees tea.\n").code == 0);

  const auto before = weights(folder);
  const auto again = run(distill(folder, {"--test-size", "2"}));
  CHECK(again.code == 0);
  CHECK(again.complaints() == 1);
  CHECK_THAT(again.errors, ContainsSubstring(folder + " is there as a whole"));
  CHECK(weights(folder) == before);
  // A longer training goes on with the same texts.
  const auto longer = run(distill(folder, {"--test-size", "2", "--max-steps", "5"}));
  CHECK(longer.code == 0);
  CHECK_THAT(longer.errors, ContainsSubstring("going on from step 3") && !ContainsSubstring("are translated"));
  CHECK(run({"train", "--resume", "--out", folder, "--max-steps", "6"}).code == 0);
}

TEST_CASE("translate distill: n-best lists, and the real pairs besides", "[translate]") {
  const std::string folder = files("lists"), texts = folder + "/distilled/";
  REQUIRE(run(distill(folder, {"--beam", "4", "--n-best", "3", "--keep-references"})).code == 0);
  const auto list = read(texts + "pairs.tsv");
  std::set<std::string> distinct;
  std::vector<std::string> expected;
  std::istringstream lines(translated(texts + "sources.txt", {"--beam", "4", "--n-best", "3"}));
  for (std::string line; std::getline(lines, line);) {  // number, score, translation
    const auto number = line.substr(0, line.find('\t'));
    const auto text = text::collapse_spaces(line.substr(line.find('\t', number.size() + 1) + 1));
    if (distinct.insert(number + '\t' + text).second) expected.push_back(text);
  }
  REQUIRE(list.size() == expected.size());
  for (std::size_t i = 0; i < list.size(); ++i) CHECK(list[i].target == expected[i]);
  const auto sources = read(texts + "sources.txt");
  CHECK(list.size() > 2 * sources.size());
  const auto references = read(texts + "references.tsv");
  CHECK(references.size() >= sources.size());
  const auto taken = std::count_if(list.begin(), list.end(), [](const auto& pair) { return !pair.target.empty(); });
  const auto report = run(distill(folder, {"--beam", "4", "--n-best", "3", "--keep-references", "--max-steps", "4"})).errors;
  CHECK_THAT(report,
             ContainsSubstring(std::to_string(taken + static_cast<std::ptrdiff_t>(references.size())) + " pairs to learn from"));
}

TEST_CASE("translate distill --interpolate: of the teacher's translations, the one nearest to the pair's own", "[translate]") {
  const std::string folder = files("interpolated"), texts = folder + "/distilled/";
  // Two sources have two translations each: of one they stand apart, of the other side by side.
  const std::string several = files.write("several.tsv", io::read_file(pairs()) + "I sees bread.\tx\nx\ty\nx\tz\n");
  const Words options{"--pairs", several, "--beam", "8", "--interpolate"};
  REQUIRE(run(distill(folder, options)).code == 0);
  std::map<std::string, std::vector<std::string>> own, list;
  for (const auto& [source, target] : read(several)) own[source].push_back(target);
  const auto sources = read(texts + "sources.txt");
  std::istringstream lines(translated(texts + "sources.txt", {"--beam", "8", "--n-best", "8"}));
  for (std::string line; std::getline(lines, line);) {  // number, score, translation
    const std::size_t tab = line.find('\t');
    const auto number = std::stoul(line.substr(0, tab));
    list[sources.at(number - 1).source].push_back(text::collapse_spaces(line.substr(line.find('\t', tab + 1) + 1)));
  }
  const auto pairs_made = read(texts + "pairs.tsv");
  REQUIRE(pairs_made.size() == sources.size());
  int not_the_first = 0;
  for (const auto& [source, target] : pairs_made) {
    CAPTURE(source, target);
    const auto nearness = [&references = own.at(source)](const std::string& text) {
      double best = 0;
      for (const auto& reference : references)
        best = std::max(best, text::chrf(std::vector{text}, std::vector{reference}, {.word_order = 2, .beta = 1}).score);
      return best;
    };
    CHECK(std::count(list.at(source).begin(), list.at(source).end(), target) > 0);
    for (const auto& other : list.at(source)) CHECK(nearness(target) >= nearness(other));
    not_the_first += target != list.at(source).front();
  }
  CHECK(not_the_first > 0);

  // Killed and gone on with, it takes the same; without it, it is another run.
  const std::string whole = io::read_file(texts + "pairs.tsv");
  fs::remove(texts + "pairs.tsv");
  REQUIRE(run(distill(folder, with(options, {"--max-steps", "4"}))).code == 0);
  CHECK(io::read_file(texts + "pairs.tsv") == whole);
  fails_early(distill(folder, {"--pairs", several, "--beam", "8"}), "--interpolate");
  // A text that was cut short is not taken for a whole one.
  fs::remove(texts + "pairs.tsv");
  io::write_file_atomically(texts + "targets.tsv", std::string("un gato\n"));
  fails_early(distill(folder, with(options, {"--max-steps", "5"})), "targets.tsv has 1 lines");

  const std::string none = files("interpolated-none");
  fails_early(distill(none, {"--interpolate", "--beam", "1"}), "this search gives one");
  fails_early(distill(none, {"--interpolate", "--beam", "4", "--n-best", "1"}), "--n-best asks for one");
  fails_early(distill(none, {"--interpolate", "--level", "word"}), "--interpolate");
}

TEST_CASE("translate distill: more translations of the same sentences are no reason for more subwords", "[translate]") {
  std::string many;
  for (int i = 0; i < 3000; ++i) many += "Ana sees " + std::to_string(i) + " books.\tAna ve libros.\n";
  auto words =
      distill(files("subwords"), {"--pairs", files.write("books.tsv", many), "--beam", "2", "--n-best", "2", "--max-steps", "1"});
  const auto at = std::find(words.begin(), words.end(), "--vocabulary");
  words.erase(at, at + 2);
  REQUIRE(run(words).code == 0);
  const auto sources = count_of(read(files("subwords/distilled/sources.txt")));
  const auto vocabulary = train::recipe(sources).vocabulary;
  CHECK(vocabulary != train::recipe(count_of(read(files("subwords/distilled/pairs.tsv")))).vocabulary);
  CHECK(io::read_json(files("subwords/train.json")).at("vocabulary").at(0) == std::to_string(vocabulary));
}

TEST_CASE("translate distill: what was killed goes on by the same command, with nothing done twice", "[translate]") {
  std::string many;
  for (int i = 0; i < 4000; ++i) many += "I sees " + std::to_string(i) + " a house.\tyo ve una casa.\n";
  const std::string folder = files("killed"), texts = folder + "/distilled/", data = files.write("many.tsv", many);
  const auto command = [&](const std::string& to) {
    return distill(to, {"--pairs", data, "--max-steps", "40", "--checkpoint-every", "5", "--beam", "1"});
  };
  {
    Program killed(command(folder));
    while (!fs::exists(texts + "pairs.tsv.part.json")) REQUIRE(killed.runs());
    CHECK_THAT(run(command(folder)).errors, ContainsSubstring("another"));  // only one at a time
    killed.signal(SIGKILL);
    killed.wait();
  }
  REQUIRE_FALSE(fs::exists(texts + "pairs.tsv"));
  std::string part = io::read_file(texts + "pairs.tsv.part");
  const auto first = part.substr(0, part.find('\n'));
  const auto marked = first.substr(0, first.find('\t') + 1) + std::string(first.size() - first.find('\t') - 1, 'x');
  io::write_file_atomically(texts + "pairs.tsv.part", marked + part.substr(first.size()) + "half a li");
  fails_early(with(command(folder), {"--beam", "2"}), "distill: " + folder + " was begun with --beam 1, now it is 2");
  {
    Program killed(command(folder));
    REQUIRE(killed.says("validation at step 10"));
    killed.signal(SIGKILL);
    killed.wait();
  }
  const std::string whole = io::read_file(texts + "pairs.tsv");
  CHECK(whole.starts_with(marked + "\n"));  // what was there was not made anew
  REQUIRE(run(command(files("whole"))).code == 0);
  const std::string undisturbed = io::read_file(files("whole/distilled/pairs.tsv"));
  CHECK(whole.substr(first.size()) == undisturbed.substr(first.size()));

  const auto resumed = run(command(folder));
  CHECK(resumed.code == 0);
  CHECK_THAT(resumed.errors, ContainsSubstring("going on from step ") && !ContainsSubstring("are translated"));
  CHECK_THAT(resumed.errors, !ContainsSubstring("going on from step 0"));
  CHECK(run(command(folder)).complaints() == 1);

  // Before the first checkpoint the training begins anew; a translation whose record is lost, too.
  fs::remove_all(folder + "/last");
  fs::rename(texts + "pairs.tsv", texts + "pairs.tsv.part");
  io::write_file_atomically(texts + "distill.json", [&] {
    auto json = io::read_json(texts + "distill.json");
    json.erase("finished_with");
    return json.dump();
  }());
  CHECK(run(command(folder)).code == 0);
  CHECK(io::read_file(texts + "pairs.tsv") == undisturbed);
  CHECK(weights(folder) == weights(files("whole")));
}

TEST_CASE("translate distill: sentences that are too long for the teacher are left out, or split", "[translate]") {
  std::string tsv = io::read_file(pairs());
  std::string sentence = "I sees tea";
  for (int i = 0; i < 30; ++i) sentence += ", bread";
  const auto data = files.write("long.tsv", tsv + sentence + ".\tyo ve te.\n");
  const auto refused = run(distill(files("refused"), {"--pairs", data, "--validation-pairs", pairs(), "--validation-size", "1"}));
  CHECK(refused.code == 2);  // one of them
  Words words = distill(files("long"), {"--pairs", data, "--validation-pairs", pairs()});
  words.erase(std::find(words.begin(), words.end(), "--validation-size"),
              std::find(words.begin(), words.end(), "--validation-size") + 2);
  const auto left_out = run(words);
  CHECK(left_out.code == 0);
  CHECK_THAT(left_out.errors, ContainsSubstring("has no translation: ") && ContainsSubstring("as --long-input split does"));
  CHECK_THAT(left_out.errors, ContainsSubstring("25 lines, 24 pairs; left out: 1 empty"));
  words = with(words, {"--long-input", "split", "--out", files("split")});
  const auto split = run(words);
  CHECK(split.code == 0);
  CHECK_THAT(split.errors, ContainsSubstring("25 lines, 25 pairs"));
}

TEST_CASE("translate distill: what cannot end well is refused before anything is translated", "[translate]") {
  const std::string folder = files("begun");
  REQUIRE(run(distill(folder)).code == 0);
  const auto kept = weights(folder);
  const std::string was = "distill: " + folder + " was begun with ";
  fails_early(distill(folder, {"--teacher", teacher() + "/last"}), was + "other contents of the files of --teacher");
  fails_early(distill(folder, {"--pairs", files.write("others.tsv", io::read_file(pairs()) + "I\tyo\n")}),
              was + "other contents of the files of --pairs");
  fails_early(distill(folder, {"--validation-size", "5"}), was + "--validation-size 2, now it is 5");
  fails_early(distill(folder, {"--length-penalty", "1"}), was + "--length-penalty not given, now it is 1");
  fails_early(distill(folder, {"--d-model", "8", "--max-steps", "4"}), "--d-model cannot become 8, it was 16");
  CHECK(weights(folder) == kept);

  const std::string nowhere = files("nowhere");
  fails_early(distill(nowhere, {"--teacher", files("nobody")}), "nobody");
  fails_early(distill(nowhere, {"--pairs", files("nothing.tsv")}), "nothing.tsv");
  fails_early(distill(nowhere, {"--pairs", files.write("blank.tsv", "\n\n")}), "distill: there is no sentence pair to train on");
  fails_early(distill(nowhere, {"--n-best", "5", "--beam", "2"}), "n_best");
  fails_early(distill(nowhere, {"--heads", "3"}), "heads");
  fails_early(distill(nowhere, {"--optimizer", "adam", "--momentum", "0.5"}), "--momentum goes with");
  fails_early(distill(nowhere, {"--validation-size", "0", "--validate-every", "5"}), "--validate-every needs validation pairs");
  fails_early(distill(nowhere, {"--from", "eng_Latn", "--to", "fra_Latn"}), "has none to choose from");
  fails_early(distill(nowhere, {"--precision", "tf32"}), "is for a GPU");
  fails_early(distill(nowhere, {"--teacher-precision", "tf32"}), "is for a GPU");
  CHECK_FALSE(fs::exists(nowhere));

  fs::copy(teacher(), files("another"), fs::copy_options::recursive);
  fails_early(distill(files("another")), "distill: " + files("another") + " holds another run");
  fails_early(distill(pairs()), "is a file, expected a folder");
  fs::create_directories(files("strange/distilled"));
  files.write("strange/distilled/pairs.tsv", "my own\tpairs\n");
  fails_early(distill(files("strange")), "which says what it was made with, is not");
  CHECK(io::read_file(files("strange/distilled/pairs.tsv")) == "my own\tpairs\n");
  CHECK(run(distill(files("strange"), {"--overwrite"})).code == 0);

  // What is lost by --overwrite is not gone on with later.
  {
    Program killed(distill(folder, {"--overwrite", "--beam", "2"}));
    REQUIRE(killed.says("are translated"));
    killed.signal(SIGKILL);
    killed.wait();
  }
  const auto anew = run(distill(folder, {"--beam", "2"}));
  CHECK(anew.code == 0);
  CHECK_THAT(anew.errors, !ContainsSubstring("going on from step 3"));
}

TEST_CASE("translate distill: a teacher of many languages, in those that are chosen", "[translate]") {
  pretrained::make(files("nllb"), "m2m_100", "nllb");
  const std::string nllb = files("nllb");
  fails_early(distill(files("many"), {"--teacher", nllb}), "distill: the tokenizer of " + nllb);
  CHECK_FALSE(fs::exists(files("many")));
  const Words chosen{"--teacher", nllb, "--from", "eng_Latn", "--to", "fra_Latn", "--teacher-precision", "int8"};
  const auto done = run(distill(files("many"), chosen));
  CAPTURE(done.errors);
  REQUIRE(done.code == 0);
  const auto search = Words{"--from", "eng_Latn", "--to", "fra_Latn", "--precision", "int8", "--max-tokens", "12"};
  const auto expected = run_on_file(with({"run", "--model", nllb}, search), files("many/distilled/sources.txt")).output;
  std::string targets;
  for (const auto& pair : read(files("many/distilled/pairs.tsv"))) targets += text::collapse_spaces(pair.target) + '\n';
  std::string collapsed;
  std::istringstream lines(expected);
  for (std::string line; std::getline(lines, line);) collapsed += text::collapse_spaces(line) + '\n';
  CHECK(targets == collapsed);

  REQUIRE(run(distill(files("turned"), with(chosen, {"--reverse"}))).code == 0);
  CHECK_THAT(io::read_file(files("turned/distilled/sources.txt")), ContainsSubstring(" ve "));
  CHECK_THAT(io::read_file(files("turned/distilled/validation.tsv")), ContainsSubstring(" sees "));
  CHECK(read(files("turned/distilled/validation.tsv")).front().source.find(" ve ") != std::string::npos);
}

namespace {

/// A student that learns distributions over words; it has the teacher's tokenizer.
Words by_words(const std::string& folder, const std::string& level, const Words& more = {}) {
  Words words{"distill", "--out", folder, "--level", level, "--validation-size", "2"};
  const auto unless_given = [&](const char* option, const std::string& value) {
    if (std::find(more.begin(), more.end(), option) == more.end()) words.insert(words.end(), {option, value});
  };
  unless_given("--teacher", teacher());
  unless_given("--pairs", pairs());
  unless_given("--max-steps", "3");
  Words sizes = small;
  const auto at = std::find(sizes.begin(), sizes.end(), "--vocabulary");
  sizes.erase(at, at + 2);
  return with(with(words, sizes), more);
}
/// The same student by `translate train`, from the texts of another's folder.
Words train_on(const std::string& texts, const std::string& folder, const Words& more) {
  Words words = by_words(folder, "word", more);
  words[0] = "train";
  for (const char* option : {"--level", "--validation-size", "--pairs"}) {
    const auto at = std::find(words.begin(), words.end(), option);
    words.erase(at, at + 2);
  }
  return with(words, {"--pairs", texts + "pairs.tsv", "--validation-pairs", texts + "validation.tsv"});
}
/// The same from the pairs that all have.
Words train_by_words(const std::string& folder, const Words& more = {}) {
  Words words = by_words(folder, "word", more);
  words[0] = "train";
  const auto at = std::find(words.begin(), words.end(), "--level");
  words.erase(at, at + 2);
  return words;
}

/// The teacher with half of its weights' file, which shows only when that is opened.
const std::string& damaged() {
  static const std::string folder = [] {
    fs::copy(teacher() + "/last", files("damaged"), fs::copy_options::recursive);
    const auto weights_file = files("damaged/model.safetensors");
    fs::resize_file(weights_file, fs::file_size(weights_file) / 2);
    return files("damaged");
  }();
  return folder;
}

}  // namespace

TEST_CASE("translate distill --level word: the student learns from the pairs what the teacher makes of them", "[translate]") {
  const std::string folder = files("word"), texts = folder + "/distilled/";
  const auto done = run(by_words(folder, "word", {"--test-size", "2"}));
  CAPTURE(done.errors);
  REQUIRE(done.code == 0);
  CHECK_THAT(done.errors, ContainsSubstring("train: the teacher is " + teacher() + ", 1 + 1 layers of 32"));
  CHECK_THAT(done.errors, ContainsSubstring("the teacher's share 0.5"));
  CHECK_THAT(done.errors, !ContainsSubstring("are translated") && !ContainsSubstring("learning subwords"));
  std::set<std::string> real;
  for (const auto& pair : read(pairs())) real.insert(pair.source + '\t' + pair.target);
  CHECK(read(texts + "pairs.tsv").size() >= 18);
  for (const auto& pair : read(texts + "pairs.tsv")) CHECK(real.count(pair.source + '\t' + pair.target) == 1);
  CHECK_FALSE(fs::exists(texts + "sources.txt"));
  CHECK(io::read_file(folder + "/last/tokenizer.model") == io::read_file(teacher() + "/last/tokenizer.model"));
  CHECK(run({"run", "--model", folder}, "I sees tea.\n").code == 0);

  REQUIRE(run(train_on(texts, files("word_plain"), {})).code == 0);
  CHECK(weights(files("word_plain")) == weights(folder));
  REQUIRE(run(train_on(texts, files("word_more"), {"--distillation-weight", "0.9"})).code == 0);
  CHECK(weights(files("word_more")) != weights(folder));
  REQUIRE(run(train_on(texts, files("word_warm"), {"--distillation-temperature", "2"})).code == 0);
  CHECK(weights(files("word_warm")) != weights(folder));

  const auto before = weights(folder);
  const auto again = run(by_words(folder, "word", {"--test-size", "2"}));
  CHECK(again.code == 0);
  CHECK_THAT(again.errors, ContainsSubstring(folder + " is there as a whole"));
  CHECK(weights(folder) == before);
  const auto longer = run(by_words(folder, "word", {"--test-size", "2", "--max-steps", "5"}));
  CHECK(longer.code == 0);
  CHECK_THAT(longer.errors, ContainsSubstring("going on from step 3"));
  // `translate train` knows who teaches; stopped and gone on with, the bits are those of one run.
  const auto resumed = run({"train", "--resume", "--out", folder, "--max-steps", "6"});
  CHECK(resumed.code == 0);
  CHECK_THAT(resumed.errors, ContainsSubstring("the teacher is ") && ContainsSubstring("going on from step 5"));
  const Words parts{"--schedule", "constant", "--warmup", "1"};  // the same rates, however long the run is
  REQUIRE(run(train_on(texts, files("word_one"), with(parts, {"--max-steps", "6"}))).code == 0);
  REQUIRE(run(train_on(texts, files("word_two"), with(parts, {"--max-steps", "3"}))).code == 0);
  REQUIRE(run({"train", "--resume", "--out", files("word_two"), "--max-steps", "6"}).code == 0);
  CHECK(weights(files("word_two")) == weights(files("word_one")));
}

TEST_CASE("translate distill --level both: from the teacher's translations, word by word", "[translate]") {
  const std::string folder = files("both"), texts = folder + "/distilled/";
  const auto done = run(by_words(folder, "both", {"--max-tokens", "12"}));
  CAPTURE(done.errors);
  REQUIRE(done.code == 0);
  CHECK_THAT(done.errors, ContainsSubstring("are translated") && ContainsSubstring("the teacher is "));
  std::string targets;
  for (const auto& pair : read(texts + "pairs.tsv")) targets += pair.target + '\n';
  CHECK(targets == translated(texts + "sources.txt"));
  CHECK(io::read_file(folder + "/last/tokenizer.model") == io::read_file(teacher() + "/last/tokenizer.model"));
  REQUIRE(run(train_on(texts, files("both_plain"), {})).code == 0);
  CHECK(weights(files("both_plain")) == weights(folder));
  REQUIRE(run(by_words(files("both_real"), "both", {"--max-tokens", "12", "--keep-references"})).code == 0);
  CHECK(weights(files("both_real")) != weights(folder));
}

TEST_CASE("translate distill --level word: killed, it goes on by the same command", "[translate]") {
  const Words options{"--max-steps", "60", "--checkpoint-every", "5", "--validate-every", "10"};
  REQUIRE(run(by_words(files("word_whole"), "word", options)).code == 0);
  const std::string folder = files("word_killed");
  {
    Program killed(by_words(folder, "word", options));
    REQUIRE(killed.says("validation at step 10"));
    killed.signal(SIGKILL);
    killed.wait();
  }
  const auto resumed = run(by_words(folder, "word", options));
  CHECK(resumed.code == 0);
  CHECK(weights(folder) == weights(files("word_whole")));
}

TEST_CASE("translate distill --level: what does not go together is refused before anything is done", "[translate]") {
  const std::string nowhere = files("nowhere_by_words");
  fails_early(by_words(nowhere, "word", {"--beam", "2"}),
              "distill: --beam is for the teacher's translations, of which --level word makes none");
  fails_early(by_words(nowhere, "word", {"--keep-references"}), "--keep-references is for the teacher's translations");
  fails_early(by_words(nowhere, "word", {"--teacher-precision", "int8"}),
              "--teacher-precision is for the teacher's translations");
  fails_early(by_words(nowhere, "both", {"--teacher", teacher(), "--teacher", teacher()}),
              "distill: --level both takes one --teacher, got 2");
  fails_early(by_words(nowhere, "word", {"--vocabulary", "50"}),
              "--vocabulary is for subwords that are learnt; a student has those of its --teacher");
  fails_early(by_words(nowhere, "both", {"--r-drop", "5"}), "--r-drop and --teacher exclude each other");
  fails_early(by_words(nowhere, "word", {"--distillation-weight", "0"}), "so that --teacher would not be asked");
  fails_early(by_words(nowhere, "word", {"--distillation-weight", "2"}), "--distillation-weight", 2);
  fails_early(by_words(nowhere, "word", {"--teacher", files("nobody")}), "nobody");
  fails_early(by_words(nowhere, "word", {"--from", "eng_Latn", "--to", "fra_Latn"}), "has none to choose from");
  fails_early(distill(nowhere, {"--distillation-weight", "0.7"}),
              "distill: --distillation-weight goes with --level word or both");
  fails_early(distill(nowhere, {"--distillation-temperature", "2"}), "--distillation-temperature goes with --level word or both");
  CHECK(run({"quantize", "--model", teacher(), "--out", files("teacher8")}).code == 0);
  fails_early(by_words(nowhere, "word", {"--teacher", files("teacher8")}), "is of 8-bit integers");
  CHECK_FALSE(fs::exists(nowhere));
  Words train = train_on(files("word") + "/distilled/", nowhere, {});
  fails_early(with(train, {"--vocabulary", "50"}), "--vocabulary is for subwords");
  train.erase(std::find(train.begin(), train.end(), "--teacher"), std::find(train.begin(), train.end(), "--teacher") + 2);
  fails_early(with(train, {"--distillation-weight", "0.7"}), "train: --distillation-weight goes with --teacher");
  CHECK_FALSE(fs::exists(nowhere));

  const std::string begun = files("begun_by_words");
  REQUIRE(run(by_words(begun, "word")).code == 0);
  fails_early(by_words(begun, "both"), "distill: " + begun + " was begun with --level word, now it is both");
  const Words on{"train", "--resume", "--out", begun, "--max-steps", "5"};
  fails_early(with(on, {"--distillation-weight", "0.7"}), "is of another run: distillation_weight 0.5 (this run: 0.7)");
  // The student has its teacher's tokenizer, so that it could teach; the run began with another.
  fs::copy(begun, files("begun_copy"), fs::copy_options::recursive);
  fails_early(with(on, {"--teacher", files("begun_copy")}), "is of another run: teacher of ");
  REQUIRE(run(distill(files("other_tokenizer"))).code == 0);
  fails_early(with(on, {"--teacher", files("other_tokenizer")}), "has another tokenizer than the model of " + begun);
  CHECK(run(on).code == 0);
}

TEST_CASE("translate train --teacher, --init: one that cannot be read costs the run that is there nothing", "[translate]") {
  const std::string folder = files("kept_settings");
  REQUIRE(run(train_by_words(folder)).code == 0);
  const auto kept = weights(folder), settings = io::read_file(folder + "/train.json");
  fails_early(train_by_words(folder, {"--teacher", damaged(), "--overwrite", "--max-steps", "7"}), "safetensors: ");
  CHECK(io::read_file(folder + "/train.json") == settings);
  fails_early({"train", "--pairs", pairs(), "--out", folder, "--overwrite", "--init", damaged(), "--max-steps", "7"},
              "safetensors: ");
  CHECK(io::read_file(folder + "/train.json") == settings);
  CHECK(weights(folder) == kept);
  // What is refused only when both models are there: the run that is there goes on as it would have.
  fails_early(train_by_words(folder, {"--overwrite", "--max-length", "2"}), "Batches: none of");
  CHECK(io::read_file(folder + "/train.json") == settings);
  CHECK(run({"train", "--resume", "--out", folder, "--max-steps", "4"}).code == 0);
  CHECK(io::read_json(folder + "/train.json").at("max-steps").at(0) == "4");
  CHECK(run(train_by_words(folder, {"--overwrite", "--max-steps", "2"})).code == 0);
  CHECK(io::read_json(folder + "/train.json").at("max-steps").at(0) == "2");
}

TEST_CASE("translate distill --overwrite: a teacher that cannot be read costs the run that is there nothing", "[translate]") {
  const std::string folder = files("kept_texts");
  const auto state = [&] {
    std::string all;
    for (const char* name : {"train.json", "last/model.safetensors", "last/training.safetensors", "distilled/pairs.tsv",
                             "distilled/validation.tsv", "distilled/distill.json"})
      all += io::read_file(fs::path(folder) / name);
    return all;
  };
  REQUIRE(run(by_words(folder, "word")).code == 0);
  const auto kept = state();
  for (const char* level : {"sequence", "word", "both"}) {
    fails_early(by_words(folder, level, {"--teacher", damaged(), "--overwrite"}), "safetensors: ");
    CHECK(state() == kept);
  }
  CHECK(run(by_words(folder, "word")).complaints() == 1);  // it is there as a whole
}

TEST_CASE("translate train --teacher, distill: the teacher is never where its student goes", "[translate]") {
  const std::string large = files("large");
  fs::copy(teacher(), large, fs::copy_options::recursive);
  fs::copy(large + "/last", large + "/step-150", fs::copy_options::recursive);
#if !defined(_WIN32)  // where making links is for administrators
  fs::create_directory_symlink(large, files("large_by_another_name"));
#endif
  const auto files_of = [&] {
    std::string all;
    for (const auto& entry : fs::recursive_directory_iterator(large))
      if (entry.is_regular_file()) all += entry.path().string() + '\n' + io::read_file(entry.path());
    return all;
  };
  const auto before = files_of();
  const auto refused = [&](const std::string& teaching, const std::string& to) {
    const std::string message =
        "--teacher " + teaching + " is a model in --out " + to + ", which the student would take the place of";
    for (const Words& more : {Words{"--teacher", teaching}, Words{"--teacher", teaching, "--overwrite"}}) {
      for (const char* level : {"sequence", "word", "both"}) fails_early(by_words(to, level, more), "distill: " + message);
      fails_early(train_by_words(to, more), "train: " + message);
    }
    fails_early({"train", "--resume", "--out", to, "--teacher", teaching}, "train: " + message);
    CHECK(files_of() == before);
  };
  refused(large, large);
  refused(large, large + "/best");  // which the folder of a run stands for
  for (const char* model : {"/best", "/last", "/step-150"}) refused(large + model, large);
#if !defined(_WIN32)
  refused(large, files("large_by_another_name"));
  refused(files("large_by_another_name") + "/best", large);
#endif
  // Beside the teacher there is room.
  CHECK(run(train_by_words(large + "/small", {"--teacher", large})).code == 0);
}

TEST_CASE("translate distill --level sequence: is what is done without --level", "[translate]") {
  const std::string folder = files("level"), record = folder + "/distilled/distill.json";
  const Words named{"--level", "sequence"};
  REQUIRE(run(distill(folder)).code == 0);
  const auto whole = [&](const Words& more) {
    const auto again = run(distill(folder, more));
    CAPTURE(more, again.errors);
    CHECK(again.code == 0);
    CHECK_THAT(again.errors, ContainsSubstring(folder + " is there as a whole"));
  };
  whole({});
  whole(named);
  auto json = io::read_json(record);  // as it was before there were levels
  for (const char* part : {"made_with", "finished_with"}) CHECK(json[part].erase("--level") == 1);
  io::write_json(record, json);
  whole({});
  whole(named);
  fails_early(by_words(folder, "both", {"--max-tokens", "12"}),
              "distill: " + folder + " was begun with --level sequence, now it is both");
  CHECK(run(distill(folder, with(named, {"--max-steps", "4"}))).code == 0);
  whole({"--max-steps", "4"});
}

TEST_CASE("translate train --resume --teacher: a run without a teacher gets none", "[translate]") {
  const std::string folder = files("untaught");
  REQUIRE(run(distill(folder)).code == 0);  // with a --vocabulary of its own
  const Words on{"train", "--resume", "--out", folder, "--max-steps", "4"};
  for (const Words& more : {Words{}, Words{"--distillation-weight", "0.7"}})
    fails_early(with(with(on, {"--teacher", teacher()}), more), "train: --resume goes on with the run of " + folder +
                                                                    ", which has no teacher, so --teacher " + teacher() +
                                                                    " cannot join it: leave it out, or train anew");
  CHECK(run(on).code == 0);
}

TEST_CASE("translate train --teacher --tie: embeddings that the teacher's vocabularies leave apart are not shared",
          "[translate]") {
  const auto marian = fs::path(ATTEND_REFERENCE_DEFAULT_DIR) / ".." / ".." / "marian" / "data" / "relu_separate";
  const std::string apart = marian.string(), folder = files("apart");
  const std::string message = " shares the embeddings of sources and targets, and the vocabularies of --teacher " + apart +
                              " are separate; expected --tie head or none";
  for (const char* level : {"word", "both"})
    fails_early(by_words(folder, level, {"--teacher", apart, "--tie", "all"}), "train: --tie all" + message);
  fails_early(train_by_words(folder, {"--teacher", apart, "--tie", "all"}), "train: --tie all" + message);
  CHECK_FALSE(fs::exists(folder));
  const auto shares = [&](const Words& more) {
    const auto done = run(train_by_words(folder, with({"--overwrite"}, more)));
    CAPTURE(more, done.errors);
    REQUIRE(done.code == 0);
    CHECK(run({"train", "--resume", "--out", folder, "--max-steps", "4"}).code == 0);
    return load(folder + "/last").model.options.share_embeddings;
  };
  for (const Words& tie : {Words{}, Words{"--tie", "head"}, Words{"--tie", "none"}})
    CHECK_FALSE(shares(with({"--teacher", apart}, tie)));
  for (const Words& tie : {Words{}, Words{"--tie", "all"}}) CHECK(shares(tie));  // one vocabulary
}

TEST_CASE("translate distill --level word: teachers of other families, with their tokenizers", "[translate]") {
  const fs::path data = fs::path(ATTEND_REFERENCE_DEFAULT_DIR) / ".." / ".." / "marian" / "data";
  for (const auto& entry : fs::directory_iterator(data)) {
    if (!fs::exists(entry.path() / "config.json")) continue;
    const std::string folder = files("of_marian_" + entry.path().filename().string());
    const auto done = run(by_words(folder, "word", {"--teacher", entry.path().string()}));
    CAPTURE(entry.path(), done.errors);
    CHECK(done.code == 0);
    CHECK(run({"run", "--model", folder}, "I have tea.\n").code == 0);
    CHECK(run({"train", "--resume", "--out", folder, "--max-steps", "4"}).code == 0);
  }
  pretrained::make(files("nllb_words"), "m2m_100", "nllb");
  const std::string nllb = files("nllb_words"), folder = files("of_nllb");
  fails_early(by_words(folder, "word", {"--teacher", nllb}), "the tokenizer of " + nllb);
  const Words chosen{"--teacher", nllb, "--from", "eng_Latn", "--to", "fra_Latn"};
  const auto done = run(by_words(folder, "both", with(chosen, {"--max-tokens", "12"})));
  CAPTURE(done.errors);
  REQUIRE(done.code == 0);
  CHECK_THAT(done.errors, ContainsSubstring("eng_Latn") && ContainsSubstring("fra_Latn"));
  const auto resumed = run({"train", "--resume", "--out", folder, "--max-steps", "4"});
  CAPTURE(resumed.errors);
  CHECK(resumed.code == 0);
  CHECK(run({"run", "--model", folder}, "I have tea.\n").code == 0);
  REQUIRE(run(by_words(files("of_nllb_turned"), "word", with(chosen, {"--reverse"}))).code == 0);
  CHECK_THAT(io::read_file(files("of_nllb_turned/distilled/pairs.tsv")), ContainsSubstring(" ve "));
}
