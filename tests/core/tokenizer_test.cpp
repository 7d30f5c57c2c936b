#include "attend/core/tokenizer.hpp"

#include <span>
#include <string>
#include <vector>

#include "catch.hpp"

using namespace attend;

namespace {

/// Bytes as tokens, behind three marks: a tokenizer of a user's own.
struct Bytes {
  std::vector<token_t> encode(const std::string& text) const {
    std::vector<token_t> tokens;
    for (const char c : text) tokens.push_back(static_cast<unsigned char>(c) + 3);
    return tokens;
  }
  std::string decode(std::span<const token_t> tokens) const {
    std::string text;
    for (const token_t token : tokens)
      if (token >= 3) text.push_back(static_cast<char>(token - 3));
    return text;
  }
  index_t size() const { return 259; }
  token_t pad() const { return 0; }
  token_t bos() const { return 1; }
  token_t eos() const { return 2; }
};

struct NoEnd {
  std::vector<token_t> encode(const std::string&) const { return {}; }
  std::string decode(std::span<const token_t>) const { return {}; }
  index_t size() const { return 1; }
};

template <text::Tokenizer T>
std::string there_and_back(const T& tokenizer, const std::string& text) {
  return tokenizer.decode(tokenizer.encode(text));
}

}  // namespace

TEST_CASE("tokenizer: a user's own type fits the concept") {
  STATIC_REQUIRE(text::Tokenizer<Bytes>);
  STATIC_REQUIRE_FALSE(text::Tokenizer<NoEnd>);
  STATIC_REQUIRE_FALSE(text::Tokenizer<std::string>);
  CHECK(there_and_back(Bytes{}, "¡Hola!") == "¡Hola!");
}
