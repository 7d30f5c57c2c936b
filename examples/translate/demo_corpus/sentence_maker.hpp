#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chooser.hpp"
#include "sentences.hpp"

namespace demo {

struct Sentence {
  Text text;
  std::vector<WordPair> word_pairs;
};

/// Draws sentences. No function call draws twice among its arguments, since their order is up to the compiler: so the sentences
/// are the same everywhere.
class SentenceMaker : Chooser {
 public:
  explicit SentenceMaker(std::uint64_t seed) : Chooser(seed) {}

  /// The next sentence, of at most 12 words in each language and at least 3 English ones ("I drink milk." is "Bebo leche.").
  Sentence next() {
    for (;;) {
      word_pairs_.clear();
      used_.clear();
      const Text text = sentence();
      const std::size_t english = split(text.english).size(), spanish = split(text.spanish).size();
      if (english >= 3 && english <= 12 && spanish >= 2 && spanish <= 12) return {text, std::move(word_pairs_)};
    }
  }

 private:
  Text sentence() {
    using Construction = Text (SentenceMaker::*)();
    constexpr Construction constructions[] = {&SentenceMaker::action,    &SentenceMaker::asks_what, &SentenceMaker::asks_where,
                                              &SentenceMaker::asks_when, &SentenceMaker::asks_why,  &SentenceMaker::asks_who,
                                              &SentenceMaker::how_many,  &SentenceMaker::person_is, &SentenceMaker::thing_is,
                                              &SentenceMaker::location,  &SentenceMaker::existence, &SentenceMaker::liking};
    return (this->*constructions[random_.weighted({52, 3, 4, 4, 4, 4, 2, 9, 12, 5, 4, 5})])();
  }

  /// Statement, negation or yes-or-no question about somebody doing something.
  Text action() {
    const Verb& does = verb();
    Clause clause{.subject = {}, .verb = &does, .tense = tense(does), .mood = mood()};
    clause.subject = subject_of(clause.tense, clause.mood == Mood::question);
    const bool timeless = does.traits.stative, statement = clause.mood == Mood::statement;
    const bool often = clause.tense == Tense::present && !timeless && statement && random_.chance(25);
    // "They read the book." could be today or yesterday: only the time tells.
    const bool twofold = statement && clause.tense <= Tense::past && std::string_view(does.past) == does.base;
    const bool timed = !timeless && !often && (twofold || random_.chance(30)), seldom = random_.chance(40);
    if (often) clause.adverb = text(seldom ? words::never : words::always);
    const bool habit = often || (timed && clause.tense == Tense::present);
    clause.object = object(does, clause.subject, clause.tense, often && seldom ? Mood::negation : clause.mood, habit);
    clause.tail = tail(does, clause.tense, timed);
    return say(clause);
  }

  /// A question that begins with the word.
  Clause question(const Verb& does, const Fixed& front) {
    Clause clause{.subject = {}, .verb = &does, .tense = tense(does), .mood = Mood::question};
    clause.front = text(front);
    clause.subject = subject_of(clause.tense, true);
    return clause;
  }

  /// What does she read?
  Text asks_what() {
    constexpr Kinds things = kind::worn | kind::sought | kind::seen;
    const Verb& does = verb([](const Verb& each) { return each.traits.generic || (each.objects & things) != 0; });
    Clause clause = question(does, words::what);
    bind_subject(english_forms(does), clause.subject);
    clause.tail = tail(does, clause.tense, !does.traits.stative && random_.chance(25));
    return say(clause);
  }

  /// Where did Ana buy the bread?
  Text asks_where() {
    const Verb& does = verb([](const Verb& each) { return each.places != 0; });
    Clause clause = question(does, words::where);
    clause.object = object(does, clause.subject, clause.tense, Mood::question, false);
    if (!does.traits.stative && random_.chance(25)) clause.tail = time(clause.tense);
    return say(clause);
  }

  Text asks_when() { return asks_for(words::when); }
  Text asks_why() { return asks_for(words::why); }

