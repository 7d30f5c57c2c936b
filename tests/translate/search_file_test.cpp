#include "attend/translate/search_file.hpp"

#include <filesystem>
#include <limits>
#include <string>

#include "catch.hpp"
#include "temporary_folder.hpp"

using namespace attend;
using Catch::Matchers::ContainsSubstring;
using decode::TranslatorOptions;

namespace {

/// Options none of which is its default, but for those that go with others.
TranslatorOptions unusual() {
  return {.beam = 6,
          .n_best = 2,
          .length_penalty = 1.5,
          .normalization = decode::LengthNormalization::marian,
          .stop = decode::Stop::first,
          .min_length = 2,
          .max_length = 40,
          .max_ratio = 3,
          .temperature = 1.5,
          .batch_sentences = 8,
          .coverage_penalty = 0.2,
          .keep_unfinished = true,
          .no_repeat_ngram = 3,
          .force_end = true,
          .score_forced_end = true,
          .renormalize = true,
          .repetition_penalty = 1.2,
          .unknown_penalty = 0.5,
          .first = 7,
          .end_tokens = {3, 4},
          .suppress_marks = false,
          .suppressed = {5},
          .banned = {{6}, {7, 8}},
          .banned_text = {"word", "two words"},
          .unknown = decode::Unknown::allow,
          .long_input = decode::LongInput::split,
          .split_sentences = true,
          .alignment_layer = 1,
          .beam_groups = 3,
          .diversity_penalty = 0.4};
}

}  // namespace

TEST_CASE("search.json: every option comes back") {
  const TemporaryFolder folder;
  decode::save_search(folder.path(), unusual());
  const auto json = io::read_json(folder / io::search_file);
  const auto usual = decode::search_to_json({});
  for (const auto& [key, value] : json.items()) {
    INFO(key);
    const bool of_sampling = key == "sample" || key == "top_k" || key == "top_p" || key == "min_p" || key == "seed";
    CHECK((usual.contains(key) && usual.at(key) == value) == (of_sampling || key == "format" || key == "version"));
  }
  const io::FolderReader reader(folder.path());
  const auto read = decode::load_search(reader, 9);
  CHECK(decode::search_to_json(read) == json);
  CHECK((read.beam == 6 && read.beam.given() && read.banned == unusual().banned && read.banned_text == unusual().banned_text));
  CHECK((read.end_tokens == unusual().end_tokens && read.keep_unfinished && !read.suppress_marks && read.first == 7));

  const TranslatorOptions sampled{.max_ratio = std::numeric_limits<double>::infinity(),
                                  .sample = true,
                                  .temperature = 0.7,
                                  .top_k = 5,
                                  .top_p = 0.9,
                                  .min_p = 0.1,
                                  .seed = std::numeric_limits<std::uint64_t>::max()};
  decode::save_search(folder.path(), sampled);
  const auto drawn = decode::load_search(io::FolderReader(folder.path()), 9);
  CHECK((drawn.sample && !drawn.beam.given() && drawn.top_k == 5 && drawn.top_p == 0.9 && drawn.min_p == 0.1));
  CHECK((drawn.seed == sampled.seed && drawn.max_ratio == sampled.max_ratio && drawn.temperature == 0.7));
}

TEST_CASE("search.json: there is none for the default search, which a folder without one has") {
  const TemporaryFolder folder;
  decode::save_search(folder.path(), {});
  CHECK_FALSE(std::filesystem::exists(folder / io::search_file));
  CHECK(decode::search_to_json(decode::load_search(io::FolderReader(folder.path()), 9)) == decode::search_to_json({}));
  CHECK_THROWS_WITH(decode::save_search(folder.path(), {.n_best = 9}), ContainsSubstring("n_best is 9, expected 1 to beam"));
}

TEST_CASE("search.json: what makes no sense is refused by its name") {
  const auto refused = [](const std::string& key, const io::Json& value, const std::string& message) {
    io::Json json = decode::search_to_json(unusual());
    json[key] = value;
    INFO(key);
    CHECK_THROWS_AS(decode::search_from(json, "search.json", 9), FormatError);
    CHECK_THROWS_WITH(decode::search_from(json, "search.json", 9),
                      Catch::Matchers::StartsWith("search.json: ") && ContainsSubstring(message));
  };
  CHECK_NOTHROW(decode::search_from(decode::search_to_json(unusual()), "search.json", 9));
  refused("format", "attend", "expected \"attend search\"");
  refused("version", 2, "version is 2, this library reads versions 1 to 1");
  refused("length_penalty", io::Json(), "length_penalty");
  refused("length_penalty", "strong", "length_penalty is \"strong\"");
  refused("stop", "never", "stop is \"never\", expected one of exact, present, first");
  refused("beam", 5000, "beam is 5000, expected at most 4096");
  refused("beam", 0, "beam is 0, expected 1 or more");
  refused("n_best", 7, "n_best is 7, expected 1 to beam, 6");
  refused("max_length", index_t{1} << 40, "max_length is 1099511627776");
  refused("first", 9, "first has the token 9, outside the vocabulary of 9");
  refused("first", -2, "first has the token -2");
  refused("end_tokens", {9}, "end_tokens has the token 9");
  refused("suppressed", {-1}, "suppressed has the token -1");
  refused("banned", io::Json::array({{1}, {2, 9}}), "banned has the token 9");
  refused("banned", io::Json::array({io::Json::array()}), "banned has an empty list");
}
