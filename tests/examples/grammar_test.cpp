#include "../../examples/translate/demo_corpus/grammar.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "../../examples/translate/demo_corpus/sentence_maker.hpp"
#include "attend/core/error.hpp"
#include "catch.hpp"

namespace {

using namespace demo;

const Noun& noun(std::string_view one) {
  for (const Noun& each : words::nouns) {
    if (each.one == one) return each;
  }
  for (const Noun& each : words::places) {
    if (each.one == one) return each;
  }
  FAIL("no noun " << one);
  return words::nouns[0];
}

const Verb& verb(std::string_view base) {
  const auto at = std::find_if(std::begin(words::verbs), std::end(words::verbs), [&](const Verb& v) { return v.base == base; });
  REQUIRE(at != std::end(words::verbs));
  return *at;
}

const Adjective* adjective(std::string_view english) {
  const auto at = std::find_if(std::begin(words::adjectives), std::end(words::adjectives),
                               [&](const Adjective& a) { return a.english == english; });
  REQUIRE(at != std::end(words::adjectives));
  return &*at;
}

NounPhrase the(std::string_view one, NounOptions options = {}) { return noun_phrase(noun(one), words::the, options); }
NounPhrase named(std::string_view name) { return noun_phrase(noun(name), words::none); }
NounPhrase my(std::string_view one, bool plural = false) { return noun_phrase(noun(one), words::my, {.plural = plural}); }
Text is(const NounPhrase& subject, std::string_view quality, Mood mood = Mood::statement, const Text& front = {}) {
  const Adjective* adj = adjective(quality);
  return say_be(subject, adj->be, {adj->english, inflect(*adj, subject.gender, subject.plural)}, mood, front);
}

const NounPhrase i = pronoun(Person::i), you = pronoun(Person::you), he = pronoun(Person::he_she),
                 she = pronoun(Person::he_she, Gender::feminine), we = pronoun(Person::we), they = pronoun(Person::they);

void check(const Text& said, const std::string& english, const std::string& spanish) {
  CHECK(said.english == english);
  CHECK(said.spanish == spanish);
}

std::string forms(const Verb& verb, bool past) {
  std::string list;
  for (const Person person : {Person::i, Person::you, Person::he_she, Person::we, Person::they}) {
    list = join({list, conjugate(verb, past, person)});
  }
  return list;
}

}  // namespace

TEST_CASE("grammar: regular and irregular verbs", "[grammar]") {
  CHECK(forms(verb("buy"), false) == "compro compras compra compramos compran");
  CHECK(forms(verb("buy"), true) == "compré compraste compró compramos compraron");
  CHECK(forms(verb("drink"), false) == "bebo bebes bebe bebemos beben");
  CHECK(forms(verb("drink"), true) == "bebí bebiste bebió bebimos bebieron");
  CHECK(forms(verb("write"), false) == "escribo escribes escribe escribimos escriben");
  CHECK(forms(verb("write"), true) == "escribí escribiste escribió escribimos escribieron");
  CHECK(forms(verb("read"), true) == "leí leíste leyó leímos leyeron");
  CHECK(forms(verb("close"), false) == "cierro cierras cierra cerramos cierran");
  CHECK(forms(verb("close"), true) == "cerré cerraste cerró cerramos cerraron");
  CHECK(forms(verb("look for"), false) == "busco buscas busca buscamos buscan");
  CHECK(forms(verb("look for"), true) == "busqué buscaste buscó buscamos buscaron");
  CHECK(forms(verb("see"), false) == "veo ves ve vemos ven");
  CHECK(forms(words::go, true) == "fui fuiste fue fuimos fueron");
}

