#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

namespace demo {

/// SplitMix64 (Steele, Lea and Flood 2014): the same numbers everywhere, which the distributions of <random> do not promise.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }

  /// A number in [0, n); n is far too small for the bias of the remainder to show.
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(next() % n); }
  bool chance(int percent) { return below(100) < static_cast<std::size_t>(percent); }

  template <class T>
  const T& among(std::span<const T> choices) {
    return choices[below(choices.size())];
  }

  template <class T>
  T one_of(std::initializer_list<T> choices) {
    return choices.begin()[below(choices.size())];
  }

  /// An index, drawn in proportion to the weights.
  std::size_t weighted(std::initializer_list<int> weights) {
    int total = 0;
    for (const int weight : weights) total += weight;
    int left = static_cast<int>(below(static_cast<std::size_t>(total)));
    std::size_t index = 0;
    for (const int weight : weights) {
      if ((left -= weight) < 0) break;
      ++index;
    }
    return index;
  }

 private:
  std::uint64_t state_;
};

}  // namespace demo
