#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "attend/core/random.hpp"
#include "attend/core/shape.hpp"
#include "attend/core/tokenizer.hpp"
#include "attend/nn/batch.hpp"

namespace attend::train {

/// Sentences as token ids, end to end.
struct EncodedSentences {
  std::span<const token_t> tokens;
  std::span<const index_t> begin;  ///< of each sentence, and the end of the last

  /// Sentence i.
  [[nodiscard]] std::span<const token_t> at(index_t i) const {
    const auto first = nth(begin, i), last = begin[static_cast<std::size_t>(i) + 1];
    return tokens.subspan(first, last - first);
  }
};

/// A number that changes with any token of any pair and with their order (FNV-1a).
inline std::uint64_t fingerprint_of(const EncodedSentences& source, const EncodedSentences& target) {
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto mix = [&](std::uint64_t word) {
    for (int byte = 0; byte < 8; ++byte) hash = (hash ^ (word >> (8 * byte) & 0xff)) * 0x100000001b3;
  };
  for (const auto* side : {&source, &target}) {
    for (const index_t begin : side->begin) mix(static_cast<std::uint64_t>(begin));
    for (const token_t token : side->tokens) mix(static_cast<std::uint32_t>(token));
  }
  return hash;
}

/// Sentence pairs as token ids; no begin or end tokens among them. They are its own, or lie somewhere else, in a file that is
/// mapped into memory say (see `open_pairs`).
class EncodedPairs {
 public:
  EncodedPairs() = default;
  /// Pairs that lie where `keeper` keeps them, as many sources as targets; `fingerprint` is `fingerprint_of` them.
  EncodedPairs(const EncodedSentences& source, const EncodedSentences& target, std::uint64_t fingerprint,
               std::shared_ptr<const void> keeper)
      : elsewhere_(Elsewhere{source, target, fingerprint, std::move(keeper)}) {}

  /// Throws ValueError if the pairs lie somewhere else.
  void add(std::span<const token_t> source, std::span<const token_t> target) {
    check_value(!elsewhere_, "EncodedPairs", "pairs of a file cannot be added to");
    source_.add(source);
    target_.add(target);
  }
  [[nodiscard]] index_t size() const { return count_of(sources().begin) - 1; }
  [[nodiscard]] std::span<const token_t> source(index_t i) const { return sources().at(i); }
  [[nodiscard]] std::span<const token_t> target(index_t i) const { return targets().at(i); }
  /// All of a side.
  [[nodiscard]] EncodedSentences sources() const { return elsewhere_ ? elsewhere_->source : source_.view(); }
  [[nodiscard]] EncodedSentences targets() const { return elsewhere_ ? elsewhere_->target : target_.view(); }

  /// See `fingerprint_of`.
  [[nodiscard]] std::uint64_t fingerprint() const {
    return elsewhere_ ? elsewhere_->fingerprint : fingerprint_of(sources(), targets());
  }

 private:
  struct Side {
    std::vector<token_t> tokens;
    std::vector<index_t> begin = {0};

    void add(std::span<const token_t> sentence) {
      tokens.insert(tokens.end(), sentence.begin(), sentence.end());
      begin.push_back(count_of(tokens));
    }
    [[nodiscard]] EncodedSentences view() const { return {tokens, begin}; }
  };
  struct Elsewhere {
    EncodedSentences source, target;
    std::uint64_t fingerprint;
    std::shared_ptr<const void> keeper;
  };
  Side source_, target_;
  std::optional<Elsewhere> elsewhere_;
};

/// All pairs of a corpus through a tokenizer; targets by its `encode_target` if it has one, after the token of their language if
/// it has that.
template <class Corpus, class Tokenizer>
EncodedPairs encode_pairs(const Corpus& corpus, const Tokenizer& tokenizer) {
  EncodedPairs pairs;
  for (const auto& pair : corpus) pairs.add(tokenizer.encode(pair.source), text::encode_whole_target(tokenizer, pair.target));
  return pairs;
}

/// How pairs are put together.
struct BatchOptions {
  /// The most tokens that one pass through the model gets on either side, end tokens included: a batch has at most so many
  /// source tokens and at most so many target tokens.
  index_t tokens_per_batch = 4096;
  /// An update is made of this many such passes: as one batch of accumulate * tokens_per_batch, in less memory.
  index_t accumulate = 1;
  /// Pairs with more tokens on a side, those at its end included, are left out and counted; so are those beyond tokens_per_batch.
  index_t max_length = 256;
  /// Sentences whose lengths fall into one bucket of this width share batches; 0: all lengths do.
  index_t bucket_width = 8;
  std::uint64_t seed = 1;                ///< of the shuffling
  std::vector<token_t> source_end = {};  ///< what sources end with, if it is not the end token alone
};

/// Batches of sentence pairs by their number of tokens. Each epoch shuffles the pairs, sorts them into buckets by the longer
/// of their two lengths, fills batches bucket after bucket, and shuffles the batches. Every pair that is not left out comes
/// exactly once an epoch; what comes when depends on the pairs, the options and the number of the epoch alone.
class Batches {
 public:
  /// Which pairs make up which batch in one epoch.
  struct Epoch {
    std::vector<index_t> pairs;        // batch after batch
    std::vector<index_t> begin = {0};  // of each batch in `pairs`, and the end of the last

