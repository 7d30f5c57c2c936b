#include "grammar.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "attend/core/error.hpp"
#include "sentence_maker.hpp"

namespace demo {
namespace {

/// All the combinations that a few thousand sentences make.
std::set<WordPair> word_pairs_of(SentenceMaker maker) {
  std::set<WordPair> word_pairs;
  for (int i = 0; i < 20'000; ++i) {
    for (const WordPair& pair : maker.next().word_pairs) word_pairs.insert(pair);
  }
  return word_pairs;
}

/// Chooses at random what to hold out: so many pairs of words of each relation, but never more than a quarter of the partners
/// that a word has in it, so that training still shows every word in many combinations.
std::vector<WordPair> choose_held_out(const std::set<WordPair>& word_pairs, std::uint64_t seed, std::size_t per_relation) {
  using Role = std::pair<Relation, std::string>;
  std::map<Role, std::size_t> partners, taken;
  for (const WordPair& pair : word_pairs) ++partners[{pair.relation, pair.first}], ++partners[{pair.relation, pair.second}];

  std::vector<WordPair> candidates(word_pairs.begin(), word_pairs.end()), chosen;
  Random random(seed);
  for (std::size_t left = candidates.size(); left > 1; --left) std::swap(candidates[left - 1], candidates[random.below(left)]);
  std::map<Relation, std::size_t> count;
  for (const WordPair& pair : candidates) {
    const Role first{pair.relation, pair.first}, second{pair.relation, pair.second};
    if (count[pair.relation] == per_relation) continue;
    if (4 * (taken[first] + 1) > partners[first] || 4 * (taken[second] + 1) > partners[second]) continue;
    ++count[pair.relation], ++taken[first], ++taken[second];
    chosen.push_back(pair);
  }
  return chosen;
}

/// Knows the held-out pairs of words in sentences.
class HeldOut {
 public:
  explicit HeldOut(const std::vector<WordPair>& word_pairs) : word_pairs_(word_pairs.begin(), word_pairs.end()) {
    for (const WordPair& pair : word_pairs) {
      for (const std::string& word : {pair.first, pair.second}) {
        for (const std::string& form : bare_words(word)) words_[form].insert(word);
      }
    }
  }

  /// Whether the sentence is about a held-out pair: an adjective that belongs to its noun, and not to another one.
  bool made_in(const Sentence& sentence) const {
    return std::any_of(sentence.word_pairs.begin(), sentence.word_pairs.end(),
                       [&](const WordPair& pair) { return word_pairs_.count(pair) != 0; });
  }

  /// Whether both words of a held-out pair stand in the sentence, related or not.
  bool shown_in(std::string_view english) const {
    std::set<std::string> found;
    for (const std::string& form : bare_words(english)) {
      if (const auto at = words_.find(form); at != words_.end()) found.insert(at->second.begin(), at->second.end());
    }
    return std::any_of(word_pairs_.begin(), word_pairs_.end(),
                       [&](const WordPair& pair) { return found.count(pair.first) != 0 && found.count(pair.second) != 0; });
  }

 private:
  std::set<WordPair> word_pairs_;
  std::map<std::string, std::set<std::string>> words_;  // each English form: the words it is a form of
};

/// Counts the words of pairs on both sides.
class WordCount {
 public:
  explicit WordCount(const std::vector<Pair>& pairs) {
    for (const Pair& pair : pairs) {
      for (const std::string& word : bare_words(pair.source)) ++source_[word];
      for (const std::string& word : bare_words(pair.target)) ++target_[word];
    }
  }

  /// How often the rarest word of a pair was counted.
  std::size_t rarest(const Pair& pair) const { return std::min(rarest(source_, pair.source), rarest(target_, pair.target)); }

 private:
  using Counts = std::map<std::string, std::size_t>;
  static std::size_t rarest(const Counts& counts, std::string_view sentence) {
    std::size_t least = std::numeric_limits<std::size_t>::max();
    for (const std::string& word : bare_words(sentence)) {
      const auto at = counts.find(word);
      least = std::min(least, at == counts.end() ? 0 : at->second);
    }
    return least;
  }
  Counts source_, target_;
};

/// Deals the sentences that are made out to the parts of a corpus.
class Dealer {
 public:
  Dealer(std::uint64_t seed, const DemoSizes& sizes, const HeldOut& held_out)
      : maker_(seed), sizes_(sizes), held_out_(held_out) {}

  void fill(DemoCorpus& corpus) {
    while (corpus.validation.size() < sizes_.validation) deal(&corpus.validation);
    while (corpus.train.size() < sizes_.train) deal(&corpus.train);
    const WordCount count(corpus.train);
    for (std::size_t next = 0; corpus.test.size() < sizes_.test; ++next) {
      while (next == candidates_.size()) deal(nullptr);
      if (count.rarest(candidates_[next]) >= sizes_.least_practice) put(candidates_[next], corpus.test);
    }
  }

 private:
  /// Takes one sentence, which goes to the given part, to the candidates for the test part, or, if it only shows a held-out
  /// combination in passing or was there before, nowhere.
  void deal(std::vector<Pair>* part) {
    if (++in_vain_ > 100'000) {
      throw attend::ValueError("demo_corpus: the grammar does not make ", sizes_.train, " training, ", sizes_.validation,
                               " validation and ", sizes_.test, " test pairs of words that training has ", sizes_.least_practice,
                               " times");
    }
    const Sentence sentence = maker_.next();
    if (!seen_.insert(sentence.text.english).second) return;
    const Pair pair{sentence.text.english, sentence.text.spanish};
    if (held_out_.made_in(sentence)) {
      candidates_.push_back(pair);
    } else if (part != nullptr && !held_out_.shown_in(pair.source)) {
      put(pair, *part);
    }
  }

  void put(const Pair& pair, std::vector<Pair>& part) {
    part.push_back(pair);
    in_vain_ = 0;
  }

  SentenceMaker maker_;
  const DemoSizes& sizes_;
  const HeldOut& held_out_;
  int in_vain_ = 0;  // sentences since a part last grew
  std::set<std::string> seen_;
  std::vector<Pair> candidates_;
};

}  // namespace

std::vector<std::string> bare_words(std::string_view sentence) {
  std::string plain(sentence);
  for (const std::string_view mark : {"¿", "?", ".", "'s"}) replace_all(plain, mark, "");
  replace_all(plain, "É", "é");
  for (char& letter : plain) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return split(plain);
}

DemoCorpus demo_corpus(std::uint64_t seed, const DemoSizes& sizes) {
  DemoCorpus corpus;
  corpus.held_out = choose_held_out(word_pairs_of(SentenceMaker(seed)), seed, sizes.held_out);
  const HeldOut held_out(corpus.held_out);
  Dealer(seed + 1, sizes, held_out).fill(corpus);
  return corpus;
}

}  // namespace demo
