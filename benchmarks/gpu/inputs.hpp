#pragma once

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "../networks.hpp"
#include "attend/core/random.hpp"
#include "attend/cuda/device/memory.cuh"

/// What goes in: random numbers, random tokens, and the lengths of real sentences.
namespace gpu {

using attend::bfloat16;
using attend::Cuda;
using attend::index_t;
using attend::Tensor;
using attend::token_t;

inline constexpr token_t begin_token = 1, end_token = 2, first_word = 4;

/// Standard normal numbers on the device: four million drawn ones, put together in another order for every tensor.
template <class T>
Tensor<T, Cuda> random_numbers(const attend::Shape& shape) {
  constexpr index_t count = index_t{1} << 22;
  static const Tensor<T, Cuda> drawn = [] {
    const Tensor<T, Cuda> x({count});
    attend::nn::normal(x, 1);
    return x;
  }();
  static index_t next = 0;
  const Tensor<T, Cuda> y(shape);
  for (index_t done = 0, n = 0; done < y.size(); done += n) {
    next = (next + 1048583) % count;  // an odd number, so that this goes through all places
    n = std::min(count - next, y.size() - done);
    copy(Cuda{}, n, drawn.data() + next, y.data() + done);
  }
  return y;
}

/// Tokens that are words, drawn from a stream of the generator: a few of them often, most of them seldom.
class Words {
 public:
  explicit Words(index_t vocabulary) : words_(static_cast<double>(vocabulary - first_word)) {}
  std::vector<token_t> sentence(index_t length) {
    std::vector<token_t> tokens;
    for (index_t i = 0; i < length; ++i) {
      const double u = random_.uniform(next_++);
      tokens.push_back(static_cast<token_t>(first_word + static_cast<index_t>(words_ * u * u * u)));
    }
    return tokens;
  }

 private:
  double words_;
  attend::Generator::Stream random_ = attend::default_generator().next();
  std::uint64_t next_ = 0;
};

/// Lengths of a source and of its target, begin and end token not counted.
using Lengths = std::pair<index_t, index_t>;

/// A batch a line: SOURCE TARGET SOURCE TARGET ... Throws ValueError.
inline std::vector<std::vector<Lengths>> read_batches(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::vector<Lengths>> batches;
  for (std::string line; std::getline(file, line);) {
    std::istringstream numbers(line);
    auto& batch = batches.emplace_back();
    for (Lengths pair; numbers >> pair.first >> pair.second;) {
      attend::check_value(pair.first > 0 && pair.second > 0, "attend_gpu_benchmark", path + " holds an empty sentence");
      batch.push_back(pair);
    }
  }
  attend::check_value(!batches.empty(), "attend_gpu_benchmark", path + " holds no batch");
  return batches;
}

/// The Transformers by their names: base and big with a vocabulary of 32,000 and a dropout of 0.1, those of the notebooks, and
/// one to try the program with.
inline attend::nn::ModelOptions transformer_options(const std::string& name) {
  auto options = attend::nn::TransformerOptions::base(32000);
  if (name == "big") options = attend::nn::TransformerOptions::big(32000), options.dropout = 0.1;
  else if (name == "small")
    options.vocabulary = 100, options.d_model = 32, options.heads = 2, options.d_ff = 64, options.layers = 1;
  else if (name == "notebook0") return notebook0();
  else if (name == "notebook1") return notebook1();
  else if (name == "notebook4") return notebook4();
  else attend::check_value(name == "base", "attend_gpu_benchmark", "no network is called " + name);
  return attend::nn::model_options(options);
}

}  // namespace gpu
