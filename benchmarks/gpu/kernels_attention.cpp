// Attention of sentences of one length: its bytes, and its products, of which the backward has twice as many.

#include <cmath>

#include "kernels.hpp"

using namespace attend;

namespace gpu {

namespace {

/// Self-attention of `rows` rows in sentences of `length`, from packed queries, keys and values.
struct Arrays {
  AttentionLayout layout;
  Tensor<bfloat16, Cuda> qkv, out, dout, dqkv;
  Tensor<float, Cuda> kept;  // [2, rows, heads]

  Arrays(index_t rows, index_t length, index_t heads, index_t d, bool causal) {
    const index_t width = heads * d, sentences = rows / length;
    rows = sentences * length;
    layout.queries = layout.keys = Segments::dense(sentences, length);
    layout.heads = heads, layout.d_k = layout.d_v = d;
    layout.scale = 1 / std::sqrt(static_cast<double>(d)), layout.causal = causal;
    layout.q_stride = layout.k_stride = layout.v_stride = 3 * width, layout.out_stride = width;
    qkv = random_numbers<bfloat16>({rows, 3 * width}), dqkv = random_numbers<bfloat16>({rows, 3 * width});
    out = random_numbers<bfloat16>({rows, width}), dout = random_numbers<bfloat16>({rows, width});
    kept = Tensor<float, Cuda>({2, rows * heads});
  }
  [[nodiscard]] index_t width() const { return layout.heads * layout.d_k; }
  [[nodiscard]] SoftmaxRows<float> softmax() const { return {kept.data(), kept.data() + kept.dim(1)}; }
  [[nodiscard]] kernels::AttentionInputs<bfloat16> inputs() const {
    return {qkv.data(), qkv.data() + width(), qkv.data() + 2 * width()};
  }
  void forward() const { attention_forward<bfloat16>(Cuda{}, layout, inputs(), nullptr, softmax(), out.data()); }
  void backward() const {
    bfloat16* dx = dqkv.data();
    attention_backward<bfloat16>(Cuda{}, layout, dout.data(), inputs(), softmax(), {dx, dx + width(), dx + 2 * width()});
  }
};

}  // namespace

void attention(const Bench& bench) {
  constexpr index_t d = 64;
  const index_t heads = std::max<index_t>(1, bench.sizes.width / d);
  for (const index_t length : {25, 64, 256})
    for (const bool causal : {false, true}) {
      const index_t rows = std::max(bench.sizes.rows, length) / length * length;
      const double matrix = bytes_of<bfloat16>(rows * heads * d), softmax = 2 * bytes_of<float>(rows * heads);
      const double seen = static_cast<double>(causal ? length + 1 : 2 * length) / 2;  // keys of a query, on average
      const double flops = 2 * static_cast<double>(rows * heads * 2 * d) * seen;
      const std::string name = "attention of " + std::to_string(length) + (causal ? ", causal" : "");
      bench.measure(name, {4 * matrix + softmax, flops},
                    [&] { return [a = Arrays(rows, length, heads, d, causal)] { a.forward(); }; });
      bench.measure(name + ", backward", {7 * matrix + softmax, 2 * flops}, [&] {
        Arrays arrays(rows, length, heads, d, causal);
        arrays.forward();
        return [a = std::move(arrays)] { a.backward(); };
      });
    }
}

}  // namespace gpu
