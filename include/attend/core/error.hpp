#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include "attend/core/standard.hpp"

namespace attend {

/// Base of every exception that the library throws. The message names the operation, what it got and what it expected:
/// `layer_norm: gamma has shape [5], expected [4]`.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
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

/// There is not as much memory as was asked for, here or on a device. What was there before is as it was; with less, one may go
/// on.
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

/// Calls f. Where it throws one of the kinds of error above, the message begins with `context` then:
/// `fit: validation at step 7: `. Any other exception goes on as it is, a plain `Error` too.
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
