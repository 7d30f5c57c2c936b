#pragma once

#include <benchmark/benchmark.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "attend/autograd/var.hpp"
#include "attend/core/random.hpp"
#include "attend/core/segments.hpp"

/// What all benchmarks make their inputs from and register themselves with. `comparison/pytorch_operations.py` makes inputs of
/// the same sizes.

/// Standard normal numbers.
inline attend::Tensor<float> random_numbers(const attend::Shape& shape) {
  const auto random = attend::default_generator().next();
  const attend::Tensor<float> x(shape);
  for (attend::index_t i = 0; i < x.size(); ++i) x.data()[i] = static_cast<float>(random.normal(static_cast<std::uint64_t>(i)));
  return x;
}

/// The same as a parameter.
inline attend::Var<float> random_parameter(const attend::Shape& shape) { return attend::Var<float>(random_numbers(shape), true); }

/// Tokens from 3 (the first that is neither padding nor begin nor end) to the end of a vocabulary: [count].
inline attend::Tensor<attend::token_t> random_tokens(attend::index_t count, attend::index_t vocabulary) {
  const auto random = attend::default_generator().next();
  const attend::Tensor<attend::token_t> x({count});
  for (attend::index_t i = 0; i < count; ++i)
    x.data()[i] =
        static_cast<attend::token_t>(3 + random.below(static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(vocabulary - 3)));
  return x;
}

/// Sentences of 20 to 30 tokens, 25 on average: sentence i has 20 + 7 i mod 11.
inline attend::Segments sentences_of_20_to_30(attend::index_t count) {
  std::vector<attend::index_t> lengths;
  for (attend::index_t i = 0; i < count; ++i) lengths.push_back(20 + 7 * i % 11);
  return attend::Segments::ragged(lengths);
}

/// What one call amounts to, for the rates that are printed; 0: not reported.
struct Work {
  double flops = 0;  ///< additions and multiplications, those of padding not counted
  double bytes = 0;  ///< read and written at least
  double items = 0;  ///< tokens or rows
};

inline void report(benchmark::State& state, const Work& work) {
  const auto rate = [](double amount, benchmark::Counter::OneK k) {
    return benchmark::Counter(amount, benchmark::Counter::kIsIterationInvariantRate, k);
  };
  if (work.flops > 0) state.counters["FLOP/s"] = rate(work.flops, benchmark::Counter::kIs1000);
  if (work.bytes > 0) state.counters["bytes/s"] = rate(work.bytes, benchmark::Counter::kIs1024);
  if (work.items > 0) state.counters["items/s"] = rate(work.items, benchmark::Counter::kIs1000);
}

/// Registers `name`. `prepare` makes inputs and gives the call that is timed, after one call that is not.
inline bool measure(const std::string& name, const Work& work, std::function<std::function<void()>()> prepare) {
  const auto run = [work, prepare = std::move(prepare)](benchmark::State& state) {
    attend::seed(1);
    const auto call = prepare();
    call();
    for (auto _ : state) call();
    report(state, work);
  };
  benchmark::RegisterBenchmark(name.c_str(), run)->UseRealTime()->Unit(benchmark::kMillisecond);
  return true;
}

/// Registers `name/forward`, with nothing recorded, and `name/backward`, which is forward and backward. `prepare` gives the
/// parameters and an operation y = f() of them. `backward`: how much more work both together are than the first alone.
struct Operation {
  std::vector<attend::Var<float>> parameters;
  std::function<attend::Var<float>()> f;
};
inline void measure_operation(const std::string& name, const Work& work, double backward, std::function<Operation()> prepare) {
  measure(name + "/forward", work, [prepare] {
    return [operation = prepare()] {
      const attend::NoGrad no_grad;
      benchmark::DoNotOptimize(operation.f().data());
    };
  });
  const Work both{work.flops * backward, work.bytes * backward, work.items};
  measure(name + "/backward", both, [prepare] {
    auto operation = prepare();
    const auto dy = random_numbers(operation.f().shape());
    return [operation, dy] {
      for (const auto& p : operation.parameters) p.zero_grad();
      operation.f().backward(dy);
    };
  });
}
