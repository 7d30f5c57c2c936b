#include "attend/text/any_tokenizer.hpp"

#include "catch.hpp"

using namespace attend;

namespace {

/// A program's own tokenizers, told apart at run time: a token is a letter's distance from the first.
struct Letters {
  Letters() = default;
  Letters(const Letters&) = delete;
  Letters& operator=(const Letters&) = delete;
  virtual ~Letters() = default;
  [[nodiscard]] virtual char first() const = 0;

  [[nodiscard]] std::vector<token_t> encode(const std::string& text) const {
    std::vector<token_t> tokens;
    for (const char letter : text) tokens.push_back(letter - first());
    return tokens;
  }
  [[nodiscard]] std::string decode(std::span<const token_t> tokens) const {
    std::string text;
    for (const token_t token : tokens) text += static_cast<char>(first() + token);
    return text;
  }
  [[nodiscard]] index_t size() const { return 26; }
  [[nodiscard]] token_t bos() const { return -1; }
  [[nodiscard]] token_t eos() const { return 25; }
  [[nodiscard]] token_t pad() const { return -1; }
};

struct Capitals final : Letters {
  [[nodiscard]] char first() const override { return 'A'; }
};

}  // namespace

TEST_CASE("AnyTokenizer sees and shares a tokenizer that cannot be copied, by its base") {
  const auto capitals = std::make_shared<Capitals>();
  const Letters& base = *capitals;
  for (const auto& any : {text::AnyTokenizer::viewing(base), text::AnyTokenizer::sharing<const Letters>(capitals)}) {
    CHECK(any.encode("BAD") == std::vector<token_t>{1, 0, 3});
    CHECK(any.as<Letters>() == &base);
    CHECK(any.as<const Letters>() == &base);
    CHECK(any.as<Capitals>() == nullptr);
    CHECK_THROWS_WITH(any.with_languages("en", "de"), Catch::Matchers::ContainsSubstring("no languages to choose from"));
  }
  CHECK(capitals.use_count() == 1);
  const auto any = text::AnyTokenizer::sharing(capitals);
  CHECK(capitals.use_count() == 2);
  CHECK(any.as<Capitals>() == capitals.get());
  CHECK(text::AnyTokenizer::viewing(any).as<Capitals>() == capitals.get());  // no tokenizer of a tokenizer
  CHECK(text::AnyTokenizer::sharing(std::make_shared<const text::AnyTokenizer>(any)).as<Capitals>() == capitals.get());
  CHECK_THROWS_AS(text::AnyTokenizer::sharing(std::shared_ptr<Capitals>()), ValueError);
}

TEST_CASE("AnyTokenizer::with_languages: the tokenizer that is made stays where it is") {
  struct Shifted final : Letters {
    [[nodiscard]] char first() const override { return letter; }
    [[nodiscard]] Shifted with_languages(const std::string& from, const std::string&) const { return Shifted(from.front()); }
    explicit Shifted(char first_letter) : letter(first_letter) {}
    char letter;
  };
  const Shifted shifted('a');
  const auto any = text::AnyTokenizer::viewing(shifted), other = any.with_languages("B", "C");
  CHECK(any.decode(std::vector<token_t>{1}) == "b");
  CHECK(other.decode(std::vector<token_t>{1}) == "C");
}
