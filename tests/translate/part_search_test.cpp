#include "attend/translate/part_search.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "attend/translate/translator.hpp"
#include "catch.hpp"
#include "decode/swapping.hpp"
#include "with_threads.hpp"

using namespace attend;
using Batches = std::vector<std::vector<index_t>>;

namespace {

/// The numbers of so many sentences.
std::vector<index_t> numbers(index_t n) {
  std::vector<index_t> all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), index_t{0});
  return all;
}
Batches dealt_batches(index_t n, index_t most, index_t together, index_t least) {
  return decode::detail::dealt_batches(numbers(n), most, together, least);
}

}  // namespace

TEST_CASE("dealt_batches: each thread gets a batch, long and short sentences alike, unless there are too few") {
  CHECK(dealt_batches(0, 32, 2, 8).empty());
  CHECK(dealt_batches(3, 32, 2, 8) == Batches{{0, 1, 2}});
  CHECK(dealt_batches(7, 32, 2, 3) == Batches{{0, 2, 4, 6}, {1, 3, 5}});
  CHECK(dealt_batches(7, 32, 4, 3) == Batches{{0, 2, 4, 6}, {1, 3, 5}});
  CHECK(dealt_batches(5, 2, 2, 8) == Batches{{0, 2}, {1}, {3, 4}});
  const auto two_rounds = dealt_batches(70, 32, 2, 8);
  REQUIRE(two_rounds.size() == 4);
  CHECK(two_rounds[0].size() == 18);
  CHECK(two_rounds[1].front() == 1);
  CHECK(two_rounds[2].front() == 35);
}

TEST_CASE("dealt_batches: every sentence is in one batch, and none has more than it may") {
  for (index_t n = 1; n < 80; ++n)
    for (const index_t most : {1, 3, 32})
      for (const index_t together : {2, 3, 16}) {
        std::vector<index_t> all;
        for (const auto& batch : dealt_batches(n, most, together, 4)) {
          CHECK_FALSE(batch.empty());
          CHECK(count_of(batch) <= most);
          all.insert(all.end(), batch.begin(), batch.end());
        }
        std::sort(all.begin(), all.end());
        CHECK(all == numbers(n));
      }
}

TEST_CASE("a model that no cache holds translates as it does in batches of another size") {
  seed(3);
  const nn::Transformer<float> model(nn::TransformerOptions{
      .vocabulary = 12, .d_model = 32, .heads = 2, .d_ff = 48, .layers = 1, .dropout = 0, .max_length = 24});
  const auto system_of = [&](Precision precision) {
    return decode::detail::TranslationSystem<float, Cpu>({model}, swapping::SpacedLetters{},
                                                         {.beam = 2, .batch_sentences = 16, .precision = precision});
  };
  CHECK(system_of(Precision::full).weight_bytes == 4 * nn::parameter_count(model));
  CHECK(system_of(Precision::bf16).weight_bytes == 2 * nn::parameter_count(model));
  CHECK(system_of(Precision::int8).weight_bytes == nn::parameter_count(model));

  std::vector<std::string> sentences;
  for (int i = 0; i < 53; ++i) {
    std::string text;
    for (int k = 0; k <= i * i % 7; ++k) text += std::string(k ? " " : "") + static_cast<char>('a' + (i + k * k) % 8);
    sentences.push_back(text);
  }
  auto system = system_of(Precision::full);
  const auto parts = decode::detail::cut_sentences(system, sentences, 0, {}).parts;
  const auto translated = [&] {
    std::vector<std::pair<std::vector<token_t>, double>> all;
    for (const auto& list : decode::detail::PartSearch(system).translate(parts, 0, nullptr))
      all.emplace_back(list.front().tokens, list.front().log_probability);
    return all;
  };
  const auto expected = translated();
  system.weight_bytes = index_t{1} << 30;
  for (const int n : {1, 2, 3}) {
    const WithThreads workers(n);
    CHECK(translated() == expected);
  }
}
