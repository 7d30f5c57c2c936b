#pragma once

#include <string>
#include <vector>

#include "catch.hpp"
#include "program.hpp"

/// The words of a command line, after the program's name.
using Words = std::vector<std::string>;

inline Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// Checks that the program ends with that code and one line on standard error, which has the message in it.
inline Outcome fails(const Words& words, const std::string& message, int code = 1, const std::string& input = "") {
  auto outcome = run(words, input);
  CAPTURE(words);
  CHECK(outcome.code == code);
  CHECK_THAT(outcome.errors, Catch::Matchers::ContainsSubstring(message));
  CHECK(outcome.complaints() == 1);
  return outcome;
}
