#pragma once

#include <algorithm>
#include <string>
#include <type_traits>

#include "attend/core/options.hpp"
#include "attend/io/json.hpp"

/// Options as JSON, by what their `fields` say of them.
namespace attend::io {

/// An object with a key for each field; see below.
template <OptionsWithFields O>
Json options_to_json(const O& options);
/// Options from an object with a key for each field; see below.
template <OptionsWithFields O>
O options_from_json(const JsonObject& json);

}  // namespace attend::io

namespace attend::detail {

/// An option that is no number and stands for one, such as the size of a beam.
template <class V>
inline constexpr bool stands_for_number = std::is_class_v<V>&& std::is_convertible_v<V, index_t>;

/// Whether a file need not say this value, since that is what one without it means. What is said of a field decides: most says
/// nothing of that.
template <class V>
bool left_out(const V& /*value*/, const auto& /*about*/) {
  return false;
}
/// IfAbsent does.
template <class V>
bool left_out(const V& value, const IfAbsent<V>& absent) {
  return !absent.always_written && value == absent.value;
}
/// Gives the value that a file without the key means, and whether there is one.
template <class V>
bool set_absent(V& /*value*/, const auto& /*about*/) {
  return false;
}
/// IfAbsent says it.
template <class V>
bool set_absent(V& value, const IfAbsent<V>& absent) {
  value = absent.value;
  return true;
}

/// Raises the version of files to the one with which a field came, if anything is said of that.
inline void raise_version(index_t& /*version*/, const auto& /*about*/) {}
/// Since says it.
inline void raise_version(index_t& version, const Since& since) { version = std::max(version, since.version); }

/// Reads what stands at a key into `value`.
template <class V>
void read_option(const io::JsonObject& json, const char* key, V& value) {
  if constexpr (OptionsWithFields<V>) {
    value = io::options_from_json<V>(json.object(key));
  } else if constexpr (NamedEnum<V>) {
    const auto name = json.get<std::string>(key);
    const auto found = value_named<V>(name);
    if (!found) throw FormatError(json.name(), ": ", key, " is \"", printable(name), "\", expected one of ", list_of_names<V>());
    value = *found;
  } else if constexpr (stands_for_number<V>) {
    value = json.get<index_t>(key);
  } else {
    value = json.get<V>(key);
  }
}

}  // namespace attend::detail

namespace attend::io {

/// An object with a key for each field, but for those that say what a file without them means, where they are that.
template <OptionsWithFields O>
Json options_to_json(const O& options) {
  Json json = Json::object();
  O::fields([&](const char* name, auto member, const auto&... about) {
    const auto& value = options.*member;
    using V = std::remove_cvref_t<decltype(value)>;
    if ((detail::left_out(value, about) || ...)) return;
    if constexpr (OptionsWithFields<V>) json[name] = options_to_json(value);
    else if constexpr (NamedEnum<V>) json[name] = name_of(value);
    else if constexpr ((std::is_same_v<std::remove_cvref_t<decltype(about)>, AsTruth> || ...)) json[name] = value != 0;
    else if constexpr (detail::stands_for_number<V>) json[name] = static_cast<index_t>(value);
    else json[name] = value;
  });
  return json;
}

/// The least version of files that has all the keys which `options_to_json` writes: the highest of their `Since`, or 1.
template <OptionsWithFields O>
index_t version_of(const O& options) {
  index_t version = 1;
  O::fields([&](const char* /*name*/, auto member, const auto&... about) {
    const auto& value = options.*member;
    if ((detail::left_out(value, about) || ...)) return;
    (detail::raise_version(version, about), ...);
    if constexpr (OptionsWithFields<std::remove_cvref_t<decltype(value)>>) version = std::max(version, version_of(value));
  });
  return version;
}

/// Options of an object. Throws FormatError if a key is missing or of another type, or an enumeration has no such value; that
/// numbers are within bounds is left to whoever checks the options.
template <OptionsWithFields O>
O options_from_json(const JsonObject& json) {
  O options;
  O::fields([&](const char* name, auto member, const auto&... about) {
    auto& value = options.*member;
    if (!json.contains(name) && (detail::set_absent(value, about) || ...)) return;
    if constexpr ((std::is_same_v<std::remove_cvref_t<decltype(about)>, AsTruth> || ...)) value = json.get<bool>(name);
    else detail::read_option(json, name, value);
  });
  return options;
}

}  // namespace attend::io
