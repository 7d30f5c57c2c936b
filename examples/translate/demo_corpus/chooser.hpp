#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "random.hpp"
#include "sentences.hpp"
#include "word_pair.hpp"

namespace demo {

/// Draws the parts of a sentence so that they make sense together: who does what, to what, where and when.
class Chooser {
 protected:
  explicit Chooser(std::uint64_t seed) : random_(seed) {}

  // ---------------------------------------------------------------------------------------------------------- who and what

  /// A noun that shares a kind with `kinds` and does not stand in the sentence yet.
  const Noun& noun(std::span<const Noun> nouns, Kinds kinds) {
    for (;;) {
      const Noun& drawn = random_.among(nouns);
      bool fresh = true;
      for (const Noun* used : used_) fresh = fresh && used != &drawn;
      if (!fresh || (drawn.kinds & kinds) == 0) continue;
      used_.push_back(&drawn);
      return drawn;
    }
  }

  /// Somebody that has a name, a family or an article: Ana, my sisters, the tall boy.
  NounPhrase somebody(bool single = false) {
    const std::size_t sort = random_.weighted({35, 35, 30});
    if (sort == 0) return noun_phrase(noun(words::nouns, kind::name), words::none);
    if (sort == 1) return relative(noun(words::nouns, kind::kin), single);
    const Noun& person = noun(words::nouns, kind::person);
    const Adjective* quality = random_.chance(15) ? adjective(person) : nullptr;
    return noun_phrase(person, words::the, {.plural = !single && random_.chance(50), .adjective = quality});
  }

  /// The determiner of what belongs to a subject: her for Ana, their for the boys.
  static const Determiner& own(const NounPhrase& subject) {
    static constexpr const Determiner* owners[] = {&words::my, &words::your, &words::his, &words::our, &words::their};
    const bool hers = subject.person == Person::he_she && subject.gender == Gender::feminine;
    return hers ? words::her : *owners[static_cast<std::size_t>(subject.person)];
  }

  const Determiner& anybodys() {
    return *random_.one_of({&words::my, &words::your, &words::his, &words::her, &words::our, &words::their});
  }

  NounPhrase relative(const Noun& kin, bool single) {
    const bool plural = !single && kin.many[0] != '\0' && random_.chance(40);
    return noun_phrase(kin, anybodys(), {.plural = plural});
  }

  /// Nobody asks what he himself does, but what he can, has to or is going to do.
  NounPhrase subject_of(Tense tense, bool asked) {
    const bool self = !asked || tense == Tense::going_to || tense == Tense::can || tense == Tense::have_to;
    for (;;) {
      NounPhrase drawn = subject();
      if (self || (drawn.person != Person::i && drawn.person != Person::we)) return drawn;
    }
  }

  NounPhrase subject() {
    constexpr Person persons[] = {Person::i, Person::you, Person::we, Person::they, Person::he_she, Person::he_she};
    const std::size_t drawn = random_.weighted({18, 15, 16, 9, 7, 7, 23, 5});
    if (drawn == 6) return somebody();
    if (drawn == 7) return couple();
    return pronoun(persons[drawn], drawn == 5 ? Gender::feminine : Gender::masculine);
  }

  /// Two names, or two of one family.
  NounPhrase couple() {
    const Kinds kinds = random_.chance(50) ? kind::name : kind::kin;
    const Noun &first = noun(words::nouns, kinds), &second = noun(words::nouns, kinds);
    const Determiner& whose = kinds == kind::name ? words::none : anybodys();
    return both(noun_phrase(first, whose), noun_phrase(second, whose));
  }

  /// An adjective that fits the noun for one of the kinds in `among`; notes the pair.
  const Adjective* adjective(const Noun& noun, Kinds among = ~Kinds{0}) {
    std::vector<const Adjective*> fitting;
    for (const Adjective& each : words::adjectives) {
      if ((each.fits & noun.kinds & among) != 0) fitting.push_back(&each);
    }
    if (fitting.empty()) return nullptr;
    const Adjective* drawn = fitting[random_.below(fitting.size())];
    bind(Relation::describes, drawn->english, join({noun.one, noun.many}));
    return drawn;
  }

