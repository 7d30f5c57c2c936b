// What the machine could do at most: fused multiply-adds in registers, in all threads at once, memory never touched.

#include <algorithm>
#include <numeric>
#include <vector>

#include "attend/core/tensor.hpp"
#include "attend/core/threads.hpp"
#include "attend/cpu/gemm.hpp"
#include "parts.hpp"
#include "worker.hpp"

using namespace attend;

namespace compare {

namespace {

using Vector = cpu::Vector<float>;  // the widest that the compiler's flags allow
constexpr index_t width = cpu::width<float>;
constexpr std::size_t chains = 12;  // enough to cover the latency, few enough for 16 registers

/// `rounds` times a multiply-add in each chain. Gives a number that depends on all of them.
float multiply_add(index_t rounds, float start) {
  Vector sums[chains];  // an array of the library would warn that it drops the type's attributes
  for (std::size_t c = 0; c < chains; ++c) sums[c] = Vector{} + start + static_cast<float>(c);
  const Vector factor = Vector{} + 0.999f, summand = Vector{} + 0.001f;
  for (index_t i = 0; i < rounds; ++i)
    for (auto& sum : sums) sum = sum * factor + summand;
  Vector total = sums[0];
  for (std::size_t c = 1; c < chains; ++c) total += sums[c];
  float numbers[width];
  cpu::store<float>(numbers, total);
  return std::accumulate(numbers, numbers + width, 0.0f);
}

/// Matrix products that stay in the caches, in all threads, for so long.
void multiply_matrices(double seconds) {
  constexpr index_t size = 128;
  parallel_for(threads(), 1, [&](index_t begin, index_t end) {
    for (index_t t = begin; t < end; ++t) {
      const Tensor<float> a({size, size}, 0.5f), c({size, size});
      for (const Stopwatch watch; watch.real() < seconds;)
        cpu::gemm_block<float>({a.data(), size, size}, {a.data(), size, size}, {c.data(), size, size});
    }
  });
}

}  // namespace

/// Prints the seconds that a given number of operations took, once, {"flops", "real", "cpu"}; and "loaded", the same right after
/// half a second of products, for which processors lower their clock: what is left for whoever multiplies all the time.
void ceiling(Arguments) {
  constexpr index_t rounds = 4'000'000;
  std::vector<float> results(static_cast<std::size_t>(threads()));
  const auto run = [&] {
    const Stopwatch watch;
    parallel_for(threads(), 1, [&](index_t begin, index_t end) {
      for (index_t t = begin; t < end; ++t) results[static_cast<std::size_t>(t)] = multiply_add(rounds, static_cast<float>(t));
    });
    return watch.per(1);
  };
  run();  // until the threads are awake and the clock is where it stays
  Json answer = run();
  multiply_matrices(0.5);
  answer["loaded"] = run();
  answer["flops"] = 2.0 * static_cast<double>(rounds * width * threads()) * static_cast<double>(chains);
  answer["check"] = *std::max_element(results.begin(), results.end());  // so that nothing of it can be left out
  std::cout << answer << std::endl;
}

}  // namespace compare
