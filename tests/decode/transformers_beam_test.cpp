#include <cmath>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "attend/decode/beam.hpp"
#include "catch.hpp"
#include "scripted_model.hpp"

using namespace attend;
using namespace attend::decode;
using scripted::logs;
using scripted::never;

/// What beam search of Python's `transformers` finds on a model that both sides can compute. The cases are printed by
/// transformers_beam.py, next to this file.
namespace {

constexpr index_t vocabulary = 8;

using Tokens = std::vector<token_t>;

/// log_softmax of numbers that come of the seed and all tokens so far, the first of which is the sentence's own.
scripted::Script hashed(std::uint64_t seed) {
  return [=](index_t sentence, const std::vector<token_t>& prefix) {
    std::uint64_t state = seed;
    const auto add = [&](std::uint64_t token) { state = state * 6364136223846793005u + token + 1442695040888963407u; };
    add(sentence == 0 ? 1 : 0);
    for (const token_t token : prefix) add(static_cast<std::uint64_t>(token));
    std::vector<double> x;
    double sum = 0;
    for (std::uint64_t v = 1; v <= vocabulary; ++v) {
      std::uint64_t h = state + v * 0x9E3779B97F4A7C15u;
      h = (h ^ (h >> 31)) * 0xBF58476D1CE4E5B9u;
      h ^= h >> 29;
      x.push_back(static_cast<double>(h % 4096) / 1024);
      sum += std::exp(x.back());
    }
    for (double& value : x) value -= std::log(sum);
    return x;
  };
}

/// Of two sentences, what was found and how it scores; a token is a digit, and 2 ends what is finished.
const char* const found[] = {
    "2 -1.13820 32 -4.67180 442 -4.94160 / 2 -0.80786 752 -6.09029 535472 -7.56349 /",
    "4542 -5.89618 454432 -6.79626 475752 -6.84027 / 472 -3.31902 4372 -4.18583 474672 -5.41756 /",
    "2 -2.14084 662 -4.45187 762 -4.46886 / 674662 -8.08092 666432 -8.13210 677766 -8.41965 /",
    "42 -2.76094 62 -3.16572 462 -4.61644 / 2 -2.60613 52 -4.15620 772 -5.03330 /",
    "72 -2.77399 753645 -6.23204 753642 -6.27989 / 566456 -6.92729 376662 -7.15009 376667 -7.32978 /",
    "2 -1.06690 42 -3.59199 646472 -6.26852 / 42 -2.83274 536372 -6.17270 344652 -6.58099 /",
    "757635 -1.03198 7572 -1.07609 753564 -1.10430 / 763464 -0.98953 752 -1.19635 763477 -1.20998 /",
    "467762 -0.88775 467362 -0.91641 46752 -1.00500 / 646532 -0.85587 646772 -0.90249 645742 -0.91220 /",
    "757762 -1.10496 757655 -1.17461 757567 -1.26106 / 46662 -1.21440 72 -1.32504 2 -1.55334 /",
    "562 -1.11613 72 -1.79294 2 -2.01394 / 544372 -0.96696 676672 -1.03792 544542 -1.06520 /",
    "446632 -1.02341 646754 -1.04782 646756 -1.08883 / 752 -1.17836 435665 -1.24258 435347 -1.25316 /",
    "556362 -0.93173 657542 -0.97950 556342 -0.98463 / 2 -0.91649 643772 -0.93899 643732 -1.04690 /",
    "2 -1.97689 32 -4.16030 36562 -13.23867 / 672 -6.21500 732 -7.89442 7332 -11.79949 /",
    "742 -5.75491 754552 -13.59250 754572 -14.62109 / 52 -2.18025 72 -2.62960 75752 -15.46115 /",
    "2 -1.75609 3332 -8.97002 33352 -12.48297 / 2 -1.27884 32 -4.12052 4732 -8.60833 /",
    "542 -5.54650 67472 -11.68993 674762 -14.42512 / 62 -2.63549 432 -6.91112 6732 -9.96677 /",
    "2 -1.03420 62 -3.52023 647476 -13.59784 / 62 -4.20973 477663 -15.08722 477343 -16.99546 /",
    "2 -1.71827 632 -6.22141 633732 -15.04373 / 2 -3.10374 432 -9.49065 652 -10.83128 /",
    "545573 -0.18359 545576 -0.19663 545572 -0.19916 / 366433 -0.22352 534755 -0.22356 534436 -0.22381 /",
    "546562 -0.18247 546662 -0.18768 546672 -0.19614 / 764672 -0.17912 764662 -0.18021 664672 -0.19283 /",
    "4332 -0.30216 4342 -0.30832 42 -0.68804 / 3732 -0.30191 332 -0.38876 2 -2.78827 /",
    "352 -0.42245 452 -0.50026 72 -0.68626 / 367552 -0.15147 367562 -0.15671 367472 -0.16893 /",
    "345675 -0.20134 343375 -0.22402 345674 -0.22695 / 564676 -0.18545 564675 -0.18583 564677 -0.18756 /",
    "637462 -0.16648 634362 -0.17238 637442 -0.17744 / 464532 -0.15489 467452 -0.16682 464542 -0.17190 /",
    "2 -0.73197 465372 -1.73819 / 2 -1.13030 72 -1.95014 /",
    "664535742 -1.02385 664535732 -1.10750 / 5337662 -1.11142 533766467 -1.25144 /",
    "72 -0.99571 52 -1.20663 756574 -1.38953 / 646775 -1.25456 62 -1.27262 646742 -1.28197 /",
    "465742 -1.01861 444642 -1.04647 465762 -1.13368 / 2 -0.67112 677772 -1.18759 474672 -1.23652 /",
    "365342 -1.06502 36532 -1.09317 677674 -1.10511 36632 -1.14840 / 357372 -1.12015 643446 -1.15008 357375 -1.20023 337433 "
    "-1.22498 /",
    "453572 -0.88021 453352 -1.13397 453362 -1.15089 475642 -1.20837 / 375662 -1.05455 353772 -1.07602 375752 -1.13263 373742 "
    "-1.13898 /",
};

/// How each of them was searched: 3 hypotheses, of up to 6 tokens with the end token, which follows in any case if `forced`.
BeamOptions searched(double length_penalty, Stop stop, bool forced) {
  return {.max_length = forced ? 5 : 6,
          .suppressed = {0, 1},
          .beam = 3,
          .n_best = 3,
          .alpha = length_penalty,
          .normalization = LengthNormalization::marian,
          .stop = stop,
          .keep_unfinished = !forced,
          .constraints = {.force_end = forced}};
}
std::vector<BeamOptions> all_searched() {
  std::vector<BeamOptions> all;
  for (const double penalty : {0.0, 1.0, -0.5, 2.0})
    for (const auto stop : {Stop::present_length, Stop::first, Stop::exact})
      for (const bool forced : {false, true}) all.push_back(searched(penalty, stop, forced));
  const auto add = [&](bool forced) -> BeamOptions& {
    all.push_back(searched(1, Stop::present_length, forced));
    return all.back();
  };
  for (const index_t n : {1, 2}) {
    auto& o = add(n == 1);
    o.max_length = n == 1 ? 8 : 9, o.beam = o.n_best = 2, o.constraints.no_repeat_ngram = n;
  }
  for (const bool forced : {false, true}) add(forced).constraints.banned = {{3}, {4, 5}, {6, 7, 6}};
  for (const bool forced : {false, true}) {
    auto& o = add(forced);
    o.min_length = 4, o.beam = o.n_best = 4;
  }
  return all;
}

}  // namespace