  Text asks_for(const Fixed& front) {
    const Verb& does = verb([](const Verb& each) { return !each.traits.stative; });
    Clause clause = question(does, front);
    clause.object = object(does, clause.subject, clause.tense, Mood::question, false);
    return say(clause);
  }

  /// Who opened the door?
  Text asks_who() {
    const Verb& does = verb();
    Clause clause{.subject = who(), .verb = &does, .tense = tense(does), .mood = Mood::question};
    const bool twofold = std::string_view(does.past) == does.base && clause.tense == Tense::past;
    clause.object = object(does, clause.subject, clause.tense, Mood::question, false);
    clause.tail = tail(does, clause.tense, !does.traits.stative && (twofold || random_.chance(25)));
    return say(clause);
  }

  /// How many books do you have?
  Text how_many() {
    constexpr Kinds countable = kind::goods | kind::food | kind::read;
    const Verb& does = verb([](const Verb& each) { return each.traits.generic && (each.objects & countable) != 0; });
    const Noun* counted = &noun(words::nouns, does.objects);
    while (counted->many[0] == '\0') counted = &noun(words::nouns, does.objects);
    Clause clause = question(does, {});
    bind_subject(english_forms(does), clause.subject);
    bind(Relation::acts_on, english_forms(does), join({counted->one, counted->many}));
    clause.front = {join({"how many", counted->many}),
                    join({form("cuántos cuántas", agreement(counted->gender, false)), counted->spanish_many})};
    return say(clause);
  }

  // --------------------------------------------------------------------------------------------------------- being and liking

  Text complement(const Adjective& quality, const NounPhrase& subject) {
    const Text very = quality.gradable && random_.chance(25) ? Text{"very", "muy"} : Text{};
    return join(very, {quality.english, inflect(quality, subject.gender, subject.plural)});
  }

  /// Are you sad? My uncle is very tall.
  Text person_is() {
    const Mood how = mood();
    const NounPhrase who = random_.chance(8)    ? demo::who()
                           : random_.chance(40) ? somebody()
                                                : subject_of(Tense::present, how == Mood::question);
    const bool speaks = who.person != Person::he_she && who.person != Person::they;
    const Adjective* quality = &random_.among<Adjective>(words::adjectives);
    // English does not say whether I, you and we are women or men: what is said of them has one form for both.
    const auto suits = [&](const Adjective& each) {
      return (each.fits & kind::people) != 0 && (!speaks || inflect(each, Gender::feminine, false) == each.spanish);
    };
    while (!suits(*quality)) quality = &random_.among<Adjective>(words::adjectives);
    for (const std::string& head : who.heads) bind(Relation::describes, quality->english, head);
    const bool pronoun = who.heads.empty() && !speaks, asks = how == Mood::question && who.english != "who";
    const bool why = asks && quality->be == Be::estar && !pronoun && random_.chance(60);
    return say_be(who, quality->be, complement(*quality, who), who.english == "who" ? Mood::statement : how,
                  why ? text(words::why) : Text{});
  }

  /// The house is white. Why is the door open?
  Text thing_is() {
    // The adjective comes first, so that those which fit few nouns are not rare.
    const Adjective* quality = &random_.among<Adjective>(words::adjectives);
    const Noun* found = thing(*quality);
    if (found == nullptr) return {};
    const Noun& what = *found;
    const bool plural = what.many[0] != '\0' && random_.chance(40);
    const bool colour = (quality->fits & kind::coloured) != 0;
    const Adjective* attribute = !colour && random_.chance(15) ? adjective(what, kind::coloured) : nullptr;
    const NounPhrase subject = definite(what, plural, attribute);
    const bool why = quality->be == Be::estar && random_.chance(25);
    const Text what_it_is = complement(*quality, subject);
    return say_be(subject, quality->be, what_it_is, mood(), why ? text(words::why) : Text{});
  }

  /// In the kitchen, under the table, near my house.
  Text somewhere(bool tiny) {
    if (tiny) {
      const Fixed& preposition = random_.chance(50) ? words::on : words::under;
      return at(preposition, known(noun(words::nouns, kind::surface)));
    }
    const Noun& landmark = random_.chance(60) ? noun(words::nouns, kind::landmark) : noun(words::places, kind::landmark);
    const Fixed& preposition = random_.among<Fixed>(words::beside);
    return at(preposition, known(landmark));
  }

