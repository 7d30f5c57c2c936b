#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "attend/cuda.hpp"
#include "attend/nn/transformer.hpp"
#include "device.hpp"

/// Holds modules on the device, in float and in bfloat16, to the same modules on the processor in double.
namespace modules {

/// What one run of a module is given, and what else than its output is to be compared.
template <class T, attend::Device D>
struct Given {
  using Var = attend::Var<T, D>;
  using Weights = attend::AttentionWeights<T, D>;
  using OwnKeys = attend::nn::OwnKeys<T, D>;
  using MemoryKeys = attend::nn::MemoryKeys<T, D>;
  using StackCall = attend::nn::StackCall<T, D>;
  using Memory = attend::nn::Memory<T, D>;

  int pass = 0;                                       // of two
  std::vector<Var> x = {};                            // the inputs, whose gradients are compared
  std::vector<attend::Tensor<double>> compared = {};  // as the output is

  void compare(const attend::Tensor<T>& seen) { compared.push_back(device::converted<double>(seen)); }
  [[nodiscard]] Var constant(const attend::Tensor<double>& numbers) const {
    return Var(device::converted<T>(numbers).template to<D>());
  }
  template <class U>
  [[nodiscard]] attend::Tensor<U, D> beside(const attend::Tensor<U>& numbers) const {
    return numbers.template to<D>();
  }
  [[nodiscard]] attend::nn::Batch<D> beside(const attend::nn::Batch<>& batch) const { return batch.template to<D>(); }
};

using Rounding = double (*)(double);
template <class T>
double rounded_to(double x) {
  return static_cast<double>(static_cast<T>(x));
}

/// Random numbers that the narrower of the two types can hold.
inline attend::Tensor<double> numbers(const attend::Shape& shape, std::uint64_t stream, Rounding rounding, double deviation = 1,
                                      double mean = 0) {
  auto x = device::random<double>(shape, stream);
  for (double& v : x.span()) v = rounding(mean + deviation * v);
  return x;
}

/// Makes every parameter random: gains about 1, biases about 0, what a matrix gives about as large as what it gets.
template <class M>
void randomise(const M& model, Rounding rounding) {
  std::uint64_t stream = 1000;
  for (const auto& t : attend::nn::state(model)) {
    const bool vector = t.value.rank() == 1, gain = vector && t.name.ends_with("weight");
    const double deviation = vector ? 0.3 : 1 / std::sqrt(static_cast<double>(t.value.dim(-1)));
    const auto x = numbers(t.value.shape(), stream++, rounding, deviation, gain ? 1 : 0);
    t.value.assign(device::converted<typename M::value_type>(x));
  }
}

struct Named {
  std::string name;
  attend::Tensor<double> value;  // of a gradient: empty if there is none
};

/// What a module gave, in double on the host.
struct Result {
  std::vector<attend::Tensor<double>> outputs;
  std::vector<Named> gradients;
  std::uint64_t drawn = 0;  // streams of random numbers
};

/// The numbers of all these tensors, by a single wait for the device.
template <class T, attend::Device D>
std::vector<attend::Tensor<double>> brought(const std::vector<attend::Tensor<T, D>>& tensors) {
  using attend::kernels::copy;
  attend::index_t size = 0, at = 0;
  for (const auto& t : tensors) size += t.size();
  const attend::Tensor<T, D> all({size});
  for (const auto& t : tensors) copy(D{}, t.size(), t.data(), all.data() + std::exchange(at, at + t.size()));
  const auto host = all.to_host();
  std::vector<attend::Tensor<double>> list;
  at = 0;
  for (const auto& t : tensors)
    list.push_back(device::converted<double>(host.rows(std::exchange(at, at + t.size()), t.size()).reshape(t.shape())));
  return list;
}

/// Two passes forward and backward: the second adds its gradients to the first's.
template <class T, attend::Device D, class Make, class Run>
Result run_on(const Make& make, const Run& run, const std::vector<attend::Shape>& shapes, Rounding rounding) {
  using namespace attend;
  seed(5);
  const auto model = make.template operator()<T, D>();
  randomise(model, rounding);
  Given<T, D> given;
  for (std::size_t i = 0; i < shapes.size(); ++i)
    given.x.emplace_back(device::converted<T>(numbers(shapes[i], i, rounding)).template to<D>(), true);
  Result result;
  std::vector<std::function<Tensor<double>()>> outputs;  // brought later, so that the device does both passes in one go
  seed(7);
  for (given.pass = 0; given.pass < 2; ++given.pass) {
    const auto y = run(model, given);
    using Y = typename std::remove_cvref_t<decltype(y)>::value_type;
    outputs.push_back([value = y.value()] { return device::converted<double>(value.to_host()); });
    // The second half as large and of the same signs, so that they do not cancel and leave what was rounded.
    const auto dy = numbers(y.shape(), 99, rounding, given.pass == 0 ? 1 : 0.5);
    y.backward(device::converted<Y>(dy).template to<D>());
  }
  result.drawn = default_generator().drawn();
  for (const auto& output : outputs) result.outputs.push_back(output());
  result.outputs.insert(result.outputs.end(), given.compared.begin(), given.compared.end());
  std::vector<Tensor<T, D>> gradients;
  std::vector<std::string> names;
  const auto gradient = [&](const std::string& name, const Tensor<T, D>& dx) { names.push_back(name), gradients.push_back(dx); };
  for (std::size_t i = 0; i < shapes.size(); ++i) gradient("input " + std::to_string(i), given.x[i].grad());
  for (const auto& t : nn::state(model)) gradient(t.name, t.parameter.grad().empty() ? Tensor<T, D>() : t.grad());
  const auto host = brought(gradients);
  for (std::size_t i = 0; i < host.size(); ++i) result.gradients.push_back({names[i], host[i]});
  return result;
}

inline double norm(const attend::Tensor<double>& x) {
  double sum = 0;
  for (const double v : x.span()) sum += v * v;
  return std::sqrt(sum);
}

/// Why `got` is not `expected`; empty if it is. The norm of the error is held to that of the tensor, `floor` at the least, and
/// in float each element's to the largest element besides.
inline std::string difference(const attend::Tensor<double>& got, const attend::Tensor<double>& expected, double allowed,
                              bool each, double floor = 1e-2) {
  if (!(got.shape() == expected.shape())) return "shape " + got.shape().text() + ", expected " + expected.shape().text();
  double error = 0, largest = floor, worst = 0;
  attend::index_t at = 0;
  for (attend::index_t i = 0; i < got.size(); ++i) {
    const double d = std::abs(got.data()[i] - expected.data()[i]);
    error += d * d, largest = std::max(largest, std::abs(expected.data()[i]));
    if (!(d <= worst) && !std::isnan(worst)) worst = d, at = i;  // not a number is the worst, and stays it
  }
  const double ratio = std::sqrt(error) / std::max(norm(expected), floor);
  if (!(ratio <= allowed)) return "the error's norm is " + std::to_string(ratio) + " of that of " + expected.shape().text();
  if (each && !(worst <= 1e-4 * largest))
    return "element " + std::to_string(at) + " of " + expected.shape().text() + " is " + std::to_string(got.data()[at]) +
           ", expected " + std::to_string(expected.data()[at]);
  return {};
}

enum class Depth { module, stack };

/// In bfloat16 the output of a stack has gone through some dozens of roundings to three digits, a gradient through as many again,
/// and those of queries and keys are differences of larger numbers.
inline void compare(const Result& got, const Result& expected, bool bfloat16, Depth depth) {
  const bool stack = depth == Depth::stack;
  const double allowed = bfloat16 ? (stack ? 2e-2 : 1e-2) : (stack ? 1e-5 : 5e-6);
  const double allowed_in_gradients = bfloat16 ? (stack ? 1e-1 : 4e-2) : (stack ? 1e-4 : 1e-5);
  CHECK(got.drawn == expected.drawn);
  REQUIRE(got.outputs.size() == expected.outputs.size());
  for (std::size_t i = 0; i < got.outputs.size(); ++i) {
    INFO("output " << i);
    CHECK(difference(got.outputs[i], expected.outputs[i], allowed, !bfloat16) == "");
  }
  double largest = 0;
  for (const auto& g : expected.gradients) largest = std::max(largest, norm(g.value));
  REQUIRE(got.gradients.size() == expected.gradients.size());
  for (std::size_t i = 0; i < got.gradients.size(); ++i) {
    const auto& [name, value] = expected.gradients[i];
    INFO("gradient of " << name);
    CHECK(got.gradients[i].name == name);
    // What shifts all scores of a query alike has no gradient but the rounding of those that cancel, and in a single sum most of
    // the terms may.
    const double floor = value.size() == 1 || name.find("k_proj.bias") != std::string::npos ? std::max(largest, 1e-2) : 1e-2;
    const bool of_scores = name.find("q_proj") != std::string::npos || name.find("k_proj") != std::string::npos;
    const double here = bfloat16 && stack && of_scores ? 1.5 * allowed_in_gradients : allowed_in_gradients;
    CHECK(difference(got.gradients[i].value, value, here, !bfloat16, floor) == "");
  }
}

template <class T, class Make, class Run>
void check_in(const Make& make, const Run& run, const std::vector<attend::Shape>& shapes, Depth depth) {
  INFO("in numbers of " << sizeof(T) << " bytes");
  const auto expected = run_on<double, attend::Cpu>(make, run, shapes, rounded_to<T>);
  compare(run_on<T, attend::Cuda>(make, run, shapes, rounded_to<T>), expected, std::is_same_v<T, attend::bfloat16>, depth);
}

/// make<T, D>() builds a module, run(module, given) applies it to given.x, tensors of `shapes`. Holds its outputs, the gradients
/// of inputs and parameters, whatever else `run` wants compared and the count of random streams drawn to the processor's.
template <class Make, class Run>
void check(const Make& make, const Run& run, const std::vector<attend::Shape>& shapes, Depth depth = Depth::module) {
  if (!device::present()) return;
  check_in<float>(make, run, shapes, depth);
  check_in<attend::bfloat16>(make, run, shapes, depth);
}

/// The type and the words of what f throws, by the time that the device has done all of it; but for the operation's name, because
/// operations that are one on the device may be two on the processor.
template <class F>
std::string thrown(const F& f) {
  try {
    (void)f().value().values();
  } catch (const attend::Error& e) {
    const std::string words = e.what();
    return std::string(typeid(e).name()) + words.substr(std::min(words.find(": "), words.size()));
  }
  return "nothing";
}

/// run(module, given) throws on the device what it throws on the processor, and the device works afterwards.
template <class Make, class Run>
void check_refused(const Make& make, const Run& run, const std::vector<attend::Shape>& shapes = {}) {
  using namespace attend;
  if (!device::present()) return;
  const auto on = [&]<class T, class D>(Given<T, D> given) {
    const auto model = make.template operator()<T, D>();
    for (const auto& shape : shapes) given.x.emplace_back(Tensor<T, D>(shape, T(1)), true);
    return thrown([&] { return run(model, given); });
  };
  const auto expected = on(Given<double, Cpu>{});
  CHECK(expected != "nothing");
  CHECK(on(Given<float, Cuda>{}) == expected);
  CHECK(Tensor<float, Cuda>({1}, 3.0f).item() == 3);
}

}  // namespace modules
