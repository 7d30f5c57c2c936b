#pragma once

#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "attend/autograd/var.hpp"
#include "attend/decode/adjust.hpp"
#include "attend/decode/hypothesis.hpp"
#include "attend/decode/model.hpp"
#include "attend/decode/options.hpp"
#include "attend/decode/results.hpp"

namespace attend::decode {

/// For each of the `sentences` rows of `state`: the most probable token again and again, of equal ones the lowest, until that is
/// eos (or another end token) or the length limit is reached. A hypothesis of max_length tokens still counts as finished if eos
/// is what follows. A finished sentence leaves the state at once. The state is used up. The log-probability of an end that
/// `force_end` brought is 0, unless `score_forced_end`. Throws ValueError, IndexError for bad options, ValueError for a prefix
/// that the model gives no probability, Error if a log-probability is NaN.
template <StepModel M>
Results<Hypothesis> greedy(M& model, typename M::State& state, index_t sentences, const GreedyOptions& options = {}) {
  using T = typename M::value_type;
  using D = typename M::device_type;
  const index_t vocabulary = model.vocabulary();
  detail::check_options("greedy", options, vocabulary, sentences);
  detail::check_constraints("greedy", options, vocabulary, sentences);
  const NoGrad no_grad;

  Results<Hypothesis> results(sentences);
  std::vector<index_t> sentence_of_row(results.size()), kept;
  for (std::size_t i = 0; i < results.size(); ++i) sentence_of_row[i] = i;
  std::vector<token_t> tokens(results.size(), options.bos);
  Tensor<T, D> best({sentences});              // [rows at first]
  Tensor<token_t, D> best_token({sentences});  // [rows at first]
  detail::Adjust<T, D, GreedyOptions> adjust("greedy", options, vocabulary);
  const auto prefix_of = [&](index_t row, std::vector<token_t>& prefix) {
    const index_t sentence = nth(sentence_of_row, row);
    prefix = nth(results, sentence).tokens;
    return sentence;
  };

  for (index_t length = 0; !tokens.empty(); ++length) {
    const auto rows = count_of(tokens);
    std::vector<std::vector<float>> whole;  // rows, if they are asked for
    const auto values_of_rows = best.rows(0, rows);
    const auto tokens_of_rows = best_token.rows(0, rows);
    if (!adjust.step_to_best(model, state, tokens, length, values_of_rows, tokens_of_rows)) {
      const auto log_probabilities = detail::checked_step("greedy", model, state, tokens);  // [rows, vocabulary]
      adjust(length, log_probabilities, prefix_of);
      if (options.distributions) whole = detail::rows_of(log_probabilities);
      argmax(D{}, rows, vocabulary, log_probabilities.data(), values_of_rows.data(), tokens_of_rows.data());
    }
    const auto values = values_of_rows.to_host();
    const auto choices = tokens_of_rows.to_host();

    kept.clear();
    for (index_t row = 0; row < rows; ++row) {
      const index_t sentence = nth(sentence_of_row, row);
      Hypothesis& result = nth(results, sentence);
      const token_t token = choices.data()[row];
      const double value = detail::checked_log_probability("greedy", static_cast<double>(values.data()[row]), token);
      const bool end = detail::is_end(options, token);
      if (std::isinf(value) || (!end && length == options.max_length[sentence])) continue;
      result.log_probability += value;
      result.token_log_probabilities.push_back(static_cast<float>(value));
      if (options.distributions) result.distributions.push_back(std::move(nth(whole, row)));
      result.finished = end;
      if (end) result.end_token = token;
      else result.tokens.push_back(token);
      const bool go_on = detail::tell(options, sentence, 0, length, token, value);
      if (end || !go_on) continue;
      sentence_of_row[kept.size()] = sentence;  // rows only move forward, so this one has been read
      tokens[kept.size()] = token;
      kept.push_back(row);
    }
    sentence_of_row.resize(kept.size());
    tokens.resize(kept.size());
    if (!kept.empty() && count_of(kept) < rows) model.reorder(state, std::span<const index_t>(kept));
  }
  for (auto& result : results) result.score = result.log_probability;
  return results;
}

}  // namespace attend::decode
