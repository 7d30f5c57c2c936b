#include "attend/core/options.hpp"

#include <array>
#include <limits>
#include <map>
#include <optional>
#include <string>

#include "catch.hpp"

using namespace attend;

namespace {

enum class Colour { red, green, blue };
constexpr auto names_of(Colour) { return std::to_array<Named<Colour>>({{Colour::red, "red"}, {Colour::green, "green"}}); }

struct Inner {
  double share = 0.5;
  template <class F>
  static void fields(F&& field) {
    field("share", &Inner::share, less_than_1());
  }
};

// Stands for a number, as an option may.
struct Size {
  index_t value = 3;
  operator index_t() const { return value; }  // NOLINT
};

struct Outer {
  index_t count = 1, open = -7;
  double rate = 0.1, any = 0;
  bool flag = true;
  Colour colour = Colour::red;
  Size size;
  Inner inner;
  std::optional<Colour> perhaps;
  template <class F>
  static void fields(F&& field) {
    field("count", &Outer::count, between(1, 10), Flag{"How many"});
    field("open", &Outer::open, at_least(0), Except{index_t{-7}});
    field("rate", &Outer::rate, more_than(0), IfAbsent{0.1});
    field("any", &Outer::any, finite());
    field("flag", &Outer::flag);
    field("colour", &Outer::colour);
    field("size", &Outer::size, at_least(1));
    field("inner", &Outer::inner);
    field("perhaps", &Outer::perhaps);
  }
};

}  // namespace

TEST_CASE("options: the defaults are within their bounds") { CHECK_NOTHROW(check_fields("test", Outer{})); }

TEST_CASE("options: what is out of bounds is named with what was expected, within other options too") {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  const auto refuses = [](auto change, const std::string& message) {
    Outer o;
    change(o);
    CHECK_THROWS_AS(check_fields("test", o), ValueError);
    CHECK_THROWS_WITH(check_fields("test", o), "test: " + message);
  };
  refuses([](Outer& o) { o.count = 0; }, "count is 0, expected 1 to 10");
  refuses([](Outer& o) { o.count = 11; }, "count is 11, expected 1 to 10");
  refuses([](Outer& o) { o.open = -1; }, "open is -1, expected 0 or more");
  refuses([](Outer& o) { o.rate = 0; }, "rate is 0, expected more than 0");
  refuses([=](Outer& o) { o.rate = infinity; }, "rate is inf, expected more than 0");
  refuses([=](Outer& o) { o.any = nan; }, "any is nan, expected a finite number");
  refuses([](Outer& o) { o.colour = Colour::blue; }, "colour is value 2, expected one of red, green");
  refuses([](Outer& o) { o.perhaps = Colour::blue; }, "perhaps is value 2, expected one of red, green");
  refuses([](Outer& o) { o.size.value = 0; }, "size is 0, expected 1 or more");
  refuses([](Outer& o) { o.inner.share = 1; }, "inner.share is 1, expected at least 0 and less than 1");
  refuses([=](Outer& o) { o.inner.share = nan; }, "inner.share is nan, expected at least 0 and less than 1");
}

TEST_CASE("options: values of enumerations have names") {
  CHECK(name_of(Colour::green) == "green");
  CHECK(name_of(Colour::blue).empty());
  CHECK(value_named<Colour>("green") == Colour::green);
  CHECK_FALSE(value_named<Colour>("Green"));
  CHECK(list_of_names<Colour>() == "red, green");
  CHECK(from_name<Colour>("colour", "red") == Colour::red);
  CHECK_THROWS_WITH(from_name<Colour>("colour", "mauve"), "colour: got \"mauve\", expected one of red, green");
}

TEST_CASE("options: bounds say what they are") {
  CHECK(at_least(2).text() == "2 or more");
  CHECK(more_than(0.5).text() == "more than 0.5");
  CHECK(between(-1, 1).text() == "-1 to 1");
  CHECK(Bounds{.least = 0, .most = 1, .above = true}.text() == "more than 0 and at most 1");
  CHECK(Bounds{.most = 1}.text() == "at most 1");
  CHECK(finite().text() == "a finite number");
}
