#include "attend/cuda/attention/additive_attention.cuh"

#include <cmath>
#include <vector>

#include "attend/cpu/additive_attention.hpp"
#include "cuda/device.hpp"

using namespace attend;

namespace {

template <class T, Device D>
struct Results {
  Tensor<T, D> weights, out, dq, dk, dv, dscores;
};

/// Results in T on D from inputs in T; what is not written stays 7.
template <class T, Device D>
Results<T, D> run(const Segments& queries, const Segments& keys, index_t width, index_t d_v,
                  const std::vector<Tensor<T>>& inputs) {
  AttentionLayout a;
  a.queries = queries, a.keys = keys, a.d_k = width, a.d_v = d_v;
  const index_t size = a.lay_out_weights();
  const auto q = inputs[0].template to<D>(), k = inputs[1].template to<D>(), score = inputs[2].template to<D>();
  const auto v = inputs[3].template to<D>(), dout = inputs[4].template to<D>();
  const T untouched(7);
  Results<T, D> r{Tensor<T, D>({size}, untouched),    Tensor<T, D>(dout.shape(), untouched),
                  Tensor<T, D>(q.shape(), untouched), Tensor<T, D>(k.shape(), untouched),
                  Tensor<T, D>(v.shape(), untouched), Tensor<T, D>({queries.count(), width}, untouched)};
  const kernels::AdditiveInputs<T> read{q.data(), k.data(), score.data(), v.data()};
  additive_attention_forward(D{}, a, read, r.weights.data(), r.out.data());
  additive_attention_backward<T>(D{}, a, dout.data(), read, r.weights.data(),
                                 {r.dq.data(), r.dk.data(), r.dscores.data(), r.dv.data()});
  return r;
}

template <class T>
void compare(const Segments& queries, const Segments& keys, index_t width, index_t d_v) {
  using E = Wide<T>;
  const std::vector<Shape> shapes{
      {queries.rows(), width}, {keys.rows(), width}, {width}, {keys.rows(), d_v}, {queries.rows(), d_v}};
  std::vector<Tensor<T>> inputs;
  std::vector<Tensor<E>> wide;
  for (const Shape& shape : shapes) {
    const auto x = device::random<float>(shape, inputs.size());
    // Where one key has nearly all the weight, bfloat16 has few digits for what the others get.
    for (float& one : x.span()) one *= inputs.size() == 2 ? 2 / std::sqrt(static_cast<float>(width)) : 1;
    inputs.push_back(device::converted<T>(x));
    wide.push_back(device::converted<E>(inputs.back()));
  }
  const auto got = run<T, Cuda>(queries, keys, width, d_v, inputs);
  const auto expected = run<E, Cpu>(queries, keys, width, d_v, wide);
  CHECK(device::difference(got.weights, expected.weights) == "");
  CHECK(device::difference(got.out, expected.out) == "");
  CHECK(device::difference(got.dv, expected.dv) == "");
  // These come from weights that were rounded to T.
  CHECK(device::difference(got.dq, expected.dq, 2 * device::tolerance<T>) == "");
  CHECK(device::difference(got.dk, expected.dk, 2 * device::tolerance<T>) == "");
  CHECK(device::difference(got.dscores, expected.dscores, 2 * device::tolerance<T>) == "");
}

TEMPLATE_TEST_CASE("cuda: additive attention", "", float, double, bfloat16) {
  if (!device::present()) return;
  const Segments some = Segments::ragged({3, 0, 7, 1}), other = Segments::ragged({5, 2, 0, 40});
  compare<TestType>(some, other, 6, 5);
  compare<TestType>(other, some, 40, 1);
  compare<TestType>(some, some, 1, 33);
  compare<TestType>(Segments::ragged({150}), Segments::ragged({3}), 150, 140);
  compare<TestType>(Segments::ragged({2}), Segments::ragged({150}), 3, 2);
}

TEMPLATE_TEST_CASE("cuda: additive attention leaves padding alone", "", float, bfloat16) {
  if (!device::present()) return;
  const std::vector<index_t> keys{4, 0, 9};
  compare<TestType>(Segments::dense(3, 5), Segments::dense(3, 9, keys), 6, 4);
}

/// These sentences where the host knows no more than that there is room for them.
Segments within(const Segments& sentences, index_t longest) {
  const auto room = make_tables(Cuda{}, sentences.count());
  write_tables(Cuda{}, sentences, room);
  return Segments::room(sentences.count(), sentences.rows(), longest, room);
}

TEMPLATE_TEST_CASE("cuda: additive attention goes by the tables on the device", "", float, bfloat16) {
  if (!device::present()) return;
  const Segments queries = Segments::ragged({3, 0, 40, 1}), keys = Segments::ragged({20, 7, 30, 2});
  const std::vector<Tensor<TestType>> inputs{device::random<TestType>({44, 6}, 1), device::random<TestType>({59, 6}, 2),
                                             device::random<TestType>({6}, 3), device::random<TestType>({59, 5}, 4),
                                             device::random<TestType>({44, 5}, 5)};
  const auto expected = run<TestType, Cuda>(queries, keys, 6, 5, inputs);
  const auto got = run<TestType, Cuda>(within(queries, 48), within(keys, 50), 6, 5, inputs);
  const index_t weights = expected.weights.size();
  CHECK(got.weights.size() == 44 * 50);
  CHECK(device::difference(got.weights.rows(0, weights), expected.weights.to_host(), 0) == "");
  CHECK(device::difference(got.weights.rows(weights, 1), Tensor<TestType>({1}, TestType(7)), 0) == "");
  CHECK(device::difference(got.out, expected.out.to_host(), 0) == "");
  CHECK(device::difference(got.dq, expected.dq.to_host(), 0) == "");
  CHECK(device::difference(got.dk, expected.dk.to_host(), 0) == "");
  CHECK(device::difference(got.dv, expected.dv.to_host(), 0) == "");
  CHECK(device::difference(got.dscores, expected.dscores.to_host(), 0) == "");
}

TEST_CASE("cuda: additive attention over nothing") {
  if (!device::present()) return;
  compare<float>(Segments(), Segments(), 4, 3);
  compare<float>(Segments::ragged({0, 0}), Segments::ragged({2, 0}), 4, 3);
  compare<float>(Segments::ragged({2, 0}), Segments::ragged({0, 0}), 4, 3);
}

}  // namespace
