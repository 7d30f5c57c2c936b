#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "attend/autograd/var.hpp"
#include "attend/core/random.hpp"
#include "attend/cpu/sample.hpp"
#include "attend/decode/adjust.hpp"
#include "attend/decode/hypothesis.hpp"
#include "attend/decode/model.hpp"
#include "attend/decode/options.hpp"
#include "attend/decode/results.hpp"

namespace attend::decode {

namespace detail {

/// Throws ValueError if an option of sampling is out of its range.
inline void check_sampling(const SampleOptions& o, index_t sentences) {
  check_value(sentences == 0 || o.samples <= std::numeric_limits<std::int32_t>::max() / sentences, "sample", o.samples,
              " samples of ", sentences, " sentences are too many");
  check_value(o.sentence_ids.empty() || count_of(o.sentence_ids) == sentences, "sample", "sentence_ids has ",
              o.sentence_ids.size(), " values for ", sentences, " sentences");
}

/// A number in [0, 1) with 53 random bits that depends on the seed, the sentence, which of its samples, and the step alone.
inline double sampling_uniform(std::uint64_t seed, std::uint64_t sentence, index_t sample, index_t step) {
  const auto words = philox(seed, sentence, (static_cast<std::uint64_t>(sample) << 32) ^ static_cast<std::uint64_t>(step));
  return static_cast<double>((std::uint64_t{words[0]} << 21) ^ (words[1] >> 11)) * 0x1p-53;
}

}  // namespace detail

/// For each of the `sentences` rows of `state`, `samples` hypotheses, in the order they were drawn, each token drawn at random
/// from the model's distribution as temperature, top_k, top_p and min_p shape it. The probabilities in the result are those
/// before that. Eos counts as in `greedy`: a hypothesis of max_length tokens is finished if eos is drawn next.
///
/// The draws of a sentence are keyed by the seed, its number (`sentence_ids`), the sample and the step, so they do not depend on
/// its batch, and with a larger `samples` the first ones stay the same. The first step works on one row per sentence; what is
/// finished leaves the state at once. The state is used up.
/// Throws ValueError, IndexError for bad options, ValueError for a prefix that the model gives no probability, Error if a
/// log-probability is NaN.
template <StepModel M>
Results<Results<Hypothesis>> sample(M& model, typename M::State& state, index_t sentences, const SampleOptions& options = {}) {
  using T = typename M::value_type;
  using D = typename M::device_type;
  const index_t vocabulary = model.vocabulary();
  check_value(options.temperature != 0, "sample",
              "temperature is 0, expected more than 0; for the most probable tokens use greedy");
  detail::check_options("sample", options, vocabulary, sentences);
  detail::check_constraints("sample", options, vocabulary, sentences);
  detail::check_sampling(options, sentences);
  const NoGrad no_grad;

  struct Draw {
    index_t sentence, sample;
  };
  Results<Results<Hypothesis>> results(sentences);
  std::vector<Draw> draws;
  std::vector<index_t> row_of_draw, kept;  // in the first step the samples of a sentence share its row
  for (index_t s = 0; s < sentences; ++s)
    for (index_t i = 0; i < options.samples; ++i) {
      draws.push_back({s, i});
      row_of_draw.push_back(s);
    }
  for (auto& list : results) list.resize(options.samples);
  std::vector<token_t> tokens(results.size(), options.bos);
  std::vector<double> uniforms;
  detail::Adjust<T, D, SampleOptions> adjust("sample", options, vocabulary);
  index_t length = 0;
  const auto prefix_of = [&](index_t row, std::vector<token_t>& prefix) {
    if (length == 0) return row;
    const Draw d = nth(draws, row);
    prefix = nth(nth(results, d.sentence), d.sample).tokens;
    return d.sentence;
  };

  for (; !draws.empty(); ++length) {
    const auto log_probabilities = detail::checked_step("sample", model, state, tokens);  // [rows, vocabulary]
    adjust(length, log_probabilities, prefix_of);
    uniforms.clear();
    for (const Draw& d : draws) {
      const auto place = static_cast<std::size_t>(d.sentence);
      const std::uint64_t id = options.sentence_ids.empty() ? place : options.sentence_ids[place];
      uniforms.push_back(detail::sampling_uniform(options.seed, id, d.sample, length));
    }
    const auto count = count_of(draws), rows = count_of(tokens);
    const Tensor<T, D> drawn_values({count});
    const Tensor<token_t, D> drawn_tokens({count});
    std::vector<std::vector<float>> whole;  // rows, if they are asked for
    if (options.distributions) whole = detail::rows_of(log_probabilities);
    sample_rows(D{}, {options.temperature, options.top_k, options.top_p, options.min_p},
                {count, row_of_draw.data(), uniforms.data()}, as_rows(log_probabilities), drawn_values.data(),
                drawn_tokens.data());
    const auto values = drawn_values.to_host();
    const auto choices = drawn_tokens.to_host();

    kept.clear();
    tokens.clear();
    for (index_t i = 0; i < count; ++i) {
      const Draw d = nth(draws, i);
      Hypothesis& result = nth(nth(results, d.sentence), d.sample);
      const token_t token = choices.data()[i];
      const bool end = detail::is_end(options, token);
      if (token < 0 || (!end && length == options.max_length[d.sentence])) continue;
      const double value = detail::checked_log_probability("sample", static_cast<double>(values.data()[i]), token);
      result.log_probability += value;
      result.token_log_probabilities.push_back(static_cast<float>(value));
      if (options.distributions)  // a copy: in the first step several draw from it
        result.distributions.push_back(nth(whole, nth(row_of_draw, i)));
      result.finished = end;
      if (end) result.end_token = token;
      else result.tokens.push_back(token);
      const bool go_on = detail::tell(options, d.sentence, d.sample, length, token, value);
      if (end || !go_on) continue;
      draws[kept.size()] = d;  // what is kept only moves forward, so this place has been read
      kept.push_back(nth(row_of_draw, i));
      tokens.push_back(token);
    }
    draws.resize(kept.size());
    row_of_draw.resize(kept.size());
    for (std::size_t i = 0; i < kept.size(); ++i) row_of_draw[i] = i;
    const bool unchanged = count_of(kept) == rows && kept == row_of_draw;
    if (!kept.empty() && !unchanged) model.reorder(state, std::span<const index_t>(kept));
  }
  for (auto& list : results)
    for (auto& result : list) result.score = result.log_probability;
  return results;
}

}  // namespace attend::decode
