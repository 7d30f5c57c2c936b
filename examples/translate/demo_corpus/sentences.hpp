#pragma once

#include <string>
#include <string_view>

#include "phrases.hpp"

/// How phrases become sentences: word order, negation, questions, and what neighbouring words do to each other.
namespace demo {

enum class Mood { statement, negation, question };

inline void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

inline std::string capitalised(std::string text) {
  if (text.compare(0, 2, "é") == 0) return text.replace(0, 2, "É");
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text;
}

/// Makes a sentence of the words: what neighbouring words do to each other (an apple; al, del, el agua), the capital, the marks.
inline Text finish(const Text& raw, bool question) {
  std::string english = ' ' + raw.english, spanish = ' ' + raw.spanish;
  for (const char vowel : std::string_view("aeiou"))
    replace_all(english, std::string(" a ") + vowel, std::string(" an ") + vowel);
  replace_all(english, " can not ", " cannot ");
  replace_all(spanish, " la agua", " el agua");  // a feminine noun; `el` keeps the two a's apart
  replace_all(spanish, " a el ", " al ");
  replace_all(spanish, " de el ", " del ");
  english = capitalised(english.substr(1));
  spanish = capitalised(spanish.substr(1));
  return {english + (question ? "?" : "."), question ? "¿" + spanish + "?" : spanish + "."};
}

/// One sentence about somebody doing something. With `front` it asks for that: "where", "how many books"; the Spanish subject
/// then follows its verb, and, if it is a noun, also an object without determiner: "¿Dónde compra Ana el pan?", "¿Dónde compra
/// pan Ana?". A yes-or-no question is the Spanish statement between question marks.
struct Clause {
  NounPhrase subject;
  const Verb* verb;
  Tense tense = Tense::present;
  Mood mood = Mood::statement;
  NounPhrase object = {};
  Text tail = {};    ///< "in the park yesterday"
  Text adverb = {};  ///< "always", before the verb on both sides
  Text front = {};
};

inline Text say(const Clause& clause) {
  const NounPhrase& subject = clause.subject;
  const VerbForms verb = verb_forms(*clause.verb, clause.tense, subject.person);
  const Text object = object_of(*clause.verb, clause.object), tail = join(object, clause.tail);
  const bool who = subject.english == "who";
  if (!clause.front.english.empty()) {
    return finish({join({clause.front.english, verb.auxiliary, subject.english, verb.rest, tail.english}),
                   clause.object.bare && !subject.heads.empty()
                       ? join({clause.front.spanish, verb.spanish, object.spanish, subject.spanish, clause.tail.spanish})
                       : join({clause.front.spanish, verb.spanish, subject.spanish, tail.spanish})},
                  true);
  }
  const std::string no = clause.mood == Mood::negation ? "no" : "";
  const std::string spanish = join({subject.spanish, no, clause.adverb.spanish, verb.spanish, tail.spanish});
  switch (clause.mood) {
    case Mood::negation:
      return finish({join({subject.english, verb.auxiliary, "not", verb.rest, tail.english}), spanish}, false);
    case Mood::question:
      if (!who) return finish({join({verb.auxiliary, subject.english, verb.rest, tail.english}), spanish}, true);
      break;
    case Mood::statement:
      break;
  }
  return finish({join({subject.english, clause.adverb.english, verb.finite, tail.english}), spanish}, who);
}

/// "The house is white." "Is Ana in the park?" "Why is the door open?": with `front`, Spanish puts the subject last.
inline Text say_be(const NounPhrase& subject, Be verb, const Text& complement, Mood mood, const Text& front = {}) {
  const std::string is = be(subject.person), es = be(verb, subject.person);
  const bool who = subject.english == "who";
  if (!front.english.empty()) {
    return finish({join({front.english, is, subject.english, complement.english}),
                   join({front.spanish, es, complement.spanish, subject.spanish})},
                  true);
  }
  const std::string spanish = join({subject.spanish, mood == Mood::negation ? "no" : "", es, complement.spanish});
  if (mood == Mood::question && !who) return finish({join({is, subject.english, complement.english}), spanish}, true);
  return finish({join({subject.english, is, mood == Mood::negation ? "not" : "", complement.english}), spanish}, who);
}

/// "There is a book on the table.", "Hay un libro en la mesa."
inline Text say_there_is(const NounPhrase& what, const Text& where, Mood mood) {
  const std::string is = what.plural ? "are" : "is";
  const std::string spanish = join({mood == Mood::negation ? "no" : "", "hay", what.spanish, where.spanish});
  if (mood == Mood::question) return finish({join({is, "there", what.english, where.english}), spanish}, true);
  return finish({join({"there", is, mood == Mood::negation ? "no" : "", what.english, where.english}), spanish}, false);
}

/// "Ana likes coffee.", "A Ana le gusta el café.": what is liked is the Spanish subject. If `thing` is plural, so is the verb.
inline Text say_likes(const NounPhrase& who, const NounPhrase& thing, Mood mood) {
  const std::string clitic = form("me te le nos les", static_cast<std::size_t>(who.person));
  const std::string whom = who.spanish.empty() ? "" : "a " + who.spanish;
  const std::string gusta = thing.plural ? "gustan" : "gusta";
  const std::string spanish = join({whom, mood == Mood::negation ? "no" : "", clitic, gusta, thing.spanish});
  const bool third = who.person == Person::he_she;
  const std::string helper = third ? "does" : "do";
  switch (mood) {
    case Mood::negation:
      return finish({join({who.english, helper, "not like", thing.english}), spanish}, false);
    case Mood::question:
      return finish({join({helper, who.english, "like", thing.english}), spanish}, true);
    case Mood::statement:
      break;
  }
  return finish({join({who.english, third ? "likes" : "like", thing.english}), spanish}, false);
}

}  // namespace demo
