#include "attend/train/pair_file.hpp"

#include "../catch.hpp"
#include "../temporary_folder.hpp"
#include "attend/train/fit.hpp"
#include "toy.hpp"

using namespace attend;
using namespace attend::train;
using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

TEST_CASE("pair files: what is written is read, and nothing is left beside it") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "pairs.safetensors";
  EncodedPairs pairs;
  pairs.add(std::vector<token_t>{5, 6, 7}, std::vector<token_t>{1});
  pairs.add(std::vector<token_t>{}, std::vector<token_t>{2, 3});
  pairs.add(std::vector<token_t>{9}, std::vector<token_t>{});
  save_pairs(path, pairs);
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 1);
  auto read = open_pairs(path);
  REQUIRE(read.size() == 3);
  for (index_t i = 0; i < 3; ++i) {
    CHECK(std::ranges::equal(read.source(i), pairs.source(i)));
    CHECK(std::ranges::equal(read.target(i), pairs.target(i)));
  }
  CHECK(read.fingerprint() == pairs.fingerprint());
  CHECK_THROWS_AS(read.add(std::vector<token_t>{1}, std::vector<token_t>{1}), ValueError);
  {
    const EncodedPairs copy = std::exchange(read, {});  // the file stays where it is as long as anybody looks at it
#if !defined(_WIN32)
    fs::remove(path);
#endif
    CHECK(copy.source(0).back() == 7);
  }

  save_pairs(path, {});
  CHECK(open_pairs(path).size() == 0);
}

TEST_CASE("pair files: a training on a file comes to the bits of one on sentences") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "pairs.safetensors";
  const auto corpus = toy::corpus(60);
  save_pairs(path, encode_pairs(corpus, toy::Letters()));
  const auto weights = [&](const auto& pairs) {
    seed(1);
    auto model = toy::model(0.2);
    fit(model, pairs, toy::Letters(), toy::options(2));
    std::vector<float> all;
    for (const auto& t : nn::state(model))
      for (const auto x : t.value.values()) all.push_back(static_cast<float>(x));
    return all;
  };
  CHECK(weights(corpus) == weights(open_pairs(path)));
}

TEST_CASE("pair files: what is damaged is refused") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "pairs.safetensors";
  CHECK_THROWS_AS(open_pairs(path), IoError);
  const auto write = [&](const std::vector<index_t>& begin, const std::vector<index_t>& other, const std::string& format,
                         const std::string& print) {
    io::SafetensorsWriter writer;
    writer.metadata("format", format);
    writer.metadata("fingerprint", print);
    const std::vector<token_t> tokens{1, 2, 3};
    writer.add<token_t>("source.tokens", Shape{3}, tokens);
    writer.add<token_t>("target.tokens", Shape{3}, tokens);
    writer.add<index_t>("source.begin", Shape{count_of(begin)}, begin);
    writer.add<index_t>("target.begin", Shape{count_of(other)}, other);
    writer.write(path);
  };
  write({0, 3}, {0, 3}, "attend pairs", "7");
  CHECK(open_pairs(path).fingerprint() == 7);
  using List = std::vector<index_t>;
  for (const auto& [begin, other, format, print, message] :
       {std::tuple<List, List, const char*, const char*, const char*>{{0, 2}, {0, 3}, "attend pairs", "7", "do not follow"},
        {{0, 4, 3}, {0, 1, 3}, "attend pairs", "7", "do not follow"},
        {{1, 3}, {0, 3}, "attend pairs", "7", "do not follow"},
        {{}, {0, 3}, "attend pairs", "7", "do not follow"},
        {{0, 3}, {0, 1, 3}, "attend pairs", "7", "has 1 sources and 2 targets"},
        {{0, 3}, {0, 3}, "another", "7", "holds no sentence pairs"},
        {{0, 3}, {0, 3}, "attend pairs", "x", "has no fingerprint"}}) {
    write(begin, other, format, print);
    CHECK_THROWS_WITH(open_pairs(path), ContainsSubstring(message));
  }
}