TEST_CASE("the three ways to stop differ as they say", "[beam]") {
  const auto best = [](scripted::Model<double>& model, const BeamOptions& how) {
    auto state = model.begin({0});
    return beam_search(model, state, 1, how)[0][0].tokens;
  };
  // 3 ends at once with probability 0.5; 4 4 4 ... gets ever surer of itself and its long end has the best score by far.
  scripted::Model<double> model(5, [](index_t, const Tokens& prefix) {
    if (prefix.empty()) return logs({0, 0, 0, 0.6, 0.4});
    if (prefix[0] == 3) return logs({0, 0, 0.5, 0.5, 0});
    return prefix.size() < 6 ? logs({0, 0, 0, 0, 1}) : logs({0, 0, 1, 0, 0});
  });
  BeamOptions options{.max_length = 8, .beam = 2, .alpha = 1, .normalization = LengthNormalization::marian, .stop = Stop::first};
  REQUIRE(best(model, options) == Tokens{3});
  options.stop = Stop::exact;
  REQUIRE(best(model, options) == Tokens{4, 4, 4, 4, 4, 4});
  // One live hypothesis, 0.04 then 1, 1, ...: at its present length it cannot beat what has ended, at its last it can.
  scripted::Model<double> sure(5, [](index_t, const Tokens& prefix) {
    if (prefix.empty()) return logs({0, 0, 0.5, 0, 0.5});
    if (prefix.size() == 1) return logs({0, 0, 0.9, 0, 0.1});
    return prefix.size() < 8 ? logs({0, 0, 0, 0, 1}) : logs({0, 0, 1, 0, 0});
  });
  options.stop = Stop::present_length;
  REQUIRE(best(sure, options) == Tokens{4});
  options.stop = Stop::exact;
  REQUIRE(best(sure, options) == Tokens(8, 4));
  // -1.8 over 4, at the last length that there is, is better than -0.5; over 3 it would not be.
  scripted::Model<double> late(5, [](index_t, const Tokens& prefix) {
    return prefix.empty()       ? std::vector<double>{never, never, -0.5, never, -1.8}
           : prefix.size() == 3 ? logs({0, 0, 1, 0, 0})
                                : logs({0, 0, 0, 0, 1});
  });
  options.max_length = 3;
  REQUIRE(best(late, options) == Tokens(3, 4));
}

TEST_CASE("beam search finds what that of transformers finds, within every way to stop and to end", "[beam]") {
  const auto all = all_searched();
  REQUIRE(all.size() == std::size(found));
  for (std::size_t c = 0; c < all.size(); ++c) {
    INFO("case " << c);
    scripted::Model<double> model(vocabulary, hashed(c));
    auto state = model.begin({0, 1});
    const auto lists = beam_search(model, state, 2, all[c]);
    std::istringstream expected(found[c]);
    std::string text;
    double score = 0;
    for (const auto& list : lists) {
      REQUIRE(static_cast<index_t>(list.size()) == all[c].n_best);
      for (const Hypothesis& h : list) {
        std::string got;
        for (const token_t token : h.tokens) got += static_cast<char>('0' + token);
        expected >> text >> score;
        REQUIRE(got + (h.finished ? "2" : "") == text);
        REQUIRE(h.score == Approx(score).margin(2e-5));
      }
      expected >> text;
      REQUIRE(text == "/");
    }
  }
}