  /// A thing, an animal or a place that the adjective fits, or nothing if it is for people only; notes the pair.
  const Noun* thing(const Adjective& quality) {
    std::vector<const Noun*> fitting;
    for (const std::span<const Noun> nouns : {std::span<const Noun>(words::nouns), std::span<const Noun>(words::places)}) {
      for (const Noun& each : nouns) {
        if ((each.kinds & quality.fits) != 0 && (each.kinds & kind::people) == 0) fitting.push_back(&each);
      }
    }
    if (fitting.empty()) return nullptr;
    const Noun* drawn = fitting[random_.below(fitting.size())];
    bind(Relation::describes, quality.english, join({drawn->one, drawn->many}));
    used_.push_back(drawn);
    return drawn;
  }

  /// A thing that is known: the book, my books, this book, Pedro's book. What somebody acts on is often his own.
  NounPhrase definite(const Noun& noun, bool plural, const Adjective* quality, const NounPhrase* actor = nullptr) {
    const bool place = noun.preposition[0] != '\0';
    const bool ownable = (noun.kinds & kind::mass) == 0 && (!place || (noun.kinds & kind::owned) != 0);
    const int mine = ownable ? 30 : 0, somebodys = ownable ? 12 : 0;
    const std::size_t sort = random_.weighted({45, 13, mine, somebodys});
    if (sort == 3) {
      const NounPhrase owner = somebody(true);
      return noun_phrase(noun, words::the, {.plural = plural, .adjective = quality, .owner = &owner});
    }
    const bool self = actor && actor->english != "who" && random_.chance(60);
    const Determiner* sorts[] = {&words::the, &words::this_one, self ? &own(*actor) : &anybodys()};
    return noun_phrase(noun, *sorts[sort], {.plural = plural, .adjective = quality});
  }

  /// A thing that is not known: a book, two books.
  NounPhrase indefinite(const Noun& noun, const Adjective* quality, bool counted = true) {
    if (noun.kinds & kind::mass) return noun_phrase(noun, words::none, {.adjective = quality});
    if (!counted || random_.chance(65)) return noun_phrase(noun, words::a, {.adjective = quality});
    return noun_phrase(noun, random_.chance(50) ? words::two : words::three, {.plural = true, .adjective = quality});
  }

  /// Any amount of it: books, water.
  NounPhrase any(const Noun& noun, const Adjective* quality) {
    return noun_phrase(noun, words::none, {.plural = noun.many[0] != '\0', .adjective = quality});
  }

  // ---------------------------------------------------------------------------------------------------------------- actions

  Mood mood() {
    constexpr Mood moods[] = {Mood::statement, Mood::negation, Mood::question};
    return moods[random_.weighted({50, 24, 26})];
  }

  /// Any verb, those that have only a present tense less often.
  const Verb& verb() {
    if (random_.chance(12)) return random_.chance(60) ? words::go : words::return_from;
    for (;;) {
      const Verb& drawn = random_.among<Verb>(words::verbs);
      if (!drawn.traits.stative || random_.chance(60)) return drawn;
    }
  }

  /// A verb that suits the sentence.
  template <class Suits>
  const Verb& verb(Suits suits) {
    for (;;) {
      const Verb& drawn = verb();
      if (suits(drawn)) return drawn;
    }
  }

  /// The tenses a verb has: stative ones would need the Spanish imperfect for their past.
  Tense tense(const Verb& verb) {
    if (verb.traits.stative) return Tense::present;
    constexpr Tense tenses[] = {Tense::present, Tense::past, Tense::going_to, Tense::want_to, Tense::can, Tense::have_to};
    return tenses[random_.weighted({37, 37, 8, 6, 6, 6})];
  }

  /// The object of a verb, or nothing for verbs that take none.
  NounPhrase object(const Verb& verb, const NounPhrase& subject, Tense tense, Mood mood, bool habit) {
    bind_subject(english_forms(verb), subject);
    if (verb.objects == 0) return {};
    const bool town = verb.objects == kind::trip || ((verb.objects & (kind::visited | kind::seen)) != 0 && random_.chance(40));
    const Noun* what = nullptr;
    do {
      what = town ? &noun(words::places, verb.objects) : &noun(words::nouns, verb.objects);
    } while ((what->kinds & kind::kin) != 0 && verb.traits.stative && (mood == Mood::negation || what->many[0] == '\0'));
    bind(Relation::acts_on, english_forms(verb), join({what->one, what->many}));
    if ((what->kinds & kind::people) != 0) return verb.traits.stative ? a_relative(*what) : person_object(*what);
    if (town) return place_object(*what);
    if (verb.objects == kind::worn) return worn_object(*what, subject, mood);
    return thing_object(verb, *what, subject, tense, mood, habit);
  }

