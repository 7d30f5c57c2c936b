#include "attend/core/number_text.hpp"

#include <cstdint>
#include <limits>

#include "../catch.hpp"

using attend::number_text;
using attend::parse_number;

TEST_CASE("number_text: every number reads back to itself", "[core]") {
  for (const double x : {0.0, 0.1, 1.0 / 3, -2.5e-310, 1e300, std::numeric_limits<double>::infinity()}) {
    double back = 7;
    CHECK(parse_number(number_text(x), back));
    CHECK(back == x);
  }
  std::uint64_t back = 0;
  CHECK(parse_number(number_text(std::numeric_limits<std::uint64_t>::max()), back));
  CHECK(back == std::numeric_limits<std::uint64_t>::max());
  CHECK(number_text(0.1) == "0.1");
}

TEST_CASE("parse_number: anything but one whole number is refused", "[core]") {
  int value = 7;
  for (const char* bad : {"", " 1", "1 ", "1x", "x", "99999999999", "1.5", "+1"}) CHECK_FALSE(parse_number(bad, value));
  CHECK(value == 7);
  double real = 7;
  for (const char* bad : {"", " 1", "1 ", "1x", "0x1p3", "+1", "-", "e5", "1e999", "-1e999", "1e-999", "1,5"})
    CHECK_FALSE(parse_number(bad, real));
  float narrow = 7;
  CHECK_FALSE(parse_number("1e39", narrow));
  CHECK(real == 7);
  CHECK(narrow == 7);
  CHECK(parse_number("-.5e1", real));
  CHECK(real == -5);
}
