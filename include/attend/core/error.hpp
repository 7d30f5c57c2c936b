#pragma once

#include <stdexcept>
#include <string>

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

}  // namespace attend