  NounPhrase known(const Noun& noun) {
    return noun_phrase(noun, words::the, {.adjective = random_.chance(20) ? adjective(noun, kind::coloured) : nullptr});
  }

  Text location() {
    constexpr Kinds public_places = kind::trip | kind::dining | kind::outdoors;
    const bool person = random_.chance(45), asked = random_.chance(25), tiny = random_.chance(55);
    if (person) {
      const Mood how = mood();
      const NounPhrase who =
          !asked && random_.chance(15) ? demo::who() : subject_of(Tense::present, asked || how == Mood::question);
      if (asked) return say_be(who, Be::estar, {}, Mood::question, text(words::where));
      if (random_.chance(35)) return say_be(who, Be::estar, somewhere(false), who.english == "who" ? Mood::statement : how);
      const Noun& place = noun(words::places, public_places);
      return say_be(who, Be::estar, in(place, noun_phrase(place, words::the)), who.english == "who" ? Mood::statement : how);
    }
    const Noun& what =
        asked && random_.chance(25) ? noun(words::places, kind::trip) : noun(words::nouns, tiny ? kind::small : kind::bulky);
    const bool plural = what.many[0] != '\0' && random_.chance(40);
    const NounPhrase thing = definite(what, plural, random_.chance(25) ? adjective(what, ~kind::goods) : nullptr);
    if (asked) return say_be(thing, Be::estar, {}, Mood::question, text(words::where));
    const Text there = somewhere(tiny);
    return say_be(thing, Be::estar, there, mood());
  }

  /// There is a cat near the door. There are no keys on the table.
  Text existence() {
    const bool tiny = random_.chance(60);
    const Noun& what = noun(words::nouns, tiny ? kind::small : kind::bulky);
    const Adjective* quality = random_.chance(35) ? adjective(what, ~kind::goods) : nullptr;
    const Mood how = mood();
    const NounPhrase thing = how == Mood::negation ? any(what, quality) : indefinite(what, quality);
    return say_there_is(thing, somewhere(tiny), how);
  }

  /// Ana likes coffee. Do you like to dance?
  Text liking() {
    const Mood how = mood();
    NounPhrase who = subject_of(Tense::present, how == Mood::question);
    while (who.heads.size() > 1) who = subject_of(Tense::present, how == Mood::question);
    const std::string like = "like likes";
    bind_subject(like, who);
    if (random_.chance(30)) return say_likes(who, doing(), how);
    constexpr Kinds likeable = kind::food | kind::drink | kind::read | kind::animal | kind::heard | kind::worn | kind::blossom;
    const Noun& what = noun(words::nouns, likeable);
    bind(Relation::acts_on, like, join({what.one, what.many}));
    const Adjective* quality = random_.chance(30) ? adjective(what, ~kind::creature) : nullptr;
    if (random_.chance(50) && !(what.kinds & kind::mass)) {
      return say_likes(who, definite(what, what.many[0] != '\0' && random_.chance(40), quality), how);
    }
    // A kind of thing has no article in English and the definite one in Spanish: coffee, el café.
    NounPhrase all = noun_phrase(what, words::the, {.plural = what.many[0] != '\0', .adjective = quality});
    all.english = any(what, quality).english;
    return say_likes(who, all, how);
  }

  /// To read books, leer libros.
  NounPhrase doing() {
    const Verb& does = verb([](const Verb& each) { return !each.traits.stative && (each.objects == 0 || each.traits.generic); });
    NounPhrase act;
    act.english = join({"to", does.base});
    act.spanish = does.infinitive;
    if (does.objects == 0) return act;
    const Noun& what = noun(words::nouns, does.objects & ~kind::people);
    bind(Relation::acts_on, english_forms(does), join({what.one, what.many}));
    const NounPhrase object = any(what, nullptr);
    act.english = join({act.english, object.english});
    act.spanish = join({act.spanish, object.spanish});
    return act;
  }
};

}  // namespace demo
