// What the machine could do at most: fused multiply-adds in registers, in all threads at once, memory never touched.

#include <algorithm>
#include <numeric>
#include <vector>

#include "attend/core/threads.hpp"
#include "attend/cpu/simd.hpp"
#include "parts.hpp"
#include "worker.hpp"

namespace compare {

namespace {

using Vector = attend::cpu::Vector<float>;  // the widest that the compiler's flags allow
constexpr attend::index_t width = attend::cpu::width<float>;
constexpr std::size_t chains = 12;  // enough to cover the latency, few enough for 16 registers

/// `rounds` times a multiply-add in each chain. Gives a number that depends on all of them.
float multiply_add(attend::index_t rounds, float start) {
  Vector sums[chains];  // an array of the library would warn that it drops the type's attributes
  for (std::size_t c = 0; c < chains; ++c) sums[c] = Vector{} + start + static_cast<float>(c);
  const Vector factor = Vector{} + 0.999f, summand = Vector{} + 0.001f;
  for (attend::index_t i = 0; i < rounds; ++i)
    for (auto& sum : sums) sum = sum * factor + summand;
  Vector total = sums[0];
  for (std::size_t c = 1; c < chains; ++c) total += sums[c];
  float numbers[width];
  attend::cpu::store<float>(numbers, total);
  return std::accumulate(numbers, numbers + width, 0.0f);
}

}  // namespace

/// Prints the seconds that a given number of operations took, once: {"flops", "real", "cpu"}.
void ceiling(Arguments) {
  constexpr attend::index_t rounds = 4'000'000;
  const attend::index_t threads = attend::threads();
  std::vector<float> results(static_cast<std::size_t>(threads));
  const auto run = [&](attend::index_t n) {
    attend::parallel_for(threads, 1, [&](attend::index_t begin, attend::index_t end) {
      for (attend::index_t t = begin; t < end; ++t) results[static_cast<std::size_t>(t)] = multiply_add(n, static_cast<float>(t));
    });
  };
  run(rounds);  // until the threads are awake and the clock is where it stays
  const Stopwatch watch;
  run(rounds);
  Json answer = watch.per(1);
  answer["flops"] = 2.0 * static_cast<double>(rounds * width * threads) * static_cast<double>(chains);
  answer["check"] = *std::max_element(results.begin(), results.end());  // so that nothing of it can be left out
  std::cout << answer << std::endl;
}

}  // namespace compare
