#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "attend/core/types.hpp"

namespace attend {

/// Philox4x32-10: four random words from a 128-bit counter and a 64-bit key. It has no state, so element i of a tensor gets the
/// same numbers on every device and with any number of threads. Source: Salmon et al. 2011, "Parallel random numbers: as easy
/// as 1, 2, 3".
inline std::array<std::uint32_t, 4> philox(std::uint64_t key, std::uint64_t stream, std::uint64_t index) {
  auto c0 = static_cast<std::uint32_t>(index), c1 = static_cast<std::uint32_t>(index >> 32);
  auto c2 = static_cast<std::uint32_t>(stream), c3 = static_cast<std::uint32_t>(stream >> 32);
  auto k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * c0, b = std::uint64_t{0xCD9E8D57} * c2;
    c0 = static_cast<std::uint32_t>(b >> 32) ^ c1 ^ k0;
    c1 = static_cast<std::uint32_t>(b);
    c2 = static_cast<std::uint32_t>(a >> 32) ^ c3 ^ k1;
    c3 = static_cast<std::uint32_t>(a);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return {c0, c1, c2, c3};
}

/// A uniform number in [0, 1) with 24 random bits, exact in float.
inline double to_uniform(std::uint32_t word) { return static_cast<double>(word >> 8) * 0x1p-24; }

/// One seed and a count of the streams drawn so far: all that a checkpoint must keep for the same numbers to follow.
/// Every tensor of random numbers (an initial weight, one dropout mask) takes a stream of its own.
class Generator {
 public:
  /// The key and the stream number that one tensor of random numbers is made from.
  struct Stream {
    std::uint64_t key, stream;
    /// The four words that elements 4 * index to 4 * index + 3 get.
    [[nodiscard]] std::array<std::uint32_t, 4> words(std::uint64_t index) const { return philox(key, stream, index); }
    /// The word of element i.
    [[nodiscard]] std::uint32_t word(std::uint64_t i) const { return words(i / 4)[i % 4]; }
    [[nodiscard]] double uniform(std::uint64_t i) const { return to_uniform(word(i)); }
    /// Standard normal, by Box and Muller's transform of two words of counter i.
    [[nodiscard]] double normal(std::uint64_t i) const {
      const auto w = words(i);
      const double radius = std::sqrt(-2.0 * std::log(1.0 - to_uniform(w[0])));
      return radius * std::cos(2.0 * std::numbers::pi * to_uniform(w[1]));
    }
    /// A whole number in [0, n), 0 < n <= 2^32: the high word of a product, biased by less than n / 2^32.
    [[nodiscard]] std::uint64_t below(std::uint64_t i, std::uint64_t n) const { return (std::uint64_t{words(i)[0]} * n) >> 32; }
  };

  /// A generator that has drawn nothing yet.
  explicit Generator(std::uint64_t seed = 0) : seed_(seed) {}
  /// The next stream, which nobody has drawn from.
  Stream next() { return {seed_, drawn_++}; }
  /// The seed, and how many streams were drawn: what `restore` goes back to.
  [[nodiscard]] std::uint64_t seed() const { return seed_; }
  [[nodiscard]] std::uint64_t drawn() const { return drawn_; }
  /// Goes to where a generator of this seed stands after `drawn` streams.
  void restore(std::uint64_t seed, std::uint64_t drawn) { seed_ = seed, drawn_ = drawn; }

 private:
  std::uint64_t seed_, drawn_ = 0;
};

/// The generator of this thread that initial weights and dropout draw from.
inline Generator& default_generator() {
  thread_local Generator generator;
  return generator;
}

/// While one stands in scope, drawing from this thread's generator leaves no trace: afterwards it stands where it stood.
class GeneratorScope {
 public:
  GeneratorScope() : before_(default_generator()) {}
  ~GeneratorScope() { default_generator() = before_; }
  GeneratorScope(const GeneratorScope&) = delete;
  GeneratorScope& operator=(const GeneratorScope&) = delete;

 private:
  Generator before_;
};

/// Starts this thread's generator anew: the same seed gives the same weights and the same dropout masks.
inline void seed(std::uint64_t value) { default_generator().restore(value, 0); }

}  // namespace attend