TEST_CASE("grammar: nouns, adjectives and what is before them agree", "[grammar]") {
  check(the("house", {.adjective = adjective("white")}), "the white house", "la casa blanca");
  check(the("house", {.plural = true, .adjective = adjective("white")}), "the white houses", "las casas blancas");
  check(the("car", {.plural = true, .adjective = adjective("red")}), "the red cars", "los coches rojos");
  check(the("box", {.adjective = adjective("blue")}), "the blue box", "la caja azul");
  check(noun_phrase(noun("clock"), words::three, {.plural = true, .adjective = adjective("cheap")}), "three cheap clocks",
        "tres relojes baratos");
  check(noun_phrase(noun("flower"), words::our, {.plural = true}), "our flowers", "nuestras flores");
  check(noun_phrase(noun("poem"), words::this_one, {.adjective = adjective("long")}), "this long poem", "este poema largo");
  check(noun_phrase(noun("man"), words::the, {.plural = true, .adjective = adjective("young")}), "the young men",
        "los hombres jóvenes");
  const NounPhrase owner = my("sister");
  check(the("coat", {.adjective = adjective("black"), .owner = &owner}), "my sister's black coat",
        "el abrigo negro de mi hermana");
}

TEST_CASE("grammar: statements, negations and yes-or-no questions", "[grammar]") {
  const NounPhrase books = noun_phrase(noun("book"), words::none, {.plural = true});
  check(say({.subject = she, .verb = &verb("read"), .object = books}), "She reads books.", "Ella lee libros.");
  check(say({.subject = i, .verb = &verb("drink"), .object = noun_phrase(noun("milk"), words::none)}), "I drink milk.",
        "Bebo leche.");
  check(say({.subject = he, .verb = &verb("eat"), .mood = Mood::negation, .object = the("soup")}), "He does not eat the soup.",
        "Él no come la sopa.");
  check(say({.subject = you, .verb = &verb("buy"), .tense = Tense::past, .mood = Mood::question, .object = the("bread")}),
        "Did you buy the bread?", "¿Compraste el pan?");
  check(say({.subject = they, .verb = &verb("sell"), .tense = Tense::going_to, .object = my("house")}),
        "They are going to sell my house.", "Ellos van a vender mi casa.");
  check(say({.subject = we, .verb = &verb("study"), .tense = Tense::have_to, .mood = Mood::negation}), "We do not have to study.",
        "No tenemos que estudiar.");
  check(say({.subject = named("Ana"), .verb = &verb("dance"), .tense = Tense::want_to}), "Ana wants to dance.",
        "Ana quiere bailar.");
  check(say({.subject = i, .verb = &verb("open"), .tense = Tense::can, .mood = Mood::negation, .object = the("window")}),
        "I cannot open the window.", "No puedo abrir la ventana.");
  check(say({.subject = you, .verb = &verb("open"), .tense = Tense::can, .mood = Mood::question, .object = the("door")}),
        "Can you open the door?", "¿Puedes abrir la puerta?");
  check(say({.subject = we, .verb = &verb("sing"), .adverb = text(words::never)}), "We never sing.", "Nunca cantamos.");
  check(say({.subject = she,
             .verb = &verb("eat"),
             .tense = Tense::past,
             .object = noun_phrase(noun("orange"), words::a, {.adjective = adjective("big")})}),
        "She ate a big orange.", "Ella comió una naranja grande.");
  check(say({.subject = he, .verb = &verb("want"), .object = noun_phrase(noun("apple"), words::a)}), "He wants an apple.",
        "Él quiere una manzana.");
}

TEST_CASE("grammar: the personal a, contractions and el agua", "[grammar]") {
  check(say({.subject = i, .verb = &verb("see"), .object = the("boy")}), "I see the boy.", "Veo al niño.");
  check(say({.subject = i, .verb = &verb("see"), .object = the("tree")}), "I see the tree.", "Veo el árbol.");
  check(say({.subject = we, .verb = &verb("visit"), .tense = Tense::past, .object = my("uncle", true)}), "We visited my uncles.",
        "Visitamos a mis tíos.");
  check(say({.subject = they, .verb = &verb("have"), .object = noun_phrase(noun("brother"), words::two, {.plural = true})}),
        "They have two brothers.", "Ellos tienen dos hermanos.");
  check(say({.subject = she, .verb = &words::go, .tense = Tense::past, .object = the("park")}), "She went to the park.",
        "Ella fue al parque.");
  check(say({.subject = i, .verb = &words::return_from, .object = the("market")}), "I return from the market.",
        "Regreso del mercado.");
  check(say({.subject = i, .verb = &words::return_from, .object = the("beach")}), "I return from the beach.",
        "Regreso de la playa.");
  check(say({.subject = you,
             .verb = &verb("drink"),
             .tense = Tense::past,
             .object = the("water", {.adjective = adjective("cold")})}),
        "You drank the cold water.", "Bebiste el agua fría.");
  check(is(noun_phrase(noun("water"), words::this_one), "cold"), "This water is cold.", "Esta agua está fría.");
  check(say_be(the("cat"), Be::estar, at(words::beside[2], the("tree")), Mood::statement), "The cat is next to the tree.",
        "El gato está al lado del árbol.");
}

