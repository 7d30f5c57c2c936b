#include "attend/text/corpus.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "attend/core/error.hpp"
#include "catch.hpp"
#include "temporary_folder.hpp"
#include "text/shared_data.hpp"

using namespace attend;
using namespace attend::text;

namespace {

index_t sum_of_counts(const CorpusReport& r) {
  return r.pairs + r.empty + r.too_long + r.malformed + r.invalid_utf8 + r.duplicates;
}

/// `sources` sentences; sentence i has 1 + i % 3 translations.
Corpus made_up_corpus(int sources) {
  Corpus corpus;
  for (int i = 0; i < sources; ++i)
    for (int k = 0; k <= i % 3; ++k)
      corpus.pairs.push_back({"source " + std::to_string(i), "target " + std::to_string(i) + "." + std::to_string(k)});
  return corpus;
}

std::set<std::string> source_set(const Corpus& corpus) {
  const auto sources = corpus.sources();
  return {sources.begin(), sources.end()};
}

}  // namespace

TEST_CASE("corpus: tab-separated pairs, cleaned, and every line accounted for") {
  const TemporaryFolder folder;
  const auto path = folder.write("pairs.tsv",
                                 "\xEF\xBB\xBFGo.\tVe.\r\n"
                                 "  How \xC2\xA0 are you? \t ¿Cómo  estás?\tCC-BY 2.0 (somebody)\n"
                                 "no tab here\n"
                                 "\n"
                                 "   \t  \n"
                                 "only a source\t\n"
                                 "\tonly a target\n"
                                 "Go.\tVe.\n"
                                 "no tab either\n"
                                 "ééééé\tx\n"
                                 "éééééé\tx\n"
                                 "Bye\tAdiós");
  const Corpus corpus = read_tsv(path, {.max_characters = 13});
  REQUIRE(corpus.size() == 6);
  CHECK(corpus[0] == SentencePair{"Go.", "Ve."});
  CHECK(corpus[1] == SentencePair{"How are you?", "¿Cómo estás?"});
  CHECK(corpus[2] == SentencePair{"Go.", "Ve."});
  CHECK(corpus.pairs.back() == SentencePair{"Bye", "Adiós"});
  CHECK(corpus.report.lines == 12);
  CHECK(corpus.report.pairs == 6);
  CHECK(corpus.report.empty == 4);
  CHECK(corpus.report.malformed == 2);
}

TEST_CASE("corpus: the counts of what was left out") {
  const TemporaryFolder folder;
  const auto path = folder.write("pairs.tsv", "a\tb\nno tab\n\n \t \na\t\n\tb\na\tb\nno tab\nééé\tx\néééé\tx\na \xFF\tb\n");
  CHECK_THROWS_AS(read_tsv(path), FormatError);
  CHECK_THROWS_WITH(read_tsv(path), "read_tsv: " + path.string() + ", line 11: byte 3 of the line is 0xFF, expected UTF-8");
  const Corpus corpus = read_tsv(path, {.max_characters = 3, .remove_duplicates = true, .skip_invalid_utf8 = true});
  const CorpusReport& r = corpus.report;
  CHECK(corpus.size() == 2);
  CHECK(r.lines == 11);
  CHECK(r.pairs == 2);
  CHECK(r.empty == 4);
  CHECK(r.too_long == 1);
  CHECK(r.malformed == 2);
  CHECK(r.first_malformed == 2);
  CHECK(r.duplicates == 1);
  CHECK(r.invalid_utf8 == 1);
  CHECK(sum_of_counts(r) == r.lines);
  CHECK(r.text() ==
        "11 lines, 2 pairs; left out: 4 empty, 1 too long, 2 without a tab (the first is line 2), 1 not UTF-8, 1 duplicate");
  CHECK(read_tsv(folder.write("one", "a\tb")).report.text() == "1 line, 1 pair");
}

TEST_CASE("corpus: files that are no pairs at all") {
  const TemporaryFolder folder;
  CHECK_THROWS_AS(read_tsv(folder.write("text", "just\na text\n\n")), FormatError);
  CHECK_THROWS_WITH(read_tsv(folder / "text"), "read_tsv: " + (folder / "text").string() +
                                                   " has 3 lines and a tab in none of them, expected lines `source<TAB>target`");
  CHECK_THROWS_AS(read_tsv(folder / "missing"), IoError);
  CHECK_THROWS_AS(read_tsv(folder.write("utf16",
                                        "\xFF\xFE"
                                        "a\0\t\0b\0\n\0")),
                  FormatError);
  CHECK_THROWS_AS(read_tsv(folder / "text", {.max_characters = 0}), ValueError);
  CHECK(read_tsv(folder.write("nothing", "")).empty());
  CHECK(read_tsv(folder.write("blank", "\n\n")).report.empty == 2);
}

