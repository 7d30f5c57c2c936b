#include "attend/text/sentencepiece_model.hpp"

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "attend/core/error.hpp"
#include "catch.hpp"

using namespace attend;
using namespace std::string_literals;
using detail::check_sentencepiece_model;
using detail::NormalizationTable;
using detail::ProtoFields;

namespace {

/// A normalization table with one block of 256 units that are all values, so that no walk goes on, and the texts `texts`.
struct Table {
  std::vector<std::uint32_t> units = std::vector<std::uint32_t>(256, 0x80000000u);
  std::string texts = "a\0b\0"s;

  [[nodiscard]] std::string bytes() const {
    const auto size = static_cast<std::uint32_t>(units.size() * 4);
    std::string out(4 + size, '\0');
    std::memcpy(out.data(), &size, 4);
    std::memcpy(out.data() + 4, units.data(), size);
    return out + texts;
  }
};

std::string field(int number, const std::string& contents) {
  return std::string(1, static_cast<char>(number << 3 | 2)) + static_cast<char>(contents.size()) + contents;
}

}  // namespace

TEST_CASE("sentencepiece model: fields of a message") {
  const std::string message = "\x08\x96\x01"s + field(2, "text") + "\x19" + "12345678" + "\x25" + "1234";
  ProtoFields fields(message);
  REQUIRE(fields.next());
  CHECK_FALSE(fields.is_bytes(1));
  REQUIRE(fields.next());
  CHECK(fields.is_bytes(2));
  CHECK(fields.bytes() == "text");
  REQUIRE(fields.next());
  REQUIRE(fields.next());
  CHECK_FALSE(fields.next());
}

TEST_CASE("sentencepiece model: a message that is cut off or is none") {
  for (const std::string& bad :
       {"\x08"s, "\x08\x80"s, "\x12\x05"s + "abcd", "\x19"s + "1234567", "\x25"s + "123", "\x0B"s, "\x00"s,
        "\x12\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"s, std::string(12, '\xFF'), "\x88\x80\x80\x80\x80\x01\x01"s}) {
    CAPTURE(bad);
    const auto read_all = [&] {
      for (ProtoFields fields(bad); fields.next();) {
      }
    };
    CHECK_THROWS_AS(read_all(), FormatError);
  }
}

TEST_CASE("sentencepiece model: normalization tables that lead out of bounds") {
  CHECK_NOTHROW(NormalizationTable::check(""));
  // Unit 0, the root, has its children at 0 ^ 1, unit 'x' its own at 'x' ^ 3, and a value there.
  constexpr std::size_t x = 'x' ^ 1;
  Table good;
  good.units[0] = 1u << 10;
  good.units[x] = 'x' | 0x100u | (3u << 10);
  good.units[x ^ 3] = 0x80000000u | 2;
  CHECK_NOTHROW(NormalizationTable::check(good.bytes()));

  Table value = good;
  value.units[x ^ 3] = 0x80000000u | 4;  // the texts have 4 bytes
  CHECK_THROWS_WITH(NormalizationTable::check(value.bytes()), "has a normalization table with a text out of bounds");

  Table link = good;
  link.units[x] = 'x' | (1u << 18);  // 256 units further
  CHECK_THROWS_WITH(NormalizationTable::check(link.bytes()), "has a normalization table with a link out of bounds");
  link.units[x] = 'x' | 0x200u | (1u << 10);  // the same by the long form of a distance
  CHECK_THROWS_AS(NormalizationTable::check(link.bytes()), FormatError);
  link = good;
  link.units[0] = 0x80000000u | (1u << 18);  // a value, but walks begin here all the same
  CHECK_THROWS_AS(NormalizationTable::check(link.bytes()), FormatError);

  Table circle = good;
  circle.units[x] = 'x' | (static_cast<std::uint32_t>('x') << 10);  // its child is itself
  CHECK_THROWS_WITH(NormalizationTable::check(circle.bytes()), "has a normalization table that goes round in circles");

  // "x", "xx", "xxx" and so on, each with a value: one block of 256 units for each.
  const auto chain = [](std::size_t length) {
    Table table;
    table.units.assign(256 * (length + 1), 0x80000000u);
    for (std::size_t k = 0; k <= length; ++k) {
      const std::size_t unit = k == 0 ? 0 : 256 * k ^ 'x', children = k == length ? unit : 256 * (k + 1);
      table.units[unit] = (k == 0 ? 0u : 'x' | 0x100u) | static_cast<std::uint32_t>(unit ^ children) << 10;
      if (k > 0) table.units[children] = 0x80000000u;
    }
    return table.bytes();
  };
  CHECK_NOTHROW(NormalizationTable::check(chain(31)));
  CHECK_THROWS_WITH(NormalizationTable::check(chain(34)), "has a normalization table with too many texts on one way");

  Table partial = good;
  partial.units.resize(200);
  CHECK_THROWS_AS(NormalizationTable::check(partial.bytes()), FormatError);
  Table open = good;
  open.texts = "a\0b"s;
  CHECK_THROWS_AS(NormalizationTable::check(open.bytes()), FormatError);
  open.texts.clear();
  CHECK_THROWS_AS(NormalizationTable::check(open.bytes()), FormatError);
  CHECK_THROWS_AS(NormalizationTable::check("\0\0\0\0abc\0"s), FormatError);
  CHECK_THROWS_AS(NormalizationTable::check("abc"), FormatError);
  for (const std::uint32_t size : {1027u, 1028u, 1029u, 0xFFFFFFFCu, 0xFFFFFFFFu}) {
    std::string bytes = good.bytes();
    std::memcpy(bytes.data(), &size, 4);
    CHECK_THROWS_AS(NormalizationTable::check(bytes), FormatError);
  }
}

TEST_CASE("sentencepiece model: user-defined pieces that begin alike") {
  std::vector<std::string> pieces;
  for (std::size_t n = 1; n <= 64; ++n) pieces.push_back(std::string(n, 'a'));
  pieces.insert(pieces.end(), {"b", "ba", "aab"});
  CHECK_NOTHROW(detail::check_user_pieces({pieces.begin(), pieces.end()}));
  pieces.push_back(std::string(65, 'a'));
  CHECK_THROWS_AS(detail::check_user_pieces({pieces.begin(), pieces.end()}), FormatError);
}

TEST_CASE("sentencepiece model: a file needs its pieces and what follows them") {
  const std::string pieces = field(1, field(1, "p")), trainer = field(2, ""), normalizer = field(3, field(1, "nmt_nfkc"));
  CHECK_NOTHROW(check_sentencepiece_model(pieces + trainer + normalizer));
  CHECK_THROWS_AS(check_sentencepiece_model(""), FormatError);
  CHECK_THROWS_AS(check_sentencepiece_model(pieces), FormatError);
  CHECK_THROWS_AS(check_sentencepiece_model(pieces + trainer), FormatError);
  CHECK_THROWS_AS(check_sentencepiece_model(trainer + normalizer), FormatError);
  CHECK_THROWS_AS(check_sentencepiece_model(pieces + trainer + field(3, field(2, "broken"))), FormatError);
  CHECK_THROWS_AS(check_sentencepiece_model(pieces + trainer + normalizer + field(5, field(2, "broken"))), FormatError);
}
