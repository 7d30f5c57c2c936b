#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include "attend/autograd/var.hpp"
#include "attend/io/safetensors.hpp"
#include "attend/io/tensors.hpp"
#include "catch.hpp"
#if defined(ATTEND_TEST_CUDA)
#include "attend/cuda.hpp"
#endif

/// Cases that PyTorch computed, in tests/reference/data; make_reference.py there says what a case holds. All sizes come from the
/// files, so that ATTEND_REFERENCE_DIR may name another set.
///
///     TEMPLATE_TEST_CASE("relu", "", float, double) {
///       const reference::Case c("op_relu");
///       const auto x = c.leaf<TestType>("x");
///       const auto y = attend::relu(x);
///       c.check("output.y", y);
///       c.weighted_backward(y);
///       c.check("grad_input.x", x.grad());
///     }
namespace reference {

/// The device that is held to the cases, and the types of numbers it is held to them in. Compiled with ATTEND_TEST_CUDA, the same
/// tests hold the CUDA back end to them.
#if defined(ATTEND_TEST_CUDA)
using Where = attend::Cuda;
#define REFERENCE_TYPES double, float, attend::bfloat16
#else
using Where = attend::Cpu;
#define REFERENCE_TYPES double, float
#endif

/// The folder with the cases: the one that ATTEND_REFERENCE_DIR names, else the copy beside these tests.
inline std::filesystem::path folder() {
  const char* chosen = std::getenv("ATTEND_REFERENCE_DIR");
  return chosen != nullptr && *chosen != '\0' ? chosen : ATTEND_REFERENCE_DEFAULT_DIR;
}

/// What relative error passes. A GPU's own functions and orders of sums differ from the processor's.
template <attend::Scalar T>
inline constexpr double tolerance = std::is_same_v<T, attend::bfloat16>  ? 2e-2
                                    : std::is_same_v<T, double>          ? 1e-10
                                    : std::is_same_v<Where, attend::Cpu> ? 2e-5
                                                                         : 1e-4;

/// Its name in messages.
template <attend::Scalar T>
inline constexpr const char* type_name = std::is_same_v<T, attend::bfloat16> ? "bfloat16"
                                         : sizeof(T) == 4                    ? "float"
                                                                             : "double";

/// For bfloat16, whose single numbers are rounded in their third digit at every step of a network: the norm of the error relative
/// to that of the tensor.
template <attend::Scalar T>
std::string difference_of_norms(const attend::Tensor<T>& got, const attend::Tensor<double>& expected, double allowed) {
  double error = 0, size = 0;
  for (attend::index_t i = 0; i < expected.size(); ++i) {
    const double e = expected.data()[i], d = static_cast<double>(got.data()[i]) - e;
    error += d * d, size += e * e;
  }
  const double ratio = std::sqrt(error) / std::max(std::sqrt(size), 0.1);
  if (ratio <= allowed) return {};
  return "the error's norm is " + std::to_string(ratio) + " of that of " + expected.shape().text();
}

/// Why `got` is not `expected`; empty if it is. An error is relative to the largest element of the tensor: a sum whose terms
/// cancel is no more exact than its terms. In double, where there is room, an element above 1 has no larger scale than itself.
/// A tensor that is zero but for rounding (what shifts all scores alike has no gradient) is held to absolute errors.
template <attend::Scalar T, attend::Device D>
std::string difference(const attend::Tensor<T, D>& on_device, const attend::Tensor<double>& expected,
                       double allowed_in_bfloat16 = tolerance<T>) {
  const attend::Tensor<T> got = on_device.to_host();
  if (!(got.shape() == expected.shape())) return "shape " + got.shape().text() + ", expected " + expected.shape().text();
  if constexpr (std::is_same_v<T, attend::bfloat16>) return difference_of_norms(got, expected, allowed_in_bfloat16);
  double largest = 0, worst = 0;
  for (const double e : expected.span()) largest = std::max(largest, std::abs(e));
  const double scale = largest < 1e-12 || (largest > 1 && std::is_same_v<T, double>) ? 1 : std::max(largest, 0.01);
  attend::index_t at = 0;
  for (attend::index_t i = 0; i < expected.size(); ++i) {
    const double e = expected.data()[i], g = static_cast<double>(got.data()[i]);
    const double error = std::abs(g - e) / std::max(scale, std::abs(e));
    if (!(error <= worst) && !std::isnan(worst)) worst = error, at = i;  // not a number is the worst, and stays it
  }
  if (worst <= tolerance<T>) return {};
  std::ostringstream text;
  text.precision(17);
  text << "element " << at << " of " << expected.shape().text() << " is " << static_cast<double>(got.data()[at]) << ", expected "
       << expected.data()[at] << ", relative error " << worst;
  return text.str();
}

/// One file of the set.
class Case {
 public:
  /// The case of that name, such as `op_relu`. Throws IoError if the folder has none.
  explicit Case(const std::string& name) : Case(folder(), name) {}
  /// One of another folder.
  Case(const std::filesystem::path& in, const std::string& name)
      : file_(attend::io::SafetensorsFile::open(in / (name + ".safetensors"))) {}

