#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "vocabulary.hpp"

/// The rules of the two languages: how words become phrases, always both sides at once. Nothing here is random, so every rule
/// can be tested by hand.
namespace demo {

/// One meaning in both languages.
struct Text {
  std::string english, spanish;
};

/// Joins what is not empty with single spaces.
inline std::string join(std::initializer_list<std::string_view> parts) {
  std::string joined;
  for (const std::string_view part : parts) {
    if (part.empty()) continue;
    if (!joined.empty()) joined += ' ';
    joined += part;
  }
  return joined;
}

inline Text join(const Text& a, const Text& b) { return {join({a.english, b.english}), join({a.spanish, b.spanish})}; }
inline Text text(const Fixed& fixed) { return {fixed.english, fixed.spanish}; }

/// The words of a text without its spaces.
inline std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    if (end > begin) words.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

/// The form at `index` of a list such as "el la los las"; a shorter list repeats its last form.
inline std::string form(std::string_view forms, std::size_t index) {
  const std::vector<std::string> list = split(forms);
  return list.empty() ? std::string() : list[std::min(index, list.size() - 1)];
}

// ---------------------------------------------------------------------------------------------------- nouns and adjectives

/// Grammatical person, in the order of the forms in `Verb`. `you` is one familiar person: tú.
enum class Person { i, you, he_she, we, they };

/// A subject, an object, or what stands after a preposition.
struct NounPhrase : Text {
  Gender gender = Gender::masculine;
  bool plural = false;
  bool human = false;
  Person person = Person::he_she;
  bool bare = false;                    ///< a thing without determiner: "books", "water"
  std::vector<std::string> heads = {};  ///< English forms of its main nouns: "boy boys"; none for a pronoun
};

inline std::size_t agreement(Gender gender, bool plural) { return (gender == Gender::feminine ? 1U : 0U) + (plural ? 2U : 0U); }

/// blanco, blanca, blancos, blancas.
inline std::string inflect(const Adjective& adjective, Gender gender, bool plural) {
  std::string word = plural ? adjective.spanish_many : adjective.spanish;
  const std::size_t ending = word.size() - (plural ? 2 : 1);
  if (gender == Gender::feminine && word[ending] == 'o') word[ending] = 'a';
  return word;
}

struct NounOptions {
  bool plural = false;
  const Adjective* adjective = nullptr;
  const NounPhrase* owner = nullptr;  ///< "Pedro's car", "el coche de Pedro": takes the place of the determiner
};

/// "the white house", "la casa blanca": English puts the adjective before the noun, Spanish after it.
inline NounPhrase noun_phrase(const Noun& noun, const Determiner& determiner, NounOptions options = {}) {
  const std::size_t agree = agreement(noun.gender, options.plural);
  const Determiner& spanish = options.owner ? words::the : determiner;
  std::string first = options.plural ? determiner.many : determiner.one, owner;
  if (options.owner) {
    first = options.owner->english + "'s";
    owner = "de " + options.owner->spanish;
  }
  std::string quality, cualidad;
  if (options.adjective) {
    quality = options.adjective->english;
    cualidad = inflect(*options.adjective, noun.gender, options.plural);
  }
  NounPhrase phrase;
  phrase.english = join({first, quality, options.plural ? noun.many : noun.one});
  phrase.spanish = join({form(spanish.spanish, agree), options.plural ? noun.spanish_many : noun.spanish, cualidad, owner});
  phrase.gender = noun.gender;
  phrase.plural = options.plural;
  phrase.human = (noun.kinds & kind::people) != 0;
  phrase.person = options.plural ? Person::they : Person::he_she;
  phrase.bare = !phrase.human && form(spanish.spanish, agree).empty();
  phrase.heads = {join({noun.one, noun.many})};
  return phrase;
}

/// Spanish leaves out yo, tú and nosotros, which the verb shows; `they` is ellos.
inline NounPhrase pronoun(Person person, Gender gender = Gender::masculine) {
  NounPhrase phrase;
  phrase.gender = gender;
  phrase.human = true;
  phrase.plural = person == Person::we || person == Person::they;
  phrase.person = person;
  switch (person) {
    case Person::i:
      phrase.english = "I";
      break;
    case Person::you:
      phrase.english = "you";
      break;
    case Person::we:
      phrase.english = "we";
      break;
    case Person::they:
      phrase.english = "they", phrase.spanish = "ellos";
      break;
    case Person::he_she:
      phrase.english = gender == Gender::feminine ? "she" : "he";
      phrase.spanish = gender == Gender::feminine ? "ella" : "él";
  }
  return phrase;
}

/// "Ana and Pedro": feminine only if both are.
inline NounPhrase both(const NounPhrase& a, const NounPhrase& b) {
  NounPhrase phrase;
  phrase.english = a.english + " and " + b.english;
  phrase.spanish = a.spanish + " y " + b.spanish;
  phrase.gender = a.gender == Gender::feminine && b.gender == Gender::feminine ? Gender::feminine : Gender::masculine;
  phrase.plural = phrase.human = true;
  phrase.person = Person::they;
  phrase.heads = a.heads;
  phrase.heads.insert(phrase.heads.end(), b.heads.begin(), b.heads.end());
  return phrase;
}

/// "who" asks as a third person; an adjective after it is masculine, "¿Quién está cansado?".
inline NounPhrase who() {
  NounPhrase phrase = pronoun(Person::he_she);
  phrase.english = "who";
  phrase.spanish = "quién";
  return phrase;
}

/// A preposition before a phrase: "near the door", "cerca de la puerta".
inline Text at(const Fixed& preposition, const Text& what) { return join(text(preposition), what); }

/// "on the beach", "en la playa": the English preposition is the place's own.
inline Text in(const Noun& place, const Text& phrase) { return join({place.preposition, "en"}, phrase); }

/// What a verb acts on, or where it leads: Spanish marks people with `a`, except after tener.
inline Text object_of(const Verb& verb, const NounPhrase& what) {
  return {what.english, join({what.human && !verb.traits.stative ? "a" : verb.before_object, what.spanish})};
}

// --------------------------------------------------------------------------------------------------------------------- verbs

enum class Tense { present, past, going_to, want_to, can, have_to };

/// The parts of a verb that sentences put in different places: "she |does| not |want to eat|", "she |wants to eat|".
struct VerbForms {
  std::string auxiliary, rest;  ///< for negations and questions
  std::string finite;           ///< for plain statements
  std::string spanish;          ///< all of the Spanish verb
};

/// One form of a regular verb, or of an irregular one's list.
inline std::string conjugate(const Verb& verb, bool past, Person person) {
  static constexpr const char* endings[2][2] = {{"o as a amos an", "é aste ó amos aron"},
                                                {"o es e emos en", "í iste ió imos ieron"}};
  const auto index = static_cast<std::size_t>(person);
  const std::string_view irregular = past ? verb.preterite : verb.present;
  if (!irregular.empty()) return form(irregular, index);
  const std::string infinitive = verb.infinitive, stem = infinitive.substr(0, infinitive.size() - 2);
  const char conjugation = infinitive[infinitive.size() - 2];
  if (conjugation == 'i' && !past && person == Person::we) return stem + "imos";
  return stem + form(endings[conjugation == 'a' ? 0 : 1][past ? 1 : 0], index);
}

inline std::string be(Person person) { return form("am are is are are", static_cast<std::size_t>(person)); }
inline std::string be(Be verb, Person person) {
  return form(verb == Be::ser ? "soy eres es somos son" : "estoy estás está estamos están", static_cast<std::size_t>(person));
}

inline VerbForms verb_forms(const Verb& verb, Tense tense, Person person) {
  const bool third = person == Person::he_she;
  const std::string base = verb.base, infinitive = verb.infinitive, helper = third ? "does" : "do";
  const auto before = [&](const Verb& modal, const char* link) -> VerbForms {
    return {helper, join({modal.base, base}), join({third ? modal.third : modal.base, base}),
            join({conjugate(modal, false, person), link, infinitive})};
  };
  switch (tense) {
    case Tense::past:
      return {"did", base, verb.past, conjugate(verb, true, person)};
    case Tense::going_to:
      return {be(person), "going to " + base, be(person) + " going to " + base,
              join({conjugate(words::go, false, person), "a", infinitive})};
    case Tense::want_to:
      return before(words::want_to, "");
    case Tense::have_to:
      return before(words::have_to, "que");
    case Tense::can:
      return {"can", base, "can " + base, join({conjugate(words::able_to, false, person), infinitive})};
    case Tense::present:
      break;
  }
  return {helper, base, third ? verb.third : verb.base, conjugate(verb, false, person)};
}

}  // namespace demo
