#pragma once

#include "attend/core/segments.hpp"
#include "attend/nn/transformer_options.hpp"

/// The additions and multiplications that a training step cannot do without: those in products, forward and backward, of real
/// tokens. A causal attention counts the pairs that see each other. Additions of biases, norms, softmax and the optimizer are
/// not counted.
namespace compare {

class Work {
 public:
  /// y = x W: forward, dW, and dx if somebody wants it.
  void linear(double rows, double in, double out, bool input_gradient = true) {
    flops_ += 2 * rows * in * out * (input_gradient ? 3 : 2);
  }
  /// Scores and weighted values of so many pairs of a query and a key in each head; their backward is four products.
  void attention(double pairs, double heads, double d_k, double d_v) { flops_ += 2 * pairs * heads * (d_k + d_v) * 3; }

  /// An encoder of these sentences. `vectors`: it begins with vectors, which want no gradient.
  void encoder(const attend::nn::StackOptions& o, const attend::Segments& sentences) {
    const double rows = static_cast<double>(sentences.rows());
    for (attend::index_t l = 0; l < o.layers; ++l) {
      self_attention(o, sentences, false, l > 0 || o.vocabulary > 0);
      feed_forward(o, rows);
    }
  }
  /// A decoder (or, with one layer, a block of one). `memory_gradient`: what it attends to wants one.
  void decoder(const attend::nn::StackOptions& o, const attend::Segments& sentences, const attend::Segments& memory, bool causal,
               bool memory_gradient = true) {
    const double rows = static_cast<double>(sentences.rows()), width = static_cast<double>(o.d_model);
    const double heads = static_cast<double>(o.heads), d_k = head_width(o), d_v = value_width(o);
    const attend::index_t crosses = attend::nn::resolved(o, attend::nn::StackKind::decoder).cross_attentions;
    for (attend::index_t l = 0; l < o.layers; ++l) {
      self_attention(o, sentences, causal, l > 0 || o.vocabulary > 0);
      for (attend::index_t c = 0; c < crosses; ++c) {
        linear(rows, width, heads * d_k);
        linear(static_cast<double>(memory.rows()), width, heads * (d_k + d_v), memory_gradient);
        attention(pairs(sentences, memory, false), heads, d_k, d_v);
        linear(rows, heads * d_v, width);
      }
      feed_forward(o, rows);
    }
  }
  [[nodiscard]] double flops() const { return flops_; }

 private:
  static double head_width(const attend::nn::StackOptions& o) { return static_cast<double>(o.d_k ? o.d_k : o.d_model / o.heads); }
  static double value_width(const attend::nn::StackOptions& o) { return o.d_v ? static_cast<double>(o.d_v) : head_width(o); }
  static double pairs(const attend::Segments& queries, const attend::Segments& keys, bool causal) {
    double count = 0;
    for (attend::index_t i = 0; i < queries.count(); ++i) {
      const double n = static_cast<double>(queries.length(i)), m = static_cast<double>(keys.keys(i));
      count += causal ? n * (n + 1) / 2 : n * m;
    }
    return count;
  }
  void self_attention(const attend::nn::StackOptions& o, const attend::Segments& sentences, bool causal, bool input_gradient) {
    const double rows = static_cast<double>(sentences.rows()), width = static_cast<double>(o.d_model);
    const double heads = static_cast<double>(o.heads), d_k = head_width(o), d_v = value_width(o);
    linear(rows, width, heads * (2 * d_k + d_v), input_gradient);
    attention(pairs(sentences, sentences, causal), heads, d_k, d_v);
    linear(rows, heads * d_v, width);
  }
  void feed_forward(const attend::nn::StackOptions& o, double rows) {
    const double width = static_cast<double>(o.d_model), inner = static_cast<double>(o.d_ff);
    linear(rows, width, inner);
    linear(rows, inner, width);
  }

  double flops_ = 0;
};

}  // namespace compare
