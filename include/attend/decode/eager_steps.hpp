#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "attend/cpu/softmax.hpp"
#include "attend/decode/shortlist_head.hpp"
#include "attend/decode/step_keys.hpp"
#include "attend/nn/transformer.hpp"

namespace attend::decode {

/// How a TransformerModel computes.
struct StepOptions {
  /// int8: products in 8-bit integers, bf16: of numbers rounded to bfloat16; both for float models on the CPU.
  Precision precision = Precision::full;
  /// Each step also gives each row's attention to its source, the mean over the heads of the decoder's last layer.
  bool attention = false;
};

namespace detail {

/// The steps of a TransformerModel, each computed as it comes.
template <class T, Device D>
class EagerSteps {
 public:
  struct State {
    SelfCache<T, D> cache;
    std::vector<Tensor<T, D>> source;  // a layer's keys and values of all sources, [source rows, heads * (d_k + d_v)]
    Tensor<index_t> spans;             // [2, rows]: of which of them row i attends to, the first and how many
    Tensor<index_t, D> device_spans;   // the same, where the kernels are
    index_t longest = 0;               // source
    Tensor<Wide<T>, D> attention;      // [rows, longest], of the last step
    std::shared_ptr<const ShortlistHead<T>> head;
    [[nodiscard]] index_t rows() const { return cache.rows(); }
    [[nodiscard]] index_t steps() const { return cache.steps(); }
  };

  explicit EagerSteps(const StepOptions& options) : options_(options) {}

  State begin(const nn::Transformer<T, D>& model, const Var<T, D>& memory, const Segments& segments,
              std::span<const token_t> head) const {
    State state{empty_cache(model.decoder, segments.count()), {}, source_spans(segments), {}, segments.longest(), {}, {}};
    if (!head.empty()) state.head = std::make_shared<const ShortlistHead<T>>(model, head, options_.precision);
    for (const auto& layer : model.decoder.layers)
      state.source.push_back(layer.cross.front().attention.project_kv(memory).value());
    state.device_spans = state.spans.template to<D>();
    return state;
  }

  /// The log-probabilities of what follows, [rows, vocabulary].
  Tensor<Wide<T>, D> step(const nn::Transformer<T, D>& model, State& state, std::span<const token_t> tokens) const {
    const auto decoded = decode(model, state, tokens);
    if (state.head) return state.head->log_probabilities(model.to_head(decoded).value());
    const auto logits = model.logits(decoded).value();
    Tensor<Wide<T>, D> y;
    if constexpr (std::same_as<T, Wide<T>>) y = logits;  // in place: nobody else reads them
    else y = Tensor<Wide<T>, D>(logits.shape());
    log_softmax_forward(D{}, y.dim(0), y.dim(1), logits.data(), y.data());
    return y;
  }
  /// What log-softmax makes these of. The state has no `head`.
  Tensor<T, D> logits(const nn::Transformer<T, D>& model, State& state, std::span<const token_t> tokens) const {
    return model.logits(decode(model, state, tokens)).value();
  }

  void reorder(const nn::Transformer<T, D>& /*model*/, State& state, std::span<const index_t> rows) const {
    state.cache.reorder(rows);
    state.attention = {};
    state.spans = reordered_spans(state.spans, rows);
    state.device_spans = state.spans.template to<D>();
  }

  /// [rows, longest source]: of the last step. Throws Error before one.
  Tensor<Wide<T>, D> attention(const State& state) const {
    if (state.attention.rank() != 2)
      throw Error("TransformerModel: attention is asked for before a step, or after rows have changed");
    return state.attention;
  }

  /// [2, sentences]: where each sentence's rows begin, and how many of them may be attended to.
  static Tensor<index_t> source_spans(const Segments& segments) {
    const Tensor<index_t> spans({2, segments.count()});
    for (index_t s = 0; s < segments.count(); ++s) spans(0, s) = segments.begin(s), spans(1, s) = segments.keys(s);
    return spans;
  }
  static Tensor<index_t> reordered_spans(const Tensor<index_t>& spans, std::span<const index_t> rows) {
    const auto count = count_of(rows);
    const Tensor<index_t> next({2, count});
    for (index_t i = 0; i < count; ++i)
      for (index_t k = 0; k < 2; ++k) next(k, i) = spans(k, nth(rows, i));
    return next;
  }

 private:
  /// What the decoder makes of one more token for each row, [rows, d_model].
  Var<T, D> decode(const nn::Transformer<T, D>& model, State& state, std::span<const token_t> tokens) const {
    const auto& decoder = model.decoder;
    const auto x = (*decoder.embed_tokens)(Tensor<token_t>({state.rows()}, tokens).template to<D>());  // [rows, d_model]
    state.cache.begin_step();
    std::vector<SourceKeys<T, D>> sources;
    for (const auto& kv : state.source)
      sources.push_back({kv.data(), kv.dim(1), state.device_spans.data(), state.device_spans.data() + state.rows()});
    if (options_.attention) {
      state.attention = Tensor<Wide<T>, D>({state.rows(), state.longest});
      sources.back().attention = state.attention.data(), sources.back().longest = state.longest;
    }
    return decoder.read(x, CachedReading<T, D>{state.cache, sources});
  }

  StepOptions options_;
};

}  // namespace detail

}  // namespace attend::decode