TEST_CASE("corpus: aligned files") {
  const TemporaryFolder folder;
  const auto source = folder.write("a.en", "One.\r\nTwo \tmore.\r\n\r\n Four. \r\nbad \xC3\r\n");
  const auto target = folder.write("a.de", "Eins.\nZwei  weitere.\nDrei.\nVier.\nschlecht");
  CHECK_THROWS_AS(read_aligned(source, target), FormatError);
  CHECK_THROWS_WITH(read_aligned(source, target),
                    "read_aligned: " + source.string() + ", line 5: byte 5 of the line is 0xC3, expected UTF-8");
  const Corpus corpus = read_aligned(source, target, {.skip_invalid_utf8 = true});
  REQUIRE(corpus.size() == 3);
  CHECK(corpus[1] == SentencePair{"Two more.", "Zwei weitere."});
  CHECK(corpus[2] == SentencePair{"Four.", "Vier."});
  CHECK(corpus.report.empty == 1);
  CHECK(corpus.report.invalid_utf8 == 1);
  CHECK(sum_of_counts(corpus.report) == 5);

  const auto shorter = folder.write("b.de", "Eins.\n");
  CHECK_THROWS_AS(read_aligned(source, shorter), FormatError);
  CHECK_THROWS_WITH(read_aligned(source, shorter), "read_aligned: " + source.string() + " has 5 lines and " + shorter.string() +
                                                       " has 1, expected as many in both");
  CHECK_THROWS_AS(read_aligned(source, folder / "missing"), IoError);
}

TEST_CASE("corpus: the other way round") {
  const Corpus corpus{.pairs = {{"a", "b"}, {"c", "d"}}, .report = {}};
  CHECK(corpus.reversed().sources() == std::vector<std::string>{"b", "d"});
  CHECK(corpus.reversed().targets() == corpus.sources());
}

TEST_CASE("split: the parts have the sizes asked for, share no source, and lose no pair") {
  const Corpus corpus = made_up_corpus(300);
  const Split split = split_by_source(corpus, {.validation = 50, .test = 71, .seed = 3});
  CHECK(split.validation.size() == 50);
  CHECK(split.test.size() == 71);
  CHECK(split.train.size() == corpus.size() - 121);
  CHECK(split.train.report.pairs == split.train.size());

  std::set<std::string> all;
  std::size_t sources = 0;
  std::vector<std::string> targets;
  for (const Corpus* part : {&split.train, &split.validation, &split.test}) {
    const auto set = source_set(*part);
    sources += set.size();
    all.insert(set.begin(), set.end());
    for (const SentencePair& pair : *part) {
      CHECK(pair.target.substr(7, pair.target.find('.') - 7) == pair.source.substr(7));
      targets.push_back(pair.target);
    }
  }
  CHECK(sources == all.size());
  auto expected = corpus.targets();
  std::sort(targets.begin(), targets.end());
  std::sort(expected.begin(), expected.end());
  CHECK(targets == expected);
}

TEST_CASE("split: the seed decides, on every platform alike") {
  const Corpus corpus = made_up_corpus(100);
  const SplitOptions options{.validation = 4, .test = 5, .seed = 1};
  const Split split = split_by_source(corpus, options), again = split_by_source(corpus, options);
  CHECK(split.test.pairs == again.test.pairs);
  CHECK(split.train.pairs == again.train.pairs);
  CHECK(split_by_source(corpus, {.validation = 4, .test = 5, .seed = 2}).test.pairs != split.test.pairs);
  CHECK(split.validation.targets() == std::vector<std::string>{"target 66.0", "target 90.0", "target 12.0", "target 0.0"});
}

TEST_CASE("split: a source with more translations than a part can take goes elsewhere") {
  Corpus corpus;
  for (int i = 0; i < 20; ++i) corpus.pairs.push_back({"same", "t" + std::to_string(i)});
  corpus.pairs.push_back({"other", "t"});
  const Split split = split_by_source(corpus, {.validation = 2, .test = 0});
  CHECK(split.validation.size() == 1);
  CHECK(split.test.empty());
  CHECK(split.train.size() == 20);
}

TEST_CASE("split: counts that cannot be had are refused") {
  const Corpus corpus = made_up_corpus(3);  // 6 pairs
  CHECK_THROWS_AS(split_by_source(corpus), ValueError);
  CHECK_THROWS_AS(split_by_source(corpus, {.validation = 3, .test = 3}), ValueError);
  CHECK_THROWS_AS(split_by_source(corpus, {.validation = -1, .test = 1}), ValueError);
  CHECK_THROWS_AS(split_by_source(corpus, {.validation = 1, .test = -1}), ValueError);
  CHECK_THROWS_AS(split_by_source({}, {.validation = 0, .test = 0}), ValueError);
  CHECK(split_by_source(corpus, {.validation = 0, .test = 0}).train.size() == 6);
}

TEST_CASE("corpus: real pairs of sentences") {
  const auto path = shared_data("tatoeba/en-es.tsv");
  ATTEND_SKIP_WITHOUT(path);
  const Corpus corpus = read_tsv(path);
  CHECK(corpus.report.pairs == corpus.size());
  CHECK(sum_of_counts(corpus.report) == corpus.report.lines);
  CHECK(corpus.size() > corpus.report.lines * 9 / 10);
  const index_t total = corpus.size();
  const Split split = split_by_source(corpus);
  CHECK(split.validation.size() == 1500);
  CHECK(split.test.size() == 1500);
  CHECK(split.train.size() == total - 3000);
  const auto train = source_set(split.train), test = source_set(split.test);
  CHECK(std::none_of(test.begin(), test.end(), [&](const std::string& source) { return train.count(source) > 0; }));
}