TEST_CASE("grammar: questions put the Spanish subject after its verb", "[grammar]") {
  const NounPhrase bread = noun_phrase(noun("bread"), words::none);
  check(say({.subject = the("girl"), .verb = &verb("eat"), .mood = Mood::question, .front = text(words::what)}),
        "What does the girl eat?", "¿Qué come la niña?");
  check(say({.subject = you, .verb = &verb("live"), .mood = Mood::question, .front = text(words::where)}), "Where do you live?",
        "¿Dónde vives?");
  check(say({.subject = named("Ana"),
             .verb = &verb("buy"),
             .tense = Tense::past,
             .object = the("bread"),
             .front = text(words::where)}),
        "Where did Ana buy the bread?", "¿Dónde compró Ana el pan?");
  check(say({.subject = named("Ana"), .verb = &verb("buy"), .tense = Tense::past, .object = bread, .front = text(words::where)}),
        "Where did Ana buy bread?", "¿Dónde compró pan Ana?");
  check(say({.subject = she, .verb = &verb("buy"), .object = bread, .front = text(words::why)}), "Why does she buy bread?",
        "¿Por qué compra ella pan?");
  check(say({.subject = my("mother"),
             .verb = &verb("visit"),
             .tense = Tense::going_to,
             .object = named("Carlos"),
             .front = text(words::when)}),
        "When is my mother going to visit Carlos?", "¿Cuándo va a visitar mi madre a Carlos?");
  check(say({.subject = who(), .verb = &verb("close"), .tense = Tense::past, .mood = Mood::question, .object = the("box")}),
        "Who closed the box?", "¿Quién cerró la caja?");
  check(is(the("door"), "open", Mood::question, text(words::why)), "Why is the door open?", "¿Por qué está abierta la puerta?");
  check(is(who(), "tired"), "Who is tired?", "¿Quién está cansado?");
  check(say_be(the("key", {.plural = true}), Be::estar, {}, Mood::question, text(words::where)), "Where are the keys?",
        "¿Dónde están las llaves?");
}

TEST_CASE("grammar: ser, estar, hay and gustar", "[grammar]") {
  check(is(the("house"), "white"), "The house is white.", "La casa es blanca.");
  check(is(the("window", {.plural = true}), "broken"), "The windows are broken.", "Las ventanas están rotas.");
  check(is(you, "sad", Mood::question), "Are you sad?", "¿Estás triste?");
  check(is(she, "tall", Mood::negation), "She is not tall.", "Ella no es alta.");
  check(is(both(my("brother"), my("sister")), "tired"), "My brother and my sister are tired.",
        "Mi hermano y mi hermana están cansados.");
  check(is(both(named("Ana"), named("María")), "kind"), "Ana and María are kind.", "Ana y María son amables.");
  check(is(both(my("aunt"), my("sister")), "happy"), "My aunt and my sister are happy.", "Mi tía y mi hermana están contentas.");
  check(say_be(we, Be::estar, in(noun("beach"), the("beach")), Mood::statement), "We are on the beach.", "Estamos en la playa.");
  check(say_there_is(noun_phrase(noun("letter"), words::a), at(words::on, the("table")), Mood::statement),
        "There is a letter on the table.", "Hay una carta en la mesa.");
  check(say_there_is(noun_phrase(noun("dog"), words::none, {.plural = true}), at(words::beside[1], the("car")), Mood::negation),
        "There are no dogs behind the car.", "No hay perros detrás del coche.");
  check(say_there_is(noun_phrase(noun("clock"), words::two, {.plural = true}), at(words::under, the("chair")), Mood::question),
        "Are there two clocks under the chair?", "¿Hay dos relojes debajo de la silla?");
  NounPhrase dogs = the("dog", {.plural = true});
  dogs.english = "dogs";
  check(say_likes(she, dogs, Mood::statement), "She likes dogs.", "A ella le gustan los perros.");
  check(say_likes(i, the("coffee"), Mood::negation), "I do not like the coffee.", "No me gusta el café.");
  check(say_likes(the("boy", {.plural = true}), the("soup"), Mood::question), "Do the boys like the soup?",
        "¿A los niños les gusta la sopa?");
}