  [[nodiscard]] const attend::io::SafetensorsFile& file() const { return file_; }
  [[nodiscard]] bool has(const std::string& key) const { return file_.contains(key); }

  /// An option of the case. Throws Error if it has none of that name.
  [[nodiscard]] std::string text(const std::string& key) const {
    const auto found = file_.metadata().find(key);
    if (found == file_.metadata().end()) throw attend::Error(file_.path().string() + " has no option " + key);
    return found->second;
  }
  [[nodiscard]] double number(const std::string& key) const { return std::stod(text(key)); }
  [[nodiscard]] attend::index_t integer(const std::string& key) const { return std::stoll(text(key)); }
  [[nodiscard]] bool flag(const std::string& key) const { return text(key) == "True"; }

  /// A tensor under its whole name, `input.x`, `output.y`, `param.weight`, `grad.weight`, `grad_input.x`. Throws FormatError.
  template <class T>
  [[nodiscard]] attend::Tensor<T> tensor(const std::string& key) const {
    return attend::io::read_tensor<T>(file_, key);
  }
  [[nodiscard]] attend::Tensor<attend::token_t> tokens(const std::string& input) const {
    return tensor<attend::token_t>("input." + input);
  }
  [[nodiscard]] attend::Tensor<std::uint8_t> mask(const std::string& input) const {
    return tensor<std::uint8_t>("input." + input);
  }
  /// An input whose gradient is wanted.
  template <attend::Scalar T>
  [[nodiscard]] attend::Var<T, Where> leaf(const std::string& input) const {
    return attend::Var<T, Where>(tensor<T>("input." + input).template to<Where>(), true);
  }
  template <attend::Scalar T>
  [[nodiscard]] attend::Var<T, Where> parameter(const std::string& name) const {
    return attend::Var<T, Where>(tensor<T>("param." + name).template to<Where>(), true);
  }
  /// What follows `prefix` in the names that begin with it: `names("grad.")`.
  [[nodiscard]] std::vector<std::string> names(const std::string& prefix) const {
    std::vector<std::string> list;
    for (const auto& t : file_.tensors())
      if (t.name.starts_with(prefix)) list.push_back(t.name.substr(prefix.size()));
    return list;
  }

  /// The gradient of the case's loss, sum(y * input.cotangent), into all that `y` came from.
  template <attend::Scalar T, attend::Device D>
  void weighted_backward(const attend::Var<T, D>& y) const {
    y.backward(tensor<T>("input.cotangent").reshape(y.shape()).template to<D>());
  }

  /// Fails the test unless `got` is the tensor `key` of the case.
  template <attend::Scalar T, attend::Device D>
  void check(const std::string& key, const attend::Tensor<T, D>& got) const {
    INFO(file_.path().stem().string() << ", " << key << ", " << type_name<T>);
    // Weights are rounded too, and gradients pass through some forty roundings, twice: in bfloat16 PyTorch's own, of networks of
    // these sizes, are off by up to 0.16.
    CHECK(difference(got, tensor<double>(key), key.starts_with("grad") ? 0.25 : tolerance<T>) == "");
  }
  /// The same for what was computed from numbers of type T, whatever its own is: a loss in float from logits in bfloat16.
  template <attend::Scalar T, attend::Scalar W, attend::Device D>
  void check_from(const std::string& key, const attend::Var<W, D>& got) const {
    if constexpr (std::is_same_v<T, W>) return check(key, got);
    INFO(file_.path().stem().string() << ", " << key << ", from " << type_name<T>);
    CHECK(difference_of_norms(got.value().to_host(), tensor<double>(key), tolerance<T>) == "");
  }
  template <attend::Scalar T, attend::Device D>
  void check(const std::string& key, const attend::Var<T, D>& got) const {
    check(key, got.value());
  }

 private:
  attend::io::SafetensorsFile file_;
};

}  // namespace reference
