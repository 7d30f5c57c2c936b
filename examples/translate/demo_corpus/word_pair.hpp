#pragma once

#include <compare>
#include <string>

namespace demo {

enum class Relation { describes, acts_on, done_by };

/// Two words that belong together in a sentence: an adjective and the noun it describes, a verb and what it acts on, a verb and
/// who does it. Each is written as the list of its English forms, "house houses".
struct WordPair {
  Relation relation;
  std::string first, second;

  friend auto operator<=>(const WordPair&, const WordPair&) = default;
};

}  // namespace demo
