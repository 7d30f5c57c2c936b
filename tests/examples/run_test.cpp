// translate run, rate and shortlist: what they print of translations, besides their text.

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "attend/io/file.hpp"
#include "catch.hpp"
#include "files.hpp"
#include "words.hpp"

namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;

const Files files;

/// A file of pairs in few words.
const std::string& pairs() {
  static const std::string path = files.write("pairs.tsv", few_words());
  return path;
}

/// A model of that name, trained to say what the pairs do.
std::string train(const std::string& name, const std::string& data, const Words& more = {}) {
  Words words{"train",     "--pairs",           data, "--out",
              files(name), "--d-model",         "32", "--heads",
              "2",         "--encoder-layers",  "1",  "--decoder-layers",
              "2",         "--max-length",      "40", "--tokens-per-batch",
              "200",       "--validation-size", "3",  "--epochs",
              "0",         "--patience",        "0",  "--validate-every",
              "150",       "--warmup",          "20", "--learning-rate",
              "0.005",     "--max-steps",       "150"};
  words.insert(words.end(), more.begin(), more.end());
  const auto trained = run(words);
  if (trained.code != 0) throw std::runtime_error(trained.errors);
  return files(name);
}
/// A model that was trained once for all tests.
const std::string& model() {
  static const std::string folder = train("model", pairs());
  return folder;
}

/// One with other words.
const std::string& other_model() {
  static const std::string folder = [] {
    std::string tsv;
    for (const char* what : {"red", "green", "blue", "white", "black", "brown", "grey", "old", "new", "big"})
      tsv += std::string("my ") + what + " car\tmi coche " + what + "\n";
    return train("other", files.write("other.tsv", tsv), {"--max-steps", "1"});
  }();
  return folder;
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) all.push_back(line);
  return all;
}

/// What the program prints, which it does without complaints.
std::vector<std::string> printed(Words words, const std::string& input) {
  const auto outcome = run(words, input);
  CAPTURE(words, outcome.errors);
  CHECK(outcome.code == 0);
  CHECK(outcome.errors.empty());
  return lines(outcome.output);
}
std::vector<std::string> translated(const Words& flags, const std::string& input) {
  Words words{"run", "--model", model()};
  words.insert(words.end(), flags.begin(), flags.end());
  return printed(words, input);
}

const std::string input = "Ana sees tea.\n\nwe sees a \"house\".\n";

}  // namespace

TEST_CASE("translate run --format json: what the text says, and its tokens", "[translate]") {
  const auto text = translated({"--n-best", "2", "--alignments"}, input);
  const auto json = translated({"--n-best", "2", "--alignments", "--format", "json"}, input);
  REQUIRE(json.size() == 3);
  std::vector<std::string> again;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const auto line = nlohmann::json::parse(json[i]);
    CHECK(line.at("line") == i + 1);
    CHECK(line.at("source") == lines(input)[i]);
    for (const auto& one : line.at("translations")) {
      std::string links;
      for (const auto& link : one.at("alignment"))
        links += (links.empty() ? "" : " ") + std::to_string(link.at(0).get<int>()) + "-" + std::to_string(link.at(1).get<int>());
      char head[64];
      std::snprintf(head, sizeof head, "%zu\t%.4f\t", i + 1, one.at("score").get<double>());
      again.push_back(head + one.at("text").get<std::string>() + "\t" + links);
      double sum = 0;
      for (const auto& value : one.at("token_log_probabilities")) sum += value.get<double>();
      CHECK(sum == Approx(one.at("log_probability").get<double>()).margin(1e-5));
      CHECK(one.at("tokens").size() == one.at("token_log_probabilities").size());
      if (i != 1) CHECK_FALSE(links.empty());
    }
  }
  CHECK(again == text);
}

TEST_CASE("translate rate: the log-probabilities that the search reports", "[translate]") {
  std::string tsv;
  std::vector<double> expected;
  for (const auto& json : translated({"--format", "json"}, "Ana sees tea.\nI sees books.\n")) {
    const auto line = nlohmann::json::parse(json);
    const auto& best = line.at("translations").at(0);
    tsv += line.at("source").get<std::string>() + "\t" + best.at("text").get<std::string>() + "\n";
    expected.push_back(best.at("log_probability"));
  }
  tsv += "Ana sees tea.\tella ve agua.\tof no interest\n\t\n";
  const auto rated = printed({"rate", "--model", model(), "--alignments"}, tsv);
  REQUIRE(rated.size() == 4);
  for (std::size_t i = 0; i < 2; ++i) CHECK(std::stod(rated[i]) == Approx(expected[i]).margin(2e-3));
  CHECK(std::stod(rated[2]) < std::stod(rated[0]));
  CHECK(std::count(rated[2].begin(), rated[2].end(), '\t') == 2);
  CHECK(rated[3].substr(rated[3].find('\t')) == "\t1\t");  // the end alone
  const auto json = printed({"rate", "--model", model(), "--format", "json"}, tsv);
  CHECK(nlohmann::json::parse(json[2]).at("translations").at(0).at("text") == "ella ve agua.");
  fails({"rate", "--model", model()}, "rate: line 2 has no tab", 1, "Ana\tAna\nc\n");
  const std::string endless = std::string(200, 'a');
  for (const auto& line : {std::string("no tab\n"), "Ana\t" + endless + "\n"}) {  // what stands before it is rated
    const auto outcome = run({"rate", "--model", model()}, "Ana\tAna\n" + line);
    CHECK(outcome.code == 1);
    CHECK(lines(outcome.output).size() == 1);
    CHECK_THAT(outcome.errors, ContainsSubstring("line 2 has no tab") || ContainsSubstring("target 2 has "));
  }
}