  /// I have a brother, two aunts: everybody has one mother. Not having one would lose its article in Spanish.
  NounPhrase a_relative(const Noun& what) {
    const bool some = random_.chance(50);
    return noun_phrase(what, some ? words::two : words::a, {.plural = some});
  }

  NounPhrase person_object(const Noun& what) {
    if (what.kinds & kind::name) return noun_phrase(what, words::none);
    if (what.kinds & kind::kin) return relative(what, false);
    return noun_phrase(what, words::the, {.plural = random_.chance(25)});
  }

  NounPhrase place_object(const Noun& what) {
    const Adjective* quality = random_.chance(25) ? adjective(what, ~kind::opened) : nullptr;
    return noun_phrase(what, (what.kinds & kind::owned) && random_.chance(35) ? anybodys() : words::the, {.adjective = quality});
  }

  /// One wears one hat at a time, and one's own.
  NounPhrase worn_object(const Noun& what, const NounPhrase& subject, Mood mood) {
    const Adjective* quality = random_.chance(50) ? adjective(what, ~kind::goods) : nullptr;
    const Determiner &any = subject.plural ? words::none : words::a, &mine = subject.english == "who" ? words::the : own(subject);
    const Determiner* whose = random_.one_of({&words::the, &mine, mood == Mood::negation ? &mine : &any});
    return noun_phrase(what, *whose, {.plural = subject.plural, .adjective = quality});
  }

  /// What is denied or done again and again is seldom "a book", and nobody eats the same apple every day.
  NounPhrase thing_object(const Verb& verb, const Noun& what, const NounPhrase& subject, Tense tense, Mood mood, bool habit) {
    const bool opens = (verb.objects & kind::shut) != 0, trades = (verb.objects & kind::goods) != 0;
    const bool writes = (verb.objects & kind::written) != 0, mass = (what.kinds & kind::mass) != 0;
    // Nobody opens an open door, the price matters to whoever buys, and nobody buys a sad cat.
    const Kinds among = ~kind::creature & ~(opens ? kind::opened : Kinds{0}) & ~(trades ? Kinds{0} : kind::goods);
    const Adjective* quality = random_.chance(40) ? adjective(what, among) : nullptr;
    const bool plural = what.many[0] != '\0' && random_.chance(35);
    if (habit && verb.traits.once) return any(what, quality);
    if (verb.traits.generic && random_.chance(mass ? 65 : 15)) return any(what, quality);
    if (mood == Mood::negation || habit || random_.chance(55)) {
      return writes ? noun_phrase(what, words::the, {.plural = plural, .adjective = quality})
                    : definite(what, plural, quality, &subject);
    }
    return indefinite(what, quality, tense != Tense::present || verb.traits.stative);
  }

  /// Where an action is done, if the verb has such places.
  Text place(const Verb& verb) {
    const Noun& where = noun(words::places, verb.places);
    return in(where, noun_phrase(where, words::the));
  }

  Text time(Tense tense) {
    if (tense == Tense::present) return text(random_.among<Fixed>(words::habits));
    return text(random_.among<Fixed>(tense == Tense::past ? words::past_times : words::coming_times));
  }

  /// The end of a sentence: where, with whom, when. To live is always somewhere or with somebody.
  Text tail(const Verb& verb, Tense tense, bool timed) {
    Text ending;
    const bool lives = verb.traits.stative && verb.objects == 0;
    if (verb.places != 0 && random_.chance(verb.objects == 0 ? 50 : 25)) {
      ending = place(verb);
    } else if (lives || (verb.traits.social && random_.chance(20))) {
      ending = at({"with", "con"}, somebody());
    }
    return timed ? join(ending, time(tense)) : ending;
  }

  // ------------------------------------------------------------------------------------------------- which words belong together

  static std::string english_forms(const Verb& verb) {
    return join({form(verb.base, 0), form(verb.third, 0), form(verb.past, 0)});
  }

  void bind(Relation relation, const std::string& first, const std::string& second) {
    word_pairs_.push_back({relation, first, second});
  }
  void bind_subject(const std::string& verb, const NounPhrase& subject) {
    for (const std::string& head : subject.heads) bind(Relation::done_by, verb, head);
  }

  Random random_;
  std::vector<WordPair> word_pairs_;
  std::vector<const Noun*> used_;  ///< no noun stands twice in a sentence
};

}  // namespace demo