TEST_CASE("grammar: one English sentence has one translation, of 3 to 12 words", "[grammar]") {
  std::map<std::string, std::string> translations;
  SentenceMaker maker(7);
  for (int n = 0; n < 60'000; ++n) {
    const Sentence sentence = maker.next();
    const auto [at, fresh] = translations.emplace(sentence.text.english, sentence.text.spanish);
    if (!fresh && at->second != sentence.text.spanish) FAIL(at->first << ": " << at->second << " | " << sentence.text.spanish);
    const std::size_t english = split(sentence.text.english).size(), spanish = split(sentence.text.spanish).size();
    if (english < 3 || english > 12 || spanish < 2 || spanish > 12) FAIL(sentence.text.english);
  }
  CHECK(translations.size() > 30'000);
}

TEST_CASE("grammar: in every sentence nouns agree with their neighbours", "[grammar]") {
  struct Form {
    Gender gender;
    bool plural;
  };
  std::map<std::string, Form> nouns;
  const auto add = [&](const Noun& each) {
    if (each.kinds & kind::name) return;
    nouns[each.spanish] = {each.gender, false};
    if (each.many[0] != '\0') nouns[each.spanish_many] = {each.gender, true};
  };
  for (const Noun& each : words::nouns) add(each);
  for (const Noun& each : words::places) add(each);
  const Determiner* determiners[] = {&words::the, &words::a,    &words::this_one, &words::our,
                                     &words::my,  &words::your, &words::his};

  std::size_t checked = 0;
  const auto check_pair = [&](const Pair& pair) {
    const std::vector<std::string> words = bare_words(pair.target);
    for (std::size_t n = 0; n < words.size(); ++n) {
      const auto at = nouns.find(words[n]);
      if (at == nouns.end()) continue;
      const std::size_t agree = agreement(at->second.gender, at->second.plural);
      const bool agua = words[n] == "agua";  // feminine, but el agua
      if (agua && n > 0 && words[n - 1] == "la") FAIL(pair.target);
      if (n > 0 && !agua) {
        for (const Determiner* each : determiners) {
          const std::vector<std::string> all = split(each->spanish);
          if (std::find(all.begin(), all.end(), words[n - 1]) == all.end()) continue;
          ++checked;
          if (form(each->spanish, agree) != words[n - 1]) FAIL(pair.target);
        }
        if ((words[n - 1] == "al" || words[n - 1] == "del") && agree != 0) FAIL(pair.target);
      }
      if (n + 1 == words.size()) continue;
      for (const Adjective& each : words::adjectives) {
        bool is_form = false;
        for (const bool plural : {false, true}) {
          for (const Gender gender : {Gender::masculine, Gender::feminine}) {
            is_form = is_form || inflect(each, gender, plural) == words[n + 1];
          }
        }
        if (!is_form) continue;
        ++checked;
        if (inflect(each, at->second.gender, at->second.plural) != words[n + 1]) FAIL(pair.target);
      }
    }
  };
  const DemoCorpus corpus = demo_corpus(3, {.train = 3000});
  for (const auto* part : {&corpus.train, &corpus.validation, &corpus.test}) {
    for (const Pair& pair : *part) check_pair(pair);
  }
  CHECK(checked > 2000);
}

TEST_CASE("demo corpus: has its sizes, no duplicates, and depends on the seed alone", "[grammar]") {
  const DemoCorpus corpus = demo_corpus(1);
  CHECK(corpus.train.size() == 19'000);
  CHECK(corpus.validation.size() == 300);
  CHECK(corpus.test.size() == 500);
  std::set<std::string> sources;
  for (const auto* part : {&corpus.train, &corpus.validation, &corpus.test}) {
    for (const Pair& pair : *part) sources.insert(pair.source);
  }
  CHECK(sources.size() == 19'800);
  const auto few = [](std::uint64_t seed) { return demo_corpus(seed, {.train = 5000, .validation = 100, .test = 20}); };
  const DemoCorpus one = few(1), again = few(1), other = few(2);
  const auto same = [](const Pair& a, const Pair& b) { return a.source == b.source && a.target == b.target; };
  CHECK(std::equal(one.train.begin(), one.train.end(), again.train.begin(), same));
  CHECK(std::equal(one.test.begin(), one.test.end(), again.test.begin(), same));
  CHECK_FALSE(std::equal(one.train.begin(), one.train.end(), other.train.begin(), same));
}

TEST_CASE("demo corpus: what is held out is only in the test part", "[grammar]") {
  const std::uint64_t seed = GENERATE(1, 2, 12345);
  const DemoCorpus corpus = demo_corpus(seed);
  REQUIRE(corpus.held_out.size() == 75);
  // By the text alone: the two words of a held-out combination, in any of their forms, never stand in one sentence.
  std::map<std::string, std::set<std::size_t>> firsts, seconds;  // the combinations that a word is a part of
  for (std::size_t n = 0; n < corpus.held_out.size(); ++n) {
    for (const std::string& form : bare_words(corpus.held_out[n].first)) firsts[form].insert(n);
    for (const std::string& form : bare_words(corpus.held_out[n].second)) seconds[form].insert(n);
  }
  const auto shows_one = [&](const Pair& pair) {
    std::set<std::size_t> first, second;
    for (const std::string& word : bare_words(pair.source)) {
      if (const auto at = firsts.find(word); at != firsts.end()) first.insert(at->second.begin(), at->second.end());
      if (const auto at = seconds.find(word); at != seconds.end()) second.insert(at->second.begin(), at->second.end());
    }
    return std::any_of(first.begin(), first.end(), [&](std::size_t n) { return second.contains(n); });
  };
  for (const auto* part : {&corpus.train, &corpus.validation}) {
    for (const Pair& pair : *part) {
      if (shows_one(pair)) FAIL(pair.source);
    }
  }
  for (const Pair& pair : corpus.test) {
    if (!shows_one(pair)) FAIL(pair.source);
  }
  std::set<Relation> relations;
  for (const WordPair& pair : corpus.held_out) relations.insert(pair.relation);
  CHECK(relations.size() == 3);
}

TEST_CASE("demo corpus: training has every word of the test part often", "[grammar]") {
  const DemoCorpus corpus = demo_corpus(1);
  std::map<std::string, int> source, target;
  for (const Pair& pair : corpus.train) {
    for (const std::string& word : bare_words(pair.source)) ++source[word];
    for (const std::string& word : bare_words(pair.target)) ++target[word];
  }
  for (const Pair& pair : corpus.test) {
    for (const std::string& word : bare_words(pair.source)) {
      if (source[word] < 20) FAIL(word);
    }
    for (const std::string& word : bare_words(pair.target)) {
      if (target[word] < 20) FAIL(word);
    }
  }
  CHECK(source.size() > 200);
  CHECK(target.size() > 400);
}

TEST_CASE("demo corpus: says so where the grammar cannot fill the sizes", "[grammar]") {
  CHECK_THROWS_AS(demo_corpus(1, {.train = 10, .validation = 0, .test = 5}), attend::ValueError);
}
