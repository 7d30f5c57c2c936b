#pragma once

#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "attend/core/number_text.hpp"
#include "attend/core/standard.hpp"

namespace attend {

namespace detail {

/// A part of a message: text as it is, numbers as `number_text` writes them. It lives no longer than what it was made from.
/// Through it a program's many messages compile to one function for each type of part, not to one for each list of types.
class MessagePart {
 public:
  template <class P>
  explicit MessagePart(const P& part) {
    if constexpr (std::is_same_v<P, char>) text_ = {&(number_[0] = part), 1};
    else if constexpr (std::is_same_v<P, bool>) text_ = part ? "true" : "false";
    else if constexpr (std::is_floating_point_v<P>) write(part);
    else if constexpr (std::is_unsigned_v<P>) write(static_cast<unsigned long long>(part));
    else if constexpr (std::is_convertible_v<P, std::string_view>) text_ = std::string_view(part);
    else write(static_cast<long long>(part));  // a signed number, or what converts to one
  }
  MessagePart(const MessagePart&) = delete;
  MessagePart& operator=(const MessagePart&) = delete;

  [[nodiscard]] std::string_view text() const { return text_; }

 private:
  template <class N>
  void write(N value) {
    text_ = {number_, write_number(value, number_, number_ + sizeof(number_))};
  }

  std::string_view text_;
  char number_[40];
};
/// The parts of a message, one after the other.
inline std::string joined(std::initializer_list<MessagePart> parts) {
  std::string text;
  for (const auto& part : parts) text += part.text();
  return text;
}

}  // namespace detail

/// Base of every exception that the library throws. The message names the operation, what it got and what it expected:
/// `layer_norm: gamma has shape [5], expected [4]`. Each may be made from the parts of its message, texts and numbers:
/// `throw IndexError("row ", row, " of ", rows)`.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
  /// The parts one after the other, as text. By value: so literals of any length have one type, and fewer functions are compiled.
  template <class... Parts>
  requires(sizeof...(Parts) > 1) [[gnu::cold]] explicit Error(Parts... parts)
      : std::runtime_error(detail::joined({detail::MessagePart(parts)...})) {}
};

/// A tensor has a shape that the operation cannot take.
struct ShapeError : Error {
  using Error::Error;
};

/// An option or an argument is outside its range (a dropout of 1.5, zero heads, a negative temperature).
struct ValueError : Error {
  using Error::Error;
};

/// An index points outside what it indexes (a token outside the vocabulary, a sentence outside the batch).
struct IndexError : Error {
  using Error::Error;
};

/// There is not as much memory as was asked for, here or on a device. What was there before is unchanged, and one may go on with
/// less.
struct MemoryError : Error {
  using Error::Error;
};

/// The operating system refused something: a file is missing, a disk is full, a folder cannot be made.
struct IoError : Error {
  using Error::Error;
};

/// A file was read but is not what it should be: truncated, damaged, of another format, not UTF-8.
struct FormatError : Error {
  using Error::Error;
};

/// Throws ValueError `operation: message` unless `good`; the message is made from its parts only then.
template <class... Parts>
void check_value(bool good, const char* operation, const Parts&... message) {
  if (!good) [[unlikely]]
    throw ValueError(operation, ": ", message...);
}

/// Calls f. If it throws one of the kinds of error above, it is thrown again with `context` before its message:
/// `fit: validation at step 7: `. Any other exception passes through as it is, a plain `Error` too.
template <class F>
decltype(auto) in_context(const std::string& context, F&& f) {
  try {
    return std::forward<F>(f)();
  } catch (const ShapeError& e) {
    throw ShapeError(context + e.what());
  } catch (const ValueError& e) {
    throw ValueError(context + e.what());
  } catch (const IndexError& e) {
    throw IndexError(context + e.what());
  } catch (const MemoryError& e) {
    throw MemoryError(context + e.what());
  } catch (const IoError& e) {
    throw IoError(context + e.what());
  } catch (const FormatError& e) {
    throw FormatError(context + e.what());
  }
}

}  // namespace attend
