#pragma once

#include <string>
#include <utility>
#include <vector>

#include "attend/core/random.hpp"
#include "attend/core/segments.hpp"
#include "attend/nn/batch.hpp"
#include "attend/nn/fields.hpp"
#include "record.hpp"
#ifdef ATTEND_BITS_CUDA
#include "attend/cuda.hpp"
#endif

/// What all parts are made of: the device, made inputs, and modules whose outputs and gradients become items.
namespace bits {

using namespace attend;

#ifdef ATTEND_BITS_CUDA
using D = Cuda;
/// The emulator runs a thousandth as fast as the processor by itself: its networks are smaller.
inline constexpr bool emulated = true;
#else
using D = Cpu;
inline constexpr bool emulated = false;
#endif
inline constexpr index_t sized(index_t full, index_t small) { return emulated ? small : full; }

/// Standard normal numbers, and numbers from 1 to 2; another `stream`, others.
template <class T>
Tensor<T, D> numbers(const Shape& shape, std::uint64_t stream) {
  const Tensor<T> x(shape);
  const Generator::Stream random{31, stream};
  for (index_t i = 0; i < x.size(); ++i) x.data()[i] = static_cast<T>(random.normal(static_cast<std::uint64_t>(i)));
  return x.template to<D>();
}
template <class T>
Tensor<T, D> positive_numbers(const Shape& shape, std::uint64_t stream) {
  const Tensor<T> x(shape);
  const Generator::Stream random{32, stream};
  for (index_t i = 0; i < x.size(); ++i) x.data()[i] = static_cast<T>(1 + random.uniform(static_cast<std::uint64_t>(i)));
  return x.template to<D>();
}
/// Tokens of a vocabulary whose first three are marks.
inline std::vector<token_t> words(index_t count, index_t vocabulary, std::uint64_t stream) {
  const Generator::Stream random{33, stream};
  std::vector<token_t> list;
  for (index_t i = 0; i < count; ++i)
    list.push_back(
        static_cast<token_t>(3 + random.below(static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(vocabulary - 3))));
  return list;
}
inline Tensor<token_t> tensor_of(const std::vector<token_t>& tokens) {
  return Tensor<token_t>({static_cast<index_t>(tokens.size())}, std::span<const token_t>(tokens));
}
inline Tensor<token_t, D> tokens(index_t count, index_t vocabulary, std::uint64_t stream) {
  return tensor_of(words(count, vocabulary, stream)).to<D>();
}

/// A batch of made tokens: each label is the next input, the last of a sentence is the end token, and one label counts for
/// nothing.
inline nn::Batch<D> made_batch(const Segments& source, const Segments& target, index_t source_vocabulary,
                               index_t target_vocabulary, std::uint64_t stream) {
  std::vector<token_t> labels = words(target.rows(), target_vocabulary, stream + 1), inputs = labels;
  for (index_t s = 0; s < target.count(); ++s) {
    const auto first = static_cast<std::size_t>(target.begin(s)), last = first + static_cast<std::size_t>(target.length(s)) - 1;
    for (std::size_t i = last; i > first; --i) inputs[i] = labels[i - 1];
    inputs[first] = 1, labels[last] = 2;
  }
  labels.front() = -100;
  return {.source = tokens(source.rows(), source_vocabulary, stream),
          .source_segments = source,
          .target = tensor_of(inputs).to<D>(),
          .target_segments = target,
          .labels = tensor_of(labels).to<D>()};
}

template <class T, Device E>
void item(Record& record, const std::string& name, const Tensor<T, E>& x) {
  record.add(name, x.values());
}
template <class T>
void item(Record& record, const std::string& name, const Var<T, D>& x) {
  item(record, name, x.value());
}

/// The weights of a model, by their names; and their gradients, those that there are.
template <class M>
void weights(Record& record, const std::string& name, const M& model) {
  for (const auto& t : nn::state(model)) item(record, name + "/weight/" + t.name, t.value);
}
template <class M>
void gradients(Record& record, const std::string& name, const M& model) {
  for (const auto& t : nn::state(model))
    if (!t.parameter.grad().empty()) item(record, name + "/gradient/" + t.name, t.grad());
}

/// The value of compute(), and the gradients of the inputs and of the model's weights for a made gradient of that value.
template <class M, class F>
void differentiate(Record& record, const std::string& name, const M& model,
                   const std::vector<Var<typename M::value_type, D>>& inputs, const F& compute) {
  const auto y = compute();
  item(record, name + "/value", y);
  y.backward(numbers<typename std::remove_cvref_t<decltype(y)>::value_type>(y.shape(), 999));
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (!inputs[i].grad().empty()) item(record, name + "/gradient/input" + std::to_string(i), inputs[i].grad());
  gradients(record, name, model);
}

/// A model without weights, for what is differentiated by its inputs alone.
template <class T>
struct NoWeights {
  using value_type = T;
  using device_type = D;
  template <class F>
  void fields(F&&) {}
};

}  // namespace bits
