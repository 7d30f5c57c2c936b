#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "attend/core/options.hpp"

namespace translate {

/// Options of the library on the command line: a flag for each field that has a text for one (`attend::Flag`).
template <attend::OptionsWithFields O>
class OptionFlags {
 public:
  O given;  ///< the defaults, with what the command line says in their place

  OptionFlags() = default;
  explicit OptionFlags(O defaults) : given(std::move(defaults)) {}
  // The command line writes into it.
  OptionFlags(const OptionFlags&) = delete;
  OptionFlags& operator=(const OptionFlags&) = delete;

  /// The help names the defaults if `shows_defaults`. Flags in `without` are left out.
  void add_to(CLI::App& app, const std::string& group, bool shows_defaults, const std::vector<std::string>& without = {}) {
    without_ = without;
    add_fields<O>(
        app, group, shows_defaults, [](auto& options) -> auto& { return options; });
  }

  /// The option of that name, which must be one: `--beam`.
  [[nodiscard]] CLI::Option* option(const std::string& name) const {
    return std::find_if(flags_.begin(), flags_.end(), [&](const auto& f) { return f.option->check_name(name); })->option;
  }
  /// Whether the command line has it; not, of course, if there is no command line.
  [[nodiscard]] bool has(const std::string& name) const { return !flags_.empty() && option(name)->count() > 0; }
  /// `base`, with what the command line says in its place.
  [[nodiscard]] O over(O base) const {
    for (const auto& flag : flags_)
      if (flag.option->count() > 0) flag.copy(given, base);
    return base;
  }
  /// The flags that the command line has: call(flag, field).
  template <class F>
  void for_each_given(F&& call) const {
    for (const auto& flag : flags_)
      if (flag.option->count() > 0) call(flag.name, flag.field);
  }
  /// Whether options of another kind have that field of these: one of the same name and type.
  template <attend::OptionsWithFields Other>
  static bool shares(const std::string& field) {
    bool found = false;
    with_shared<Other>(field, [&](auto /*from*/, auto /*to*/) { found = true; });
    return found;
  }
  /// Sets the fields that `other` shares and the command line gives.
  template <attend::OptionsWithFields Other>
  void put_into(Other& other) const {
    for_each_given([&](const std::string& /*flag*/, const std::string& field) {
      with_shared<Other>(field, [&](auto from, auto to) { other.*to = given.*from; });
    });
  }

 private:
  struct Entry {
    CLI::Option* option;
    std::string name, field;
    std::function<void(const O& from, O& to)> copy;
  };

  /// call(from, to), members of O and Other, if both have a field of that name and of one type.
  template <class Other, class F>
  static void with_shared(const std::string& field, F&& call) {
    O::fields([&](const char* name, auto from, const auto&...) {
      if (name != field) return;
      Other::fields([&](const char* others_name, auto to, const auto&...) {
        using From = std::remove_cvref_t<decltype(std::declval<O&>().*from)>;
        using To = std::remove_cvref_t<decltype(std::declval<Other&>().*to)>;
        if constexpr (std::is_same_v<From, To>)
          if (others_name == field) call(from, to);
      });
    });
  }

  /// `at(options)` is the Part of them that is added.
  template <class Part, class At>
  void add_fields(CLI::App& app, const std::string& group, bool shows_defaults, At at) {
    Part::fields([&](const char* name, auto member, const auto&... about) {
      const auto field = [ at, member ](auto& options) -> auto& { return at(options).*member; };
      using V = std::remove_cvref_t<decltype(field(given))>;
      if constexpr (attend::OptionsWithFields<V>) add_fields<V>(app, group, shows_defaults, field);
      else (add(app, group, shows_defaults, name, field, about, about...), ...);
    });
  }
  /// What is said of a field besides its flag adds no flag.
  template <class Field, class... About>
  void add(CLI::App&, const std::string&, bool, const char*, Field, const auto&, const About&...) {}
  template <class Field, class... About>
  void add(CLI::App& app, const std::string& group, bool shows_defaults, const char* field_name, Field field,
           const attend::Flag& flag, const About&... about) {
    std::string name = flag.name ? flag.name : std::string("--") + field_name;
    if (!flag.name) std::replace(name.begin(), name.end(), '_', '-');
    if (std::find(without_.begin(), without_.end(), name) != without_.end()) return;
    auto& value = field(given);
    using V = std::remove_cvref_t<decltype(value)>;
    CLI::Option* option = nullptr;
    std::string preset;
    if constexpr (std::is_same_v<V, bool>) {
      if (value) name.insert(2, "no-");
      option = app.add_option_function<bool>(
          name, [&value, start = value](const bool& given_so) { value = given_so != start; }, flag.text);
      option->expected(0)->type_name("");
    } else if constexpr (attend::NamedEnum<typename attend::GivenOption<V>::type>) {
      using E = typename attend::GivenOption<V>::type;
      option = app.add_option_function<std::string>(
          name, [&value](const std::string& text) { value = *attend::value_named<E>(text); }, flag.text);
      std::vector<std::string> names;
      for (const auto& named : names_of(E())) names.emplace_back(named.name);
      option->check(CLI::IsMember(names));
      if (const std::optional<E> preset_value = value) preset = attend::name_of(*preset_value);
    } else if constexpr (std::is_same_v<V, std::vector<std::string>>) {
      option = app.add_option(name, value, flag.text)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->expected(1);
      for (const auto& word : value) preset += (preset.empty() ? "" : ", ") + word;
    } else if constexpr (std::is_same_v<V, std::filesystem::path>) {
      option = app.add_option(name, value, flag.text)->type_name("FILE");
    } else {
      using Number = attend::OptionNumber<V>;
      option = app.add_option_function<Number>(
          name, [&value](const Number& number) { value = number; }, flag.text);
      const bool narrower = std::isfinite(flag.within.least) || std::isfinite(flag.within.most);
      if (narrower) check_bounds<Number>(option, flag.within);  // first, because it says more
      (check_bounds<Number>(option, about), ...);
      if (!(attend::detail::excepted(value, about) || ...)) preset = attend::number_text(static_cast<Number>(value));
    }
    if (flag.type) option->type_name(flag.type);
    if (shows_defaults && !preset.empty()) option->default_str(preset);
    option->group(group);
    flags_.push_back({option, name, field_name, [field](const O& from, O& to) { field(to) = field(from); }});
  }

  template <class Number>
  static void check_bounds(CLI::Option* /*option*/, const auto& /*about*/) {}
  template <class Number>
  static void check_bounds(CLI::Option* option, const attend::Bounds& bounds) {
    option->check(CLI::Validator(
        [bounds](const std::string& text) {
          Number value{};
          if (!CLI::detail::lexical_cast(text, value)) return "Value " + text + " is no number";
          return bounds.contain(static_cast<double>(value)) ? std::string() : "Value " + text + ", expected " + bounds.text();
        },
        ""));
  }

  std::vector<Entry> flags_;
  std::vector<std::string> without_;
};

}  // namespace translate
