#pragma once

#include <cmath>
#include <concepts>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "attend/core/error.hpp"
#include "attend/core/number_text.hpp"
#include "attend/core/printable.hpp"
#include "attend/core/types.hpp"

/// What is said of an option once: what it is called, which values it may have, and what those of an enumeration are called.
/// Checks, files, command lines and messages are made from it.
///
///     enum class Stop { exact, first };
///     constexpr auto names_of(Stop) { return std::to_array<Named<Stop>>({{Stop::exact, "exact"}, {Stop::first, "first"}}); }
///
///     struct SearchOptions {
///       index_t beam = 4;
///       Stop stop = Stop::exact;
///       template <class F>
///       static void fields(F&& field) {
///         field("beam", &SearchOptions::beam, at_least(1), Flag{"Hypotheses that are kept"});
///         field("stop", &SearchOptions::stop);
///       }
///     };
///
/// After the member stands, in any order, what else there is to say of it: `Bounds`, `Except`, `IfAbsent`,
/// `Since`, `AsTruth`, `Flag`.
namespace attend {

/// A value of an enumeration and what it is called.
template <class E>
struct Named {
  E value;
  const char* name;
};

/// An enumeration whose values have names, which `names_of(E())` lists.
template <class E>
concept NamedEnum = std::is_enum_v<E> && requires(E value) {
  names_of(value).size();
};

/// What a value is called; empty for one that has no name.
template <NamedEnum E>
std::string name_of(E value) {
  for (const auto& [known, name] : names_of(value))
    if (known == value) return name;
  return {};
}

/// The value of that name, if there is one.
template <NamedEnum E>
std::optional<E> value_named(std::string_view name) {
  for (const auto& [value, known] : names_of(E()))
    if (name == known) return value;
  return {};
}

/// `post, pre`.
template <NamedEnum E>
std::string list_of_names() {
  std::string list;
  for (const auto& [value, name] : names_of(E())) list += (list.empty() ? "" : ", ") + std::string(name);
  return list;
}

/// The value of that name. Throws ValueError `activation: got "mish", expected one of relu, gelu`.
template <NamedEnum E>
E from_name(const char* option, std::string_view name) {
  if (const auto value = value_named<E>(name)) return *value;
  throw ValueError(option, ": got \"", detail::printable(name), "\", expected one of ", list_of_names<E>());
}

/// The numbers that an option may be. What is neither above nor below them, NaN, is never one of them, and neither is infinity.
struct Bounds {
  double least = -std::numeric_limits<double>::infinity(), most = std::numeric_limits<double>::infinity();
  bool above = false;  ///< `least` itself is not one of them
  bool below = false;  ///< neither is `most`

