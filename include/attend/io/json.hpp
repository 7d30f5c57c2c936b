#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attend/core/error.hpp"
#include "attend/core/printable.hpp"
#include "attend/core/types.hpp"
#include "attend/io/file.hpp"

/// JSON files: read strictly, queried by type, written atomically.

namespace attend::io {

/// Any JSON value. Objects keep their keys sorted.
using Json = nlohmann::json;

}  // namespace attend::io

namespace attend::detail {

/// What the JSON library says of a fault, without its bookkeeping and without quoting bytes of the file, which may be anything.
std::string json_fault(std::string_view what);

/// `"text"` as JSON writes it. Throws ValueError `operation: ...` if it is not UTF-8.
std::string json_quoted(const char* operation, const std::string& text);

/// For messages: the value, or its beginning.
std::string json_excerpt(const io::Json& value);

}  // namespace attend::detail

namespace attend::io {

/// Parses UTF-8 text strictly: a key given twice, a nesting deeper than 100, and bytes after the value are errors. `name` is what
/// messages call the text. Throws FormatError `config.json: parse error at line 3, column 5: ...`.
Json parse_json(std::string_view text, const std::string& name);

/// The JSON file at `path`. Throws IoError, FormatError.
inline Json read_json(const std::filesystem::path& path) {
  const std::string text = read_file(path);
  check_no_pointer(text, path.string() + ": ");
  return parse_json(text, path.string());
}

/// Writes indented JSON by `write_file_atomically`. Throws IoError, ValueError if a string is not UTF-8.
void write_json(const std::filesystem::path& path, const Json& value);

/// A JSON object seen through the types that its reader expects. Every fault is a FormatError that names file, key, what is
/// there and what was expected: `config.json: d_model is "wide", expected a whole number`.
///
/// `T` is bool, an integer type, float, double, std::string, or a std::vector of these. Nothing is converted silently: neither
/// 3.5 nor 300 is an `int8_t`, 1 is not a bool, but 1 is a double.
class JsonObject {
 public:
  /// `name` is what messages call the object. `value` is not copied and must outlive this object.
  JsonObject(const Json& value, std::string name) : value_(&value), name_(std::move(name)) {
    if (!value.is_object()) throw FormatError(name_, ": is ", detail::json_excerpt(value), ", expected an object");
  }
  JsonObject(Json&&, std::string) = delete;

  /// Whether the key is there with a value other than null.
  [[nodiscard]] bool contains(const std::string& key) const { return find(key) != nullptr; }
  /// The value of a key that must be there.
  template <class T>
  [[nodiscard]] T get(const std::string& key) const {
    const Json* value = find(key);
    if (value == nullptr) fail_missing(key);
    return convert<T>(key, *value);
  }
  /// The value of a key, or `fallback` if it is missing or null.
  template <class T>
  [[nodiscard]] T get(const std::string& key, T fallback) const {
    const Json* value = find(key);
    return value == nullptr ? std::move(fallback) : convert<T>(key, *value);
  }
  /// An object inside this one.
  [[nodiscard]] JsonObject object(const std::string& key) const {
    const Json* value = find(key);
    if (value == nullptr) fail_missing(key);
    if (!value->is_object()) fail(key, *value, "an object");
    JsonObject inner = *this;
    inner.value_ = value;
    inner.prefix_ += key + ".";
    return inner;
  }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const Json& json() const { return *value_; }

 private:
  [[nodiscard]] const Json* find(const std::string& key) const {
    const auto found = value_->find(key);
    return found == value_->end() || found->is_null() ? nullptr : &*found;
  }

  [[noreturn]] void fail_missing(const std::string& key) const {
    throw FormatError(name_, ": has no ", detail::printable(prefix_ + key));
  }
  [[noreturn]] void fail(const std::string& key, const Json& value, const std::string& expected) const {
    throw FormatError(name_, ": ", detail::printable(prefix_ + key), " is ", detail::json_excerpt(value), ", expected ",
                      expected);
  }

  template <class T>
  T convert(const std::string& key, const Json& value) const {
    if constexpr (std::same_as<T, bool>) {
      if (!value.is_boolean()) fail(key, value, "true or false");
      return value.get<bool>();
    } else if constexpr (std::integral<T>) {
      if (!value.is_number_integer()) fail(key, value, "a whole number");
      const bool fits =
          value.is_number_unsigned() ? std::in_range<T>(value.get<std::uint64_t>()) : std::in_range<T>(value.get<std::int64_t>());
      if (!fits)
        fail(key, value,
             "a number from " + std::to_string(std::numeric_limits<T>::min()) + " to " +
                 std::to_string(std::numeric_limits<T>::max()));
      return value.get<T>();
    } else if constexpr (std::floating_point<T>) {
      if (!value.is_number()) fail(key, value, "a number");
      return value.get<T>();
    } else if constexpr (detail::is_vector<T>) {
      if (!value.is_array()) fail(key, value, "an array");
      T items;
      for (std::size_t i = 0; i < value.size(); ++i)
        items.push_back(convert<typename T::value_type>(key + "[" + std::to_string(i) + "]", value[i]));
      return items;
    } else {
      static_assert(std::same_as<T, std::string>,
                    "JsonObject: T is bool, an integer, float, double, std::string or a std::vector");
      if (!value.is_string()) fail(key, value, "a string");
      return value.get<std::string>();
    }
  }

  const Json* value_;
  std::string name_, prefix_;  // `config.json`, `decoder.`
};

}  // namespace attend::io

#ifndef ATTEND_COMPILED
#include "attend/io/json_text.hpp"
#endif