    /// The number of batches, and the pairs of one.
    [[nodiscard]] index_t size() const { return count_of(begin) - 1; }
    [[nodiscard]] std::span<const index_t> operator[](index_t batch) const {
      const auto first = nth(begin, batch), last = begin[static_cast<std::size_t>(batch) + 1];
      return {pairs.data() + first, static_cast<std::size_t>(last - first)};
    }
  };

  /// `bos` begins the decoder's inputs, `eos` ends labels, and sources where the options do not say otherwise. Throws ValueError
  /// for an option out of range, and if there is no pair or none is short enough.
  Batches(EncodedPairs pairs, token_t bos, token_t eos, const BatchOptions& options = {})
      : pairs_(std::move(pairs)), bos_(bos), eos_(eos), options_(options) {
    if (options_.source_end.empty()) options_.source_end = {eos};
    const auto at_least = [](index_t value, index_t least, const char* name) {
      check_value(value >= least, "Batches", name, " is ", value, ", expected ", least, " or more");
    };
    at_least(options.tokens_per_batch, 1, "tokens_per_batch");
    at_least(options.accumulate, 1, "accumulate");
    at_least(options.max_length, 1, "max_length");
    at_least(options.bucket_width, 0, "bucket_width");
    check_value(options.tokens_per_batch <= largest / options.accumulate, "Batches",
                "tokens_per_batch * accumulate is more than ", largest);
    check_value(pairs_.size() > 0, "Batches", "the corpus is empty, expected a sentence pair or more");
    const index_t longest = std::min(options.max_length, options.tokens_per_batch);
    for (index_t i = 0; i < pairs_.size(); ++i)
      if (length(i) <= longest) kept_.push_back(i);
    check_value(!kept_.empty(), "Batches", "none of ", pairs_.size(), " pairs has at most ", longest, " tokens on each side");
    check_value(size() <= largest, "Batches", "more than ", largest, " pairs");
  }

  /// What it was made of.
  [[nodiscard]] const EncodedPairs& pairs() const { return pairs_; }
  [[nodiscard]] const BatchOptions& options() const { return options_; }
  /// Pairs that an epoch has.
  [[nodiscard]] index_t size() const { return count_of(kept_); }
  /// The numbers of these pairs, in their order.
  [[nodiscard]] std::span<const index_t> kept() const { return kept_; }
  /// Pairs that were left out because a side is too long.
  [[nodiscard]] index_t dropped() const { return pairs_.size() - size(); }

  /// Tokens on the longest side of a pair that is not left out, those at its end included.
  [[nodiscard]] index_t longest() const {
    index_t longest = 0;
    for (const index_t i : kept_) longest = std::max(longest, length(i));
    return longest;
  }
  /// The labels of these pairs: their target tokens, end tokens included.
  [[nodiscard]] index_t labels(std::span<const index_t> pairs) const {
    index_t count = 0;
    for (const index_t i : pairs) count += target_length(i);
    return count;
  }

  /// The tokens of these pairs, of both sides.
  [[nodiscard]] index_t tokens(std::span<const index_t> pairs) const {
    index_t count = 0;
    for (const index_t i : pairs) count += tokens(i);
    return count;
  }

  /// The batches of epoch 0, 1, 2, ...
  [[nodiscard]] Epoch epoch(index_t number) const {
    // A key of its own, so that the order of batches has nothing to do with weights and dropout drawn from the same seed.
    Generator random(options_.seed ^ 0x62617463686573);
    random.restore(random.seed(), static_cast<std::uint64_t>(number) * 2);
    std::vector<index_t> order = kept_;
    shuffle(order, random.next());
    return shuffled(fill(std::move(order)), random.next());
  }
  /// The same batches in an order that is always the same, for validation.
  [[nodiscard]] Epoch in_order() const { return fill(kept_); }

