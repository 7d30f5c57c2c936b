#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "attend/cpu/attention.hpp"
#include "attend/cuda/attention/attention.cuh"
#include "cuda/device.hpp"

/// What the tests of attention on the device share.
namespace device {

using namespace attend;

/// An attention to be run on both devices.
struct Setting {
  Segments queries, keys;
  index_t heads = 2, d_k = 5, d_v = 3;
  bool causal = false;
  int bias_rank = 0;  // 1: one that goes by distance
  double dropout = 0, scale = 0.4;
  index_t before = 1, after = 2;  // columns of each matrix that are not its heads'
  bool keep_weights = true, want_q = true, want_k = true, want_v = true, hide_some = false;
};

/// [rows, before + columns + after] with standard normal numbers.
template <class T>
Tensor<T> matrix(const Setting& s, index_t rows, index_t columns, std::uint64_t stream) {
  return device::converted<T>(device::random<float>({rows, s.before + columns + s.after}, stream));
}

template <class T>
struct Inputs {
  Tensor<T> q, k, v, dout, bias;

  explicit Inputs(const Setting& s)
      : q(matrix<T>(s, s.queries.rows(), s.heads * s.d_k, 1)),
        k(matrix<T>(s, s.keys.rows(), s.heads * s.d_k, 2)),
        v(matrix<T>(s, s.keys.rows(), s.heads * s.d_v, 3)),
        dout(matrix<T>(s, s.queries.rows(), s.heads * s.d_v, 4)) {
    const index_t rows = s.queries.longest() + 1, columns = s.keys.most_keys() + 2;  // room that no sentence needs
    if (s.bias_rank == 1) bias = device::converted<T>(device::random<float>({s.heads, 2 * std::max(rows, columns) - 1}, 5));
    if (s.bias_rank == 2) bias = device::converted<T>(device::random<float>({rows, columns}, 5));
    if (s.bias_rank == 3) bias = device::converted<T>(device::random<float>({s.heads, rows, columns}, 5));
    if (s.bias_rank == 4) bias = device::converted<T>(device::random<float>({s.queries.count(), s.heads, rows, columns}, 5));
    if (s.hide_some)  // every third key, and all of them from the second query
      for (index_t i = 0; i < bias.size(); ++i)
        if (i % columns % 3 == 0 || i / columns % rows == 1)
          bias.data()[i] = static_cast<T>(-std::numeric_limits<float>::infinity());
  }
  template <class From>
  explicit Inputs(const Inputs<From>& from)
      : q(device::converted<T>(from.q)),
        k(device::converted<T>(from.k)),
        v(device::converted<T>(from.v)),
        dout(device::converted<T>(from.dout)),
        bias(device::converted<T>(from.bias)) {}
};

template <class T, Device D>
struct Results {
  Tensor<T, D> out, weights, dq, dk, dv, ds, dbias, dbias_added;
  Tensor<Wide<T>, D> rows;  // shift and inverse
};

template <class T, Device D>
Results<T, D> run(const Setting& s, const Inputs<T>& inputs) {
  AttentionLayout a;
  a.queries = s.queries, a.keys = s.keys, a.heads = s.heads, a.d_k = s.d_k, a.d_v = s.d_v;
  a.scale = s.scale, a.causal = s.causal, a.dropout = s.dropout, a.random = {11, 5};
  a.q_stride = inputs.q.dim(1), a.k_stride = inputs.k.dim(1), a.v_stride = inputs.v.dim(1), a.out_stride = inputs.dout.dim(1);
  const Shape& b = inputs.bias.shape();
  if (s.bias_rank == 1) a.bias_query = -1, a.bias_head = b[-1], a.bias_origin = b[-1] / 2;
  if (s.bias_rank > 1) a.bias_query = b[-1];
  if (s.bias_rank > 2) a.bias_head = b[-1] * b[-2];
  if (s.bias_rank > 3) a.bias_sentence = b[-1] * b[-2] * b[-3];
  const index_t size = a.lay_out_weights();

  const auto q = inputs.q.template to<D>(), k = inputs.k.template to<D>(), v = inputs.v.template to<D>();
  const auto dout = inputs.dout.template to<D>(), bias = inputs.bias.template to<D>();
  const T untouched(7);
  Results<T, D> r{Tensor<T, D>(inputs.dout.shape(), untouched),
                  s.keep_weights ? Tensor<T, D>({size}, untouched) : Tensor<T, D>(),
                  Tensor<T, D>(inputs.q.shape(), untouched),
                  Tensor<T, D>(inputs.k.shape(), untouched),
                  Tensor<T, D>(inputs.v.shape(), untouched),
                  s.keep_weights ? Tensor<T, D>({size}, untouched) : Tensor<T, D>(),
                  Tensor<T, D>(b, static_cast<T>(std::nan(""))),
                  Tensor<T, D>(b, T(2)),
                  Tensor<Wide<T>, D>({2, s.queries.rows() * s.heads}, Wide<T>(7))};
  const SoftmaxRows<Wide<T>> rows{r.rows.data(), r.rows.data() + r.rows.dim(1)};
  const T* biases = s.bias_rank > 0 ? bias.data() + a.bias_origin : nullptr;
  T* weights = s.keep_weights ? r.weights.data() : nullptr;
  T* ds = s.keep_weights ? r.ds.data() : nullptr;
  const auto heads_of = [&](const auto& x) { return x.empty() ? x.data() : x.data() + s.before; };
  const kernels::AttentionInputs<T> read{heads_of(q), heads_of(k), heads_of(v), biases};
  attention_forward(D{}, a, read, weights, rows, heads_of(r.out));
  attention_backward<T>(
      D{}, a, heads_of(dout), read, rows,
      {s.want_q ? heads_of(r.dq) : nullptr, s.want_k ? heads_of(r.dk) : nullptr, s.want_v ? heads_of(r.dv) : nullptr, ds});
  if (s.bias_rank > 0 && ds) {
    attention_backward_bias(D{}, a, r.dbias.size(), ds, {r.dbias.data()});
    attention_backward_bias(D{}, a, r.dbias.size(), ds, {r.dbias_added.data(), true});
  }
  return r;
}

/// Runs it on the device in T and on the CPU in float, or in double where T is that, from the same numbers.
template <class T>
void compare(const Setting& s) {
  using E = Wide<T>;
  const Inputs<T> inputs(s);
  const auto got = run<T, Cuda>(s, inputs);
  const auto expected = run<E, Cpu>(s, Inputs<E>(inputs));
  CHECK(device::difference(got.out, expected.out) == "");
  CHECK(device::difference(got.rows, expected.rows, device::tolerance<T>) == "");
  CHECK(device::difference(got.dq, expected.dq) == "");
  CHECK(device::difference(got.dk, expected.dk) == "");
  CHECK(device::difference(got.dv, expected.dv) == "");
  if (s.keep_weights) {
    CHECK(device::difference(got.weights, expected.weights) == "");
    CHECK(device::difference(got.ds, expected.ds) == "");
  }
  if (s.bias_rank > 0 && s.keep_weights) {
    CHECK(device::difference(got.dbias, expected.dbias) == "");
    CHECK(device::difference(got.dbias_added, expected.dbias_added) == "");
  }
}

/// What the kernels on tensor cores take: widths, strides and places of whole packs.
inline Setting packs(const Segments& queries, const Segments& keys, index_t heads, index_t d_k, index_t d_v) {
  Setting s{queries, keys, heads, d_k, d_v};
  s.before = 8, s.after = 16, s.scale = 1 / std::sqrt(static_cast<double>(d_k)), s.keep_weights = false;
  return s;
}

/// Sentences whose last rows are no keys.
inline Segments padded() {
  const std::vector<index_t> keys{0, 39, 17, 33};
  return Segments::dense(4, 39, keys);
}

}  // namespace device