  /// Whether it is one of them.
  [[nodiscard]] bool contain(double value) const {
    return std::isfinite(value) && (above ? value > least : value >= least) && (below ? value < most : value <= most);
  }
  /// `0 or more`, `1 to 1000`, `at least 0 and less than 1`.
  [[nodiscard]] std::string text() const {
    const bool floor = std::isfinite(least), ceiling = std::isfinite(most);
    if (!floor && !ceiling) return "a finite number";
    if (floor && !ceiling) return above ? "more than " + number_text(least) : number_text(least) + " or more";
    const std::string end = (below ? "less than " : "at most ") + number_text(most);
    if (!floor) return end;
    if (!above && !below) return number_text(least) + " to " + number_text(most);
    return (above ? "more than " : "at least ") + number_text(least) + " and " + end;
  }
};
/// From `least` on.
constexpr Bounds at_least(double least) { return {.least = least}; }
/// Above `least`.
constexpr Bounds more_than(double least) { return {.least = least, .above = true}; }
/// `least` to `most`.
constexpr Bounds between(double least, double most) { return {.least = least, .most = most}; }
/// 0 to 1, but for 1.
constexpr Bounds less_than_1() { return {.least = 0, .most = 1, .below = true}; }
/// Any number but infinities and NaN.
constexpr Bounds finite() { return {}; }

namespace detail {

/// What bounds compare a value as, which is no number itself: what it converts to.
template <class V>
struct NumberOf {
  using type = index_t;
};
/// Of a number, itself.
template <class V>
requires std::is_arithmetic_v<V>
struct NumberOf<V> {
  using type = V;
};

}  // namespace detail

/// What an option is once it is given: of one that may be left open, a `std::optional`, what that holds.
template <class V>
struct GivenOption {
  using type = V;
};
/// Of a `std::optional`, what it holds.
template <class V>
struct GivenOption<std::optional<V>> {
  using type = V;
};

/// What an option with bounds is compared as: itself, or the whole number that it stands for.
template <class V>
using OptionNumber = typename detail::NumberOf<V>::type;

/// A value outside the bounds that an option may also have, because it stands for something else.
template <class V>
struct Except {
  V value;
};
template <class V>
Except(V) -> Except<V>;
/// For numbers that may be as large as can be: no limit.
constexpr Except<double> or_infinite() { return {std::numeric_limits<double>::infinity()}; }

/// What an option is in a file that does not mention it. One of that value is not written, unless it is always.
template <class V>
struct IfAbsent {
  V value;
  bool always_written = false;
};
template <class V>
IfAbsent(V) -> IfAbsent<V>;
template <class V>
IfAbsent(V, bool) -> IfAbsent<V>;

/// The version of files that an option came with: older programs would read past its key, so a file that has it says so.
struct Since {
  index_t version;
};

/// In files a number that is 0 or 1 is written as false or true.
struct AsTruth {};

/// For command lines: what an option is for, and what it is called there if not `--name-with-dashes`. The flag of a bool takes no
/// value: it makes a false one true, and a true one, whose flag is `--no-name-with-dashes`, false. Its text says what it then
/// does.
struct Flag {
  const char* text;
  const char* name = nullptr;
  const char* type = nullptr;  ///< what its value is called in the help; `FILE` of a path, unless this says otherwise
  Bounds within = {};          ///< narrower bounds there
};

namespace detail {

/// What `fields` calls, as far as a compiler has to know.
struct AnyField {
  template <class O, class M, class... About>
  void operator()(const char* /*name*/, M O::* /*member*/, const About&... /*about*/) const {}
};

}  // namespace detail

/// A struct of options that lists its fields.
template <class O>
concept OptionsWithFields = requires {
  O::fields(detail::AnyField());
};

namespace detail {

/// Whether one of what is said of an option lets it have that value.
template <class V>
bool excepted(const V& /*value*/, const auto& /*about*/) {
  return false;
}
/// Whether `value` is the one that bounds do not count for.
template <class V, class E>
bool excepted(const V& value, const Except<E>& except) {
  return value == except.value;
}

/// Nothing to check.
template <class V>
void check_bounds(const char* /*operation*/, const std::string& /*name*/, const V& /*value*/, const auto& /*about*/) {}
/// Throws ValueError for a value out of its bounds.
template <class V>
void check_bounds(const char* operation, const std::string& name, const V& value, const Bounds& bounds) {
  const OptionNumber<V> number = value;
  if (!bounds.contain(static_cast<double>(number)))
    throw ValueError(operation, ": ", name, " is ", number, ", expected ", bounds.text());
}

}  // namespace detail

/// Throws ValueError `fit: patience is -1, expected 0 or more` where a field, or one of options within these, is out of bounds.
template <OptionsWithFields O>
void check_fields(const char* operation, const O& options, const std::string& prefix = {}) {
  O::fields([&](const char* name, auto member, const auto&... about) {
    const auto& value = options.*member;
    using V = std::remove_cvref_t<decltype(value)>;
    if constexpr (OptionsWithFields<V>) {
      check_fields(operation, value, prefix + name + ".");
    } else if constexpr (NamedEnum<typename GivenOption<V>::type>) {
      using E = typename GivenOption<V>::type;
      const std::optional<E> given = value;
      if (given && name_of(*given).empty())
        throw ValueError(operation, ": ", prefix, name, " is value ", static_cast<int>(*given), ", expected one of ",
                         list_of_names<E>());
    } else {
      if ((detail::excepted(value, about) || ...)) return;
      (detail::check_bounds(operation, prefix + name, value, about), ...);
    }
  });
}

}  // namespace attend