  /// Cuts pairs into `count` parts of about the same number of tokens, in their order; empty ones if there are few pairs.
  [[nodiscard]] std::vector<std::span<const index_t>> cut(std::span<const index_t> pairs, index_t count) const {
    const index_t total = tokens(pairs);
    index_t before = 0;
    std::size_t first = 0, k = 0;
    std::vector<std::span<const index_t>> parts;
    for (index_t part = 0; part < count; ++part, first = k) {
      for (; k < pairs.size(); ++k) {
        const index_t n = tokens(pairs[k]);
        if ((2 * before + n) * count / (2 * total) > part) break;  // the part in which the pair's middle lies
        before += n;
      }
      parts.push_back(pairs.subspan(first, k - first));
    }
    return parts;
  }
  /// The passes for one of `count` parts of a batch: its share of the `accumulate` passes, rounded up, or fewer.
  [[nodiscard]] std::vector<std::span<const index_t>> passes(std::span<const index_t> part, index_t count = 1) const {
    auto list = cut(part, (options_.accumulate + count - 1) / count);
    std::erase_if(list, [](const auto& pass) { return pass.empty(); });
    return list;
  }

  /// The pairs as one ragged batch: source ids and what they end with; bos and target ids; and as labels target ids and eos.
  template <Device D = Cpu>
  [[nodiscard]] nn::Batch<D> make(std::span<const index_t> pairs) const {
    std::vector<token_t> source, target, labels;
    std::vector<index_t> source_lengths, target_lengths;
    for (const index_t i : pairs) {
      const auto from = pairs_.source(i), to = pairs_.target(i);
      source.insert(source.end(), from.begin(), from.end());
      source.insert(source.end(), options_.source_end.begin(), options_.source_end.end());
      target.push_back(bos_);
      target.insert(target.end(), to.begin(), to.end());
      labels.insert(labels.end(), to.begin(), to.end());
      labels.push_back(eos_);
      source_lengths.push_back(source_length(i));
      target_lengths.push_back(target_length(i));
    }
    return {.source = on_device<D>(source),
            .source_segments = Segments::ragged(source_lengths),
            .target = on_device<D>(target),
            .target_segments = Segments::ragged(target_lengths),
            .labels = on_device<D>(labels)};
  }

 private:
  static constexpr index_t largest = index_t{1} << 30;  // products of two of these fit into index_t

  [[nodiscard]] index_t source_length(index_t i) const { return count_of(pairs_.source(i)) + count_of(options_.source_end); }
  [[nodiscard]] index_t target_length(index_t i) const { return count_of(pairs_.target(i)) + 1; }
  [[nodiscard]] index_t length(index_t i) const { return std::max(source_length(i), target_length(i)); }
  [[nodiscard]] index_t tokens(index_t i) const { return source_length(i) + target_length(i); }

  /// Fisher and Yates's; the standard library's shuffle differs between platforms.
  static void shuffle(std::vector<index_t>& list, const Generator::Stream& random) {
    for (std::size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[random.below(i, i)]);
  }

  [[nodiscard]] Epoch fill(std::vector<index_t> order) const {
    const auto bucket = [&](index_t i) { return options_.bucket_width == 0 ? 0 : (length(i) - 1) / options_.bucket_width; };
    std::stable_sort(order.begin(), order.end(), [&](index_t a, index_t b) { return bucket(a) < bucket(b); });
    const index_t limit = options_.tokens_per_batch * options_.accumulate;
    Epoch epoch;
    index_t source = 0, target = 0;
    for (std::size_t k = 0; k < order.size(); ++k) {
      source += source_length(order[k]), target += target_length(order[k]);
      if (std::max(source, target) <= limit) continue;
      epoch.begin.push_back(k);
      source = source_length(order[k]), target = target_length(order[k]);
    }
    epoch.begin.push_back(count_of(order));
    epoch.pairs = std::move(order);
    return epoch;
  }

  static Epoch shuffled(const Epoch& epoch, const Generator::Stream& random) {
    std::vector<index_t> order(epoch.size());
    std::iota(order.begin(), order.end(), index_t{0});
    shuffle(order, random);
    Epoch result;
    result.pairs.reserve(epoch.pairs.size());
    for (const index_t b : order) {
      const auto batch = epoch[b];
      result.pairs.insert(result.pairs.end(), batch.begin(), batch.end());
      result.begin.push_back(count_of(result.pairs));
    }
    return result;
  }

  template <Device D>
  static Tensor<token_t, D> on_device(const std::vector<token_t>& tokens) {
    return Tensor<token_t>({count_of(tokens)}, std::span<const token_t>(tokens)).template to<D>();
  }

  EncodedPairs pairs_;
  std::vector<index_t> kept_;
  token_t bos_, eos_;
  BatchOptions options_;
};

}  // namespace attend::train
