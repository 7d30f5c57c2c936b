#pragma once

#include <functional>
#include <string>
#include <vector>

#include "attend/cuda.hpp"
#include "attend/ops/dropout.hpp"
#include "inputs.hpp"
#include "timing.hpp"

/// The kernels one by one, on arrays that no cache holds.
namespace gpu {

/// What the kernels work on: about what a step of the base model with 25,000 tokens has.
struct Sizes {
  index_t rows, width, hidden, vocabulary;
  index_t logits_rows;    ///< rows that are as wide as the vocabulary
  index_t weights;        ///< of a model
  std::size_t in_caches;  ///< bytes that could still be there from the last call
};
inline constexpr Sizes large{25000, 512, 2048, 32000, 4096, index_t{60} << 20, std::size_t{256} << 20};
inline constexpr Sizes small{50, 32, 64, 96, 8, 1024, 0};

/// What a call reads and writes at least, each array once, and what it multiplies and adds; the latter 0 if that is little.
struct Amount {
  double bytes = 0, flops = 0;
};

/// Bytes of so many numbers of type T.
template <class T>
double bytes_of(index_t count) {
  return static_cast<double>(count) * sizeof(T);
}

/// Times the kernels whose names hold `filter`.
class Bench {
 public:
  Bench(const Sizes& s, std::string filter) : sizes(s), filter_(std::move(filter)) {}

  /// `make()` gives a call that works on arrays of its own: there are so many of them, called in turn, that none finds anything
  /// of its arrays in a cache.
  template <class Make>
  void measure(const std::string& name, const Amount& amount, Make&& make) const {
    if (name.find(filter_) == std::string::npos) return;
    std::vector<std::function<void()>> calls;
    const double sets = static_cast<double>(sizes.in_caches) / amount.bytes;
    while (calls.size() < 2 || (static_cast<double>(calls.size()) < sets && calls.size() < 32)) calls.push_back(make());
    const double seconds = device_seconds(21, sizes.in_caches ? 2e-3 : 0, [&] {
      for (const auto& call : calls) call();
    });
    const double each = seconds / static_cast<double>(calls.size());
    Line().add("kernel", name).add("seconds", each).add("bytes", amount.bytes).add("flops", amount.flops).print();
    calls.clear();
    release_cached(Cuda{});
  }

  const Sizes sizes;

 private:
  std::string filter_;
};

/// The mask of a dropout of 0.1.
inline attend::DropoutMask mask() { return attend::detail::next_mask(0.1, attend::default_generator()); }

void elements(const Bench& bench);   ///< what goes over numbers one by one
void rows(const Bench& bench);       ///< what goes over rows
void attention(const Bench& bench);  ///< attention
void products(const Bench& bench);   ///< products with what may be taken along

}  // namespace gpu
