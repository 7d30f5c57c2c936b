#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attend/text/split_sentences.hpp"
#include "attend/translate/translator_options.hpp"

/// Sentences that are translated in parts: what the parts are, and what their translations together are.
namespace attend::decode::detail {

/// A part of a sentence, and what the search is given of it.
struct SourcePart {
  std::size_t sentence = 0, part = 0;  // which sentence of the call; which part of it
  std::string_view text;
  index_t first_word = 0;               // the word of the sentence with which, or within which, the part begins
  std::vector<token_t> tokens, prefix;  // the end token included; what its translation begins with
};

/// The texts to translate a sentence as. `fits(text)`: whether the model has positions enough for a text.
inline std::vector<std::string_view> parts_of(std::string_view sentence, const TranslatorOptions& options,
                                              const std::function<bool(std::string_view)>& fits) {
  const bool too_long = !options.split_sentences && options.long_input == LongInput::split && !fits(sentence);
  if (!options.split_sentences && !too_long) return {sentence};
  std::vector<std::string_view> parts;
  for (const auto part : text::split_sentences(sentence)) {
    if (options.long_input == LongInput::refuse) parts.push_back(part);
    else
      for (const auto piece : text::split_to_fit(part, fits)) parts.push_back(piece);
  }
  return parts;
}

/// The word of `sentence` with which, or within which, a part of it begins.
inline index_t first_word_of(std::string_view sentence, std::string_view part) {
  const auto before = sentence.substr(0, part.data() - sentence.data());
  const index_t words = text::count_words(before);
  return words > 0 && text::trim_end(before).size() == before.size() ? words - 1 : words;
}

/// Adds the translation of a sentence's next part to that of the parts before it: texts with a space between, or none after
/// Chinese and Japanese; scores and log-probabilities as sums. The end token of each part but the last stays among the tokens.
/// `words`: how many the text has so far. Links stay in the order in which they come.
inline void append_part(Translation& all, index_t& words, const Translation& part, token_t eos, index_t first_source_word) {
  const std::size_t before = all.text.size();
  text::append_sentence(all.text, part.text);
  const std::string_view added = std::string_view(all.text).substr(before);
  // Without a space between, the last word goes on.
  if (before > 0 && !added.empty() && !text::is_space(text::code_point_at(added, 0).value)) --words;
  for (const Link& link : part.alignment) all.alignment.push_back({link.source + first_source_word, link.target + words});
  words += text::count_words(part.text);
  if (all.finished && !all.token_log_probabilities.empty()) all.tokens.push_back(all.end_token >= 0 ? all.end_token : eos);
  all.tokens.insert(all.tokens.end(), part.tokens.begin(), part.tokens.end());
  all.token_log_probabilities.insert(all.token_log_probabilities.end(), part.token_log_probabilities.begin(),
                                     part.token_log_probabilities.end());
  all.score += part.score;
  all.log_probability += part.log_probability;
  all.finished = part.finished;
  all.end_token = part.end_token;
  all.distributions.insert(all.distributions.end(), part.distributions.begin(), part.distributions.end());
}

/// The translations of a sentence from the lists of its parts: the best of each, the second best of each, and so on; if a part
/// has fewer, its last. `parts[k]` is the list of part k, whose first source word is first_words[k].
inline std::vector<Translation> join_parts(std::vector<std::vector<Translation>> parts, const std::vector<index_t>& first_words,
                                           token_t eos) {
  if (parts.empty()) return {Translation{}};
  if (parts.size() == 1) return std::move(parts.front());
  std::size_t ranks = 0;
  for (const auto& list : parts) ranks = std::max(ranks, list.size());
  std::vector<Translation> joined(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    index_t words = 0;
    for (std::size_t k = 0; k < parts.size(); ++k)
      if (!parts[k].empty()) append_part(joined[r], words, parts[k][std::min(r, parts[k].size() - 1)], eos, first_words[k]);
    auto& links = joined[r].alignment;
    std::sort(links.begin(), links.end());
    links.erase(std::unique(links.begin(), links.end()), links.end());
  }
  return joined;
}

/// What a caller is told of the tokens of one call of `translate`, as text that grows: by sentence and sample, the texts of the
/// parts that are done, and the tokens of the one under way.
class Streams {
 public:
  Streams(const TranslationCallback& callback, std::size_t before, std::function<std::string(std::span<const token_t>)> decode)
      : callback_(callback), before_(before), decode_(std::move(decode)) {}

  /// What a search of a batch is to call; `sentences`: the sentence of each of its rows.
  [[nodiscard]] TokenCallback of_batch(std::vector<std::size_t> sentences) {
    if (!callback_) return {};
    return [this, sentences = std::move(sentences)](const TokenEvent& event) {
      const std::size_t sentence = nth(sentences, event.sentence);
      Stream& stream = streams_[{sentence, event.sample}];
      if (stream.stopped) return false;  // in a part before
      if (event.position == 0) stream.tokens.clear();
      stream.tokens.push_back(event.token);
      std::string text = stream.done;
      text::append_sentence(text, decode_(stream.tokens));
      stream.stopped = !callback_({before_ + sentence, event.sample, event.token, event.log_probability, text, event.last});
      return !stream.stopped;
    };
  }
  /// A part of a sentence is done: these are its samples. Those of samples that were stopped in a part before are emptied.
  void finish(std::size_t sentence, std::vector<Translation>& samples) {
    if (!callback_) return;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      Stream& stream = streams_[{sentence, static_cast<index_t>(i)}];
      if (stream.over) samples[i] = Translation{.finished = false};
      text::append_sentence(stream.done, samples[i].text);
      stream.over = stream.stopped;
    }
  }
  /// Whether none of a sentence's samples is to go on.
  [[nodiscard]] bool stopped(std::size_t sentence, index_t samples) const {
    for (index_t i = 0; i < samples; ++i)
      if (const auto found = streams_.find({sentence, i}); found == streams_.end() || !found->second.stopped) return false;
    return true;
  }

 private:
  struct Stream {
    std::string done;
    std::vector<token_t> tokens;
    bool stopped = false, over = false;  // by the callback; before the part under way
  };
  const TranslationCallback& callback_;
  std::size_t before_;
  std::function<std::string(std::span<const token_t>)> decode_;
  std::map<std::pair<std::size_t, index_t>, Stream> streams_;
};

}  // namespace attend::decode::detail
