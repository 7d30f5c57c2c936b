#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "attend/core/random.hpp"
#include "attend/decode/model.hpp"

/// A model for tests whose distributions are a plain function of the sentence and the prefix.
namespace scripted {

using attend::index_t;
using attend::token_t;

inline constexpr double never = -std::numeric_limits<double>::infinity();

/// The log-probabilities of the next token; the prefix holds no begin token.
using Script = std::function<std::vector<double>(index_t sentence, const std::vector<token_t>& prefix)>;

/// Probabilities as log-probabilities.
inline std::vector<double> logs(std::vector<double> probabilities) {
  for (double& p : probabilities) p = std::log(p);
  return probabilities;
}

/// Random distributions that depend on the whole prefix; the larger `sharpness`, the further from uniform.
inline Script random_script(std::uint64_t seed, index_t vocabulary, double sharpness) {
  return [=](index_t sentence, const std::vector<token_t>& prefix) {
    std::uint64_t hash = 1000 + static_cast<std::uint64_t>(sentence);
    for (const token_t token : prefix)
      hash = hash * 6364136223846793005u + static_cast<std::uint64_t>(token) + 1442695040888963407u;
    const attend::Generator::Stream stream{seed, hash};
    std::vector<double> x(static_cast<std::size_t>(vocabulary));
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) sum += std::exp(x[i] = sharpness * stream.normal(i));
    for (double& v : x) v -= std::log(sum);
    return x;
  };
}

template <class T>
class Model {
 public:
  using value_type = T;
  using device_type = attend::Cpu;
  struct Row {
    index_t sentence;
    std::vector<token_t> tokens;  // the first is the begin token
  };
  using State = std::vector<Row>;

  Model(index_t vocabulary, Script script) : vocabulary_(vocabulary), script_(std::move(script)) {}

  /// One row for each of the given sentences.
  [[nodiscard]] State begin(const std::vector<index_t>& sentences) const {
    State state;
    for (const index_t s : sentences) state.push_back({s, {}});
    return state;
  }
  [[nodiscard]] index_t vocabulary() const { return vocabulary_; }

  attend::Tensor<T> step(State& state, std::span<const token_t> tokens) {
    if (tokens.size() != state.size()) throw std::logic_error("step: not one token a row");
    rows_per_step.push_back(static_cast<index_t>(tokens.size()));
    attend::Tensor<T> x({static_cast<index_t>(state.size()), vocabulary_});
    for (std::size_t r = 0; r < state.size(); ++r) {
      state[r].tokens.push_back(tokens[r]);
      if (state[r].tokens.front() != 1) throw std::logic_error("step: a prefix does not begin with the begin token");
      const auto& values = after(state[r]);
      if (static_cast<index_t>(values.size()) != vocabulary_) throw std::logic_error("step: a script of another vocabulary");
      std::transform(values.begin(), values.end(), x.data() + static_cast<index_t>(r) * vocabulary_,
                     [](double v) { return static_cast<T>(v); });
    }
    return x;
  }
  void reorder(State& state, std::span<const index_t> rows) {
    State next;
    for (const index_t r : rows) next.push_back(state.at(static_cast<std::size_t>(r)));
    state = std::move(next);
  }

  std::vector<index_t> rows_per_step;

 private:
  const std::vector<double>& after(const Row& row) {
    auto& values = known_[{row.sentence, row.tokens}];
    if (values.empty()) values = script_(row.sentence, {row.tokens.begin() + 1, row.tokens.end()});
    return values;
  }

  index_t vocabulary_;
  Script script_;
  std::map<std::pair<index_t, std::vector<token_t>>, std::vector<double>> known_;
};

}  // namespace scripted
