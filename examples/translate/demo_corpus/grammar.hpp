#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "word_pair.hpp"

/// The corpus of the demonstration: English sentences of a small grammar and their Spanish translations. vocabulary.hpp has
/// the words, phrases.hpp and sentences.hpp the rules of both languages, chooser.hpp and sentence_maker.hpp what makes sense to
/// say.
namespace demo {

/// A sentence and its translation.
struct Pair {
  std::string source, target;  ///< English, Spanish
};

/// The parts of a corpus; no source stands twice in all of them.
struct DemoCorpus {
  std::vector<Pair> train, validation, test;
  std::vector<WordPair> held_out;  ///< the combinations of words that only the test part shows
};

struct DemoSizes {
  std::size_t train = 19'000, validation = 300, test = 500;  ///< pairs
  std::size_t held_out = 25;                                 ///< combinations to hold out, of each of the relations
  std::size_t least_practice = 20;                           ///< how often training has each word of a test pair, on its own side
};

/// The corpus of a seed, the same on every machine; takes a fraction of a second.
///
/// What is held out: some combinations of two words (white + house, drink + tea, sister + sing) are drawn first. A sentence in
/// which both words of one stand, in whatever forms and however far apart, never gets into the training or the validation part. A
/// test sentence makes such a combination, of words that training shows often, but apart: at most a quarter of a word's partners
/// are held out. So a model that translates the test part well has learnt the words and the rules, not the sentences.
///
/// Throws ValueError if the grammar does not have that many sentences.
DemoCorpus demo_corpus(std::uint64_t seed = 1, const DemoSizes& sizes = {});

/// The words of a sentence of the corpus in lower case, without its marks and without the 's of an owner: "Is Ana's cat big?" has
/// is, ana, cat, big.
std::vector<std::string> bare_words(std::string_view sentence);

}  // namespace demo
