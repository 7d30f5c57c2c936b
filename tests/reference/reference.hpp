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

/// The folder with the cases: the environment's, else the copy beside these tests.
inline std::filesystem::path folder() {
  const char* chosen = std::getenv("ATTEND_REFERENCE_DIR");
  return chosen != nullptr && *chosen != '\0' ? chosen : ATTEND_REFERENCE_DEFAULT_DIR;
}

/// What relative error passes.
template <std::floating_point T>
inline constexpr double tolerance = std::is_same_v<T, double> ? 1e-10 : 2e-5;

/// Why `got` is not `expected`; empty where it is. An error is relative to the largest element of the tensor: a sum whose terms
/// cancel is no more exact than its terms. In double, where there is room, an element above 1 has no larger scale than itself.
/// A tensor that is zero but for rounding (what shifts all scores alike has no gradient) is held to absolute errors.
template <std::floating_point T>
std::string difference(const attend::Tensor<T>& got, const attend::Tensor<double>& expected) {
  if (!(got.shape() == expected.shape())) return "shape " + got.shape().text() + ", expected " + expected.shape().text();
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
  text << "element " << at << " of " << expected.shape().text() << " is " << got.data()[at] << ", expected "
       << expected.data()[at] << ", relative error " << worst;
  return text.str();
}

/// One file of the set.
class Case {
 public:
  /// The case of that name, such as `op_relu`. Throws IoError where the folder has none.
  explicit Case(const std::string& name) : file_(attend::io::SafetensorsFile::open(folder() / (name + ".safetensors"))) {}

  [[nodiscard]] const attend::io::SafetensorsFile& file() const { return file_; }
  [[nodiscard]] bool has(const std::string& key) const { return file_.contains(key); }

  /// An option of the case. Throws Error where it has none of that name.
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
  template <std::floating_point T>
  [[nodiscard]] attend::Var<T> leaf(const std::string& input) const {
    return attend::Var<T>(tensor<T>("input." + input), true);
  }
  template <std::floating_point T>
  [[nodiscard]] attend::Var<T> parameter(const std::string& name) const {
    return attend::Var<T>(tensor<T>("param." + name), true);
  }
  /// What follows `prefix` in the names that begin with it: `names("grad.")`.
  [[nodiscard]] std::vector<std::string> names(const std::string& prefix) const {
    std::vector<std::string> list;
    for (const auto& t : file_.tensors())
      if (t.name.starts_with(prefix)) list.push_back(t.name.substr(prefix.size()));
    return list;
  }

  /// The gradient of the case's loss, sum(y * input.cotangent), into all that `y` came from.
  template <std::floating_point T>
  void weighted_backward(const attend::Var<T>& y) const {
    y.backward(tensor<T>("input.cotangent").reshape(y.shape()));
  }

  /// Fails the test unless `got` is the tensor `key` of the case.
  template <std::floating_point T>
  void check(const std::string& key, const attend::Tensor<T>& got) const {
    INFO(file_.path().stem().string() << ", " << key << (std::is_same_v<T, float> ? ", float" : ", double"));
    CHECK(difference(got, tensor<double>(key)) == "");
  }
  template <std::floating_point T>
  void check(const std::string& key, const attend::Var<T>& got) const {
    check(key, got.value());
  }

 private:
  attend::io::SafetensorsFile file_;
};

}  // namespace reference