TEST_CASE("translate run: prefixes, alternatives, words that may not come", "[translate]") {
  for (const auto& line : translated({"--prefix", "Ana ve"}, "we sees tea.\nI sees books.\n"))
    CHECK(line.substr(0, 6) == "Ana ve");
  const auto each = translated({"--with-prefix"}, "we sees tea.\tella\nI sees books.\n");
  CHECK(each.at(0).substr(0, 4) == "ella");
  CHECK(each.at(1) == translated({}, "I sees books.\n").at(0));
  const auto ways = translated({"--prefix", "Ana", "--alternatives", "3"}, "we sees tea.\n");
  REQUIRE(ways.size() == 3);
  for (const auto& way : ways) CHECK(way.substr(way.rfind('\t') + 1, 3) == "Ana");
  const auto plain = translated({}, "Ana sees tea.\n").at(0), word = plain.substr(0, plain.find(' '));
  CHECK_THAT(translated({"--suppress", word, "--suppress", "pan"}, "Ana sees tea.\n").at(0), !ContainsSubstring(word));
  fails({"run", "--model", model(), "--prefix", "a", "--with-prefix"}, "excludes", 2);
  fails({"run", "--model", model(), "--suppress", " "}, "banned_text has ' ', which has no tokens", 1, "a\n");
}

TEST_CASE("translate run: penalties, temperatures and forced ends", "[translate]") {
  const auto score = [](const Words& flags) {
    const auto json = nlohmann::json::parse(translated(flags, "Ana sees tea.\n").at(0));
    return json.at("translations").at(0).at("log_probability").get<double>();
  };
  const Words json{"--format", "json"};
  const double plain = score(json);
  CHECK(score({"--format", "json", "--temperature", "4"}) < plain);  // flatter
  CHECK(score({"--format", "json", "--max-tokens", "1", "--force-end"}) >
        score({"--format", "json", "--max-tokens", "1", "--force-end", "--score-forced-end"}));
  const auto repeated = translated({"--min-tokens", "24", "--max-tokens", "24"}, "Ana sees tea.\n").at(0),
             varied =
                 translated({"--min-tokens", "24", "--max-tokens", "24", "--repetition-penalty", "9"}, "Ana sees tea.\n").at(0);
  CHECK(repeated != varied);
  CHECK(translated({"--unknown", "allow", "--unknown-penalty", "3"}, "Ana sees tea.\n").size() == 1);
  CHECK(translated({"--sample", "--min-p", "1"}, input) == translated({"--beam", "1"}, input));
  CHECK(translated({"--n-best", "1", "--beam", "1", "--format", "json"}, "Ana sees tea.\n") ==
        translated({"--sample", "--top-k", "1", "--format", "json"}, "Ana sees tea.\n"));
  fails({"run", "--model", model(), "--beam", "1", "--temperature", "0.5"}, "greedy search knows nothing", 1, "a\n");
  fails({"run", "--model", model(), "--min-p", "0.5"}, "--min-p requires --sample", 2);
  fails({"run", "--model", model(), "--score-forced-end"}, "--score-forced-end requires --force-end", 2);
  for (const Words& of_beams : {Words{"--beam-groups", "2"}, {"--diversity-penalty", "1"}, {"--stop", "first"}})
    fails({"run", "--model", model(), "--sample", of_beams[0], of_beams[1]}, "excludes", 2);
  fails({"run", "--model", model(), "--unknown-penalty", "1"}, "and the unknown token never comes", 1, "a\n");
}

TEST_CASE("translate run: required words, and groups that differ", "[translate]") {
  const auto required = translated({"--beam", "8", "--required", "gato", "--required", "una casa"}, "Ana sees tea.\n").at(0);
  CHECK_THAT(required, ContainsSubstring("gato") && ContainsSubstring("una casa"));
  const auto list = [](const Words& flags) {
    Words words{"--beam", "4", "--n-best", "4"};
    words.insert(words.end(), flags.begin(), flags.end());
    return translated(words, "Ana sees tea.\n");
  };
  CHECK(list({"--beam-groups", "2", "--diversity-penalty", "9"}) != list({}));
  fails({"run", "--model", model(), "--beam-groups", "3", "--diversity-penalty", "1"}, "expected a divisor of the beam", 1,
        "a\n");
  fails({"run", "--model", model(), "--required", "a", "--sample"}, "required goes with beam search", 1, "a\n");
  fails({"run", "--model", model(), "--required", "a", "--split-sentences"}, "--required is for whole lines", 1, "a\n");
}

