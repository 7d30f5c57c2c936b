#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "attend/core/random.hpp"
#include "attend/core/tensor.hpp"
#include "attend/core/thread_setting.hpp"
#include "attend/core/threads.hpp"
#include "attend/nn/fields.hpp"

/// Initial values. Each draws one stream of `default_generator()`, so that a seed gives the same model on every device.
namespace attend::nn {

/// While one is in scope, the matrices of the modules that this thread makes have no initial values: nothing is written to them,
/// which is half of the time and all of the memory of making them. Vectors have theirs, and `default_generator()` goes on as if
/// it had drawn the matrices'. For whoever gives every matrix its values next, as loading does.
class WithoutInitialValues : public attend::detail::ThreadSetting<WithoutInitialValues, bool, false> {
 public:
  WithoutInitialValues() : ThreadSetting(true) {}
};

/// A module M(arguments...) whose matrices have no values yet, see WithoutInitialValues.
template <class M, class... Arguments>
M without_initial_values(const Arguments&... arguments) {
  const WithoutInitialValues scope;
  return M(arguments...);
}

/// U(-a, a) with a = gain * sqrt(6 / (in + out)) for a matrix [out, in]. Source: Glorot and Bengio 2010, eq. 16.
template <class T, Device D>
void xavier_uniform(const Tensor<T, D>& weight, double gain = 1) {
  check_value(weight.rank() == 2, "xavier_uniform", "shape ", weight.shape().text(), " is not a matrix");
  const double bound = gain * std::sqrt(6.0 / static_cast<double>(std::max<index_t>(1, weight.dim(0) + weight.dim(1))));
  const auto random = default_generator().next();
  if (WithoutInitialValues::current()) return;
  const Tensor<T, Cpu> host(weight.shape());
  parallel_rows((host.size() + 3) / 4, 4, [&](index_t begin, index_t end) {  // four elements share a counter
    for (index_t block = begin; block < end; ++block) {
      const auto words = random.words(static_cast<std::uint64_t>(block));
      for (index_t i = 4 * block; i < std::min(4 * block + 4, host.size()); ++i)
        host.data()[i] = static_cast<T>(bound * (2 * to_uniform(nth(words, i % 4)) - 1));
    }
  });
  weight.assign(host);
}

/// Normal with mean 0 and the given standard deviation.
template <class T, Device D>
void normal(const Tensor<T, D>& x, double deviation) {
  const auto random = default_generator().next();
  if (WithoutInitialValues::current()) return;
  const Tensor<T, Cpu> host(x.shape());
  parallel_rows(host.size(), 1, [&](index_t begin, index_t end) {
    for (index_t i = begin; i < end; ++i)
      host.data()[i] = static_cast<T>(deviation * random.normal(static_cast<std::uint64_t>(i)));
  });
  x.assign(host);
}

/// Xavier's distribution for every matrix of a model, part by part where a matrix is packed. Vectors stay as they are.
template <class M>
requires requires {
  typename M::value_type;
  typename M::device_type;
}
void xavier_uniform_all(const M& model) {
  for (const auto& t : state(model))
    if (t.value.rank() == 2) xavier_uniform(t.value);
}

/// A parameter of the given shape that holds one value everywhere.
template <class T, Device D>
Var<T, D> constant_parameter(const Shape& shape, double value) {
  if (WithoutInitialValues::current() && shape.rank() > 1) return Var<T, D>(Tensor<T, D>(shape), true);
  return Var<T, D>(Tensor<T, D>(shape, static_cast<T>(value)), true);
}

}  // namespace attend::nn
