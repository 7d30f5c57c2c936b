#include "attend/cpu/philox.hpp"

#include <limits>
#include <vector>

#include "attend/cpu/dropout.hpp"
#include "catch.hpp"

using namespace attend;

TEST_CASE("words made side by side are those made one by one") {
  for (const Generator::Stream& stream : {Generator::Stream{0, 0}, Generator::Stream{~std::uint64_t{0}, ~std::uint64_t{0}},
                                          Generator::Stream{0x123456789abcdef0, 0xfedcba9876543210}})
    // Also where a counter passes 2^32, and its high half counts.
    for (const std::uint64_t block : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{77}, (std::uint64_t{1} << 27) - 1,
                                      std::uint64_t{1} << 27, std::uint64_t{1} << 40}) {
      std::vector<std::uint32_t> words(cpu::random_block);
      cpu::random_words(stream, block, words.data());
      for (std::uint64_t i = 0; i < words.size(); ++i) REQUIRE(words[i] == stream.word(block * cpu::random_block + i));
    }
}

TEST_CASE("a range of a dropout mask may begin and end anywhere") {
  const Generator::Stream stream{5, 6};
  const std::uint32_t threshold = 1u << 31;
  for (const index_t first : {0, 1, 127, 128, 129, 1000})
    for (const index_t n : {0, 1, 5, 128, 300}) {
      const std::vector<float> x(static_cast<std::size_t>(n), 1.0f);
      std::vector<float> y(x.size(), 10.0f), z(x.size(), 10.0f);
      cpu::dropout_range<float>({stream, threshold, 2}, first, n, x.data(), {y.data()});
      cpu::dropout_range<float>({stream, threshold, 2}, first, n, x.data(), {z.data(), true});
      for (std::size_t i = 0; i < y.size(); ++i) {
        const float mask = stream.word(static_cast<std::uint64_t>(first) + i) >= threshold ? 2.0f : 0.0f;
        REQUIRE(y[i] == mask);
        REQUIRE(z[i] == 10.0f + mask);
      }
    }
}