TEST_CASE("translate run: long lines are split where that is wanted", "[translate]") {
  const auto three = translated({}, "Ana sees tea.\nI sees books.\nwe sees bread.\n");
  const auto one = translated({"--split-sentences"}, "Ana sees tea. I sees books.  we sees bread.\n");
  REQUIRE(one.size() == 1);
  CHECK(one[0] == three[0] + " " + translated({}, "I sees books.  we sees bread.\n")[0]);  // a small letter begins no sentence
  std::string text;
  for (int i = 0; i < 30; ++i) text += "Ana sees tea. ";
  const auto parts = translated({"--long-input", "split"}, text + "\n");
  CHECK(parts.at(0).size() >= 30 * three[0].size());
  fails({"run", "--model", model()}, "sentence 1 has ", 1, text + "\n");
  fails({"run", "--model", model()}, "; split it, as --long-input split does\n", 1, text + "\n");
  fails({"run", "--model", model(), "--stream"}, "; split it, as --long-input split does\n", 1, text + "\n");
  fails({"run", "--model", model(), "--alternatives", "1"}, "sentence 2 has ", 1, "Ana sees tea.\n" + text + "\n");
  // What is refused has its place among the lines.
  const auto streamed = run({"run", "--model", model(), "--stream"}, "Ana sees tea.\n" + text + "\nAna sees tea.\n");
  CHECK(streamed.code == 1);
  REQUIRE(lines(streamed.output).size() == 3);
  CHECK(lines(streamed.output)[1].empty());
  CHECK(lines(streamed.output)[2] == lines(streamed.output)[0]);
  const auto json = run({"run", "--model", model(), "--format", "json"}, text + "\nAna sees tea.\n");
  CHECK(json.code == 1);
  REQUIRE(lines(json.output).size() == 2);
  const auto refused = nlohmann::json::parse(lines(json.output)[0]);
  CHECK(refused.at("translations").empty());
  CHECK_THAT(refused.at("error").get<std::string>(), ContainsSubstring("sentence 1 has "));
  CHECK_FALSE(nlohmann::json::parse(lines(json.output)[1]).contains("error"));
  const auto lists = run({"run", "--model", model(), "--n-best", "2"}, text + "\nAna sees tea.\n");
  CHECK(lists.code == 1);
  for (const auto& line : lines(lists.output)) CHECK(line.starts_with("2\t"));
}

TEST_CASE("translate run --stream: what greedy search finds, as it comes", "[translate]") {
  CHECK(translated({"--stream"}, input) == translated({"--beam", "1"}, input));
  CHECK(translated({"--stream", "--sample", "--seed", "3"}, input) == translated({"--sample", "--seed", "3"}, input));
  fails({"run", "--model", model(), "--stream", "--beam", "4"}, "the beam is 4", 1, "a\n");
  fails({"run", "--model", model(), "--stream", "--n-best", "2"}, "--n-best asks for 2", 1, "a\n");
  fails({"run", "--model", model(), "--stream", "--unknown", "replace"}, "changes words afterwards", 1, "a\n");
}

TEST_CASE("translate run: several models vote, and must have one tokenizer", "[translate]") {
  const auto outcome = run({"run", "--model", model(), "--model", model() + "/last"}, input);
  CHECK(outcome.code == 0);
  CHECK(lines(outcome.output) == translated({}, input));
  fails({"run", "--model", model(), "--model", other_model()}, "has another tokenizer than " + model(), 1, "a\n");
}

TEST_CASE("translate shortlist: learned, used, and refused for another model", "[translate]") {
  const std::string list = files("shortlist.safetensors");
  const auto learned =
      run({"shortlist", "--model", model(), "--pairs", pairs(), "--out", list, "--best", "4", "--frequent", "6"});
  CHECK(learned.code == 0);
  CHECK_THAT(learned.errors, ContainsSubstring("24 pairs\n") && ContainsSubstring("tokens for a sentence\n"));
  const auto restricted = translated({"--shortlist", list, "--format", "json"}, input),
             all = translated({"--format", "json"}, input);
  const auto probability = [](const std::string& line) {
    return nlohmann::json::parse(line).at("translations").at(0).at("log_probability").get<double>();
  };
  CHECK(probability(restricted[0]) > probability(all[0]));  // given that it is one of fewer
  fails({"run", "--model", other_model(), "--shortlist", list}, "the model's tokenizer has ", 1, "a\n");
  fails({"run", "--model", model(), "--shortlist", pairs()}, "safetensors: ", 1, "a\n");
  fails({"shortlist", "--model", model(), "--out", list}, "give --pairs, or --source and --target");
}
