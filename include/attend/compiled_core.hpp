// What most programs use of core.hpp's templates, declared or made as ATTEND_TEMPLATE says (`extern template`, `template`), for
// the numbers ATTEND_T on the device ATTEND_D. No `#pragma once`: it is included for each pair of them, after core.hpp. What is
// missing here is compiled where it is used; what is worth a line is what several files of a program would compile.

#ifdef ATTEND_T  // otherwise somebody has included this by itself
#define ATTEND_VAR Var<ATTEND_T, ATTEND_D>

namespace attend {

ATTEND_TEMPLATE class Var<ATTEND_T, ATTEND_D>;
ATTEND_TEMPLATE class PackedWeights<ATTEND_T, ATTEND_D>;

ATTEND_TEMPLATE ATTEND_VAR activate(const ATTEND_VAR&, Activation);
ATTEND_TEMPLATE ATTEND_VAR activate_dropout(const ATTEND_VAR&, Activation, double, Generator&);
ATTEND_TEMPLATE ATTEND_VAR add(const ATTEND_VAR&, const ATTEND_VAR&);
ATTEND_TEMPLATE ATTEND_VAR sub(const ATTEND_VAR&, const ATTEND_VAR&);
ATTEND_TEMPLATE ATTEND_VAR mul(const ATTEND_VAR&, const ATTEND_VAR&);
ATTEND_TEMPLATE ATTEND_VAR div(const ATTEND_VAR&, const ATTEND_VAR&);
ATTEND_TEMPLATE ATTEND_VAR add_dropout(const ATTEND_VAR&, const ATTEND_VAR&, double, Generator&);
ATTEND_TEMPLATE ATTEND_VAR add_dropout_norm<ATTEND_T, ATTEND_D>(const ATTEND_VAR&, const ATTEND_VAR&, double,
                                                                const NormParameters<ATTEND_T, ATTEND_D>&, Generator&);
ATTEND_TEMPLATE SumAndNorm<ATTEND_T, ATTEND_D> add_dropout_and_norm<ATTEND_T, ATTEND_D>(const ATTEND_VAR&, const ATTEND_VAR&,
                                                                                        double,
                                                                                        const NormParameters<ATTEND_T, ATTEND_D>&,
                                                                                        Generator&);
ATTEND_TEMPLATE ATTEND_VAR add_positions(const ATTEND_VAR&, const ATTEND_VAR&, const Segments&);
ATTEND_TEMPLATE ATTEND_VAR additive_attention<ATTEND_T, ATTEND_D>(const ATTEND_VAR&, const ATTEND_VAR&, const ATTEND_VAR&,
                                                                  const ATTEND_VAR&,
                                                                  const AdditiveAttentionCall<ATTEND_T, ATTEND_D>&);
ATTEND_TEMPLATE ATTEND_VAR detail::attention(const detail::Projections<ATTEND_T, ATTEND_D>&, const Segments&, const Segments&,
                                             const AttentionOptions<ATTEND_T, ATTEND_D>&);
ATTEND_TEMPLATE Var<Wide<ATTEND_T>, ATTEND_D> cross_entropy(const ATTEND_VAR&, const Tensor<token_t, ATTEND_D>&,
                                                            const CrossEntropyOptions&);
ATTEND_TEMPLATE Var<Wide<ATTEND_T>, ATTEND_D> detail::linear_cross_entropy(const ATTEND_VAR&, const ATTEND_VAR&,
                                                                           const ATTEND_VAR*, const Tensor<token_t, ATTEND_D>&,
                                                                           const CrossEntropyOptions&, index_t);
ATTEND_TEMPLATE Var<Wide<ATTEND_T>, ATTEND_D> distillation_loss(const ATTEND_VAR&, const Tensor<ATTEND_T, ATTEND_D>&,
                                                                const Tensor<token_t, ATTEND_D>&, const DistillationOptions&);
ATTEND_TEMPLATE Var<Wide<ATTEND_T>, ATTEND_D> detail::linear_distillation_loss(const LinearLogits<ATTEND_T, ATTEND_D>&,
                                                                               const LinearLogits<ATTEND_T, ATTEND_D>&,
                                                                               const Tensor<token_t, ATTEND_D>&,
                                                                               const DistillationOptions&, index_t);
ATTEND_TEMPLATE ATTEND_VAR dropout(const ATTEND_VAR&, double, Generator&);
ATTEND_TEMPLATE ATTEND_VAR embedding(const ATTEND_VAR&, const Tensor<token_t, ATTEND_D>&, double);
ATTEND_TEMPLATE ATTEND_VAR feed_forward(const ATTEND_VAR&, const ATTEND_VAR&, const ATTEND_VAR&, const ATTEND_VAR&,
                                        const ATTEND_VAR&, Activation);
ATTEND_TEMPLATE ATTEND_VAR gated(const ATTEND_VAR&, const ATTEND_VAR&, Activation);
ATTEND_TEMPLATE ATTEND_VAR linear_rows<ATTEND_T, ATTEND_D>(const ATTEND_VAR&, const ATTEND_VAR&, const std::optional<ATTEND_VAR>&,
                                                           index_t, index_t, const PackedWeights<ATTEND_T, ATTEND_D>*);
ATTEND_TEMPLATE ATTEND_VAR log_softmax(const ATTEND_VAR&);
ATTEND_TEMPLATE ATTEND_VAR matmul(const ATTEND_VAR&, const ATTEND_VAR&, const MatmulOptions&);
ATTEND_TEMPLATE ATTEND_VAR normalize<ATTEND_T, ATTEND_D>(const ATTEND_VAR&, const NormParameters<ATTEND_T, ATTEND_D>&,
                                                         const char*);
ATTEND_TEMPLATE ATTEND_VAR permute(const ATTEND_VAR&, std::span<const index_t>);
ATTEND_TEMPLATE ATTEND_VAR concatenate(std::span<const ATTEND_VAR>, index_t);
ATTEND_TEMPLATE ATTEND_VAR rotary(const ATTEND_VAR&, const Tensor<Wide<ATTEND_T>, ATTEND_D>&, const Places&,
                                  const RotaryOptions&);
ATTEND_TEMPLATE ATTEND_VAR slice(const ATTEND_VAR&, index_t, index_t, index_t);
ATTEND_TEMPLATE ATTEND_VAR softmax(const ATTEND_VAR&);
ATTEND_TEMPLATE ATTEND_VAR sum(const ATTEND_VAR&);

namespace nn {
ATTEND_TEMPLATE struct Linear<ATTEND_T, ATTEND_D>;
ATTEND_TEMPLATE struct Embedding<ATTEND_T, ATTEND_D>;
ATTEND_TEMPLATE struct FeedForward<ATTEND_T, ATTEND_D>;
ATTEND_TEMPLATE struct Norm<ATTEND_T, ATTEND_D>;
ATTEND_TEMPLATE struct Positions<ATTEND_T, ATTEND_D>;
ATTEND_TEMPLATE struct AttentionPositions<ATTEND_T, ATTEND_D>;
ATTEND_TEMPLATE struct MultiHeadAttention<ATTEND_T, ATTEND_D>;
ATTEND_TEMPLATE struct Block<ATTEND_T, ATTEND_D>;
ATTEND_TEMPLATE ResidualStream<ATTEND_T, ATTEND_D> Block<ATTEND_T, ATTEND_D>::read(ResidualStream<ATTEND_T, ATTEND_D>,
                                                                                   const WholeSentences<ATTEND_T, ATTEND_D>&,
                                                                                   index_t) const;
ATTEND_TEMPLATE struct Stack<ATTEND_T, ATTEND_D>;
ATTEND_TEMPLATE struct Transformer<ATTEND_T, ATTEND_D>;
ATTEND_TEMPLATE std::vector<NamedTensor<ATTEND_T, ATTEND_D>> named_tensors(const Transformer<ATTEND_T, ATTEND_D>&);
ATTEND_TEMPLATE std::vector<Adaptable<ATTEND_T, ATTEND_D>> adaptables(const Transformer<ATTEND_T, ATTEND_D>&);
ATTEND_TEMPLATE std::vector<Dropout*> detail::dropouts(const Transformer<ATTEND_T, ATTEND_D>&);
}  // namespace nn

ATTEND_TEMPLATE class optim::FlatParameters<ATTEND_T, ATTEND_D>;
ATTEND_TEMPLATE class optim::OptimizerBase<ATTEND_T, ATTEND_D>;
ATTEND_TEMPLATE class optim::Adam<ATTEND_T, ATTEND_D>;

namespace decode {
ATTEND_TEMPLATE class TransformerModel<ATTEND_T, ATTEND_D>;
ATTEND_TEMPLATE Results<Hypothesis> greedy(TransformerModel<ATTEND_T, ATTEND_D>&, TransformerModel<ATTEND_T, ATTEND_D>::State&,
                                           index_t, const GreedyOptions&);
ATTEND_TEMPLATE Results<Results<Hypothesis>> beam_search(TransformerModel<ATTEND_T, ATTEND_D>&,
                                                         TransformerModel<ATTEND_T, ATTEND_D>::State&, index_t,
                                                         const BeamOptions&);
ATTEND_TEMPLATE Results<Results<Hypothesis>> sample(TransformerModel<ATTEND_T, ATTEND_D>&,
                                                    TransformerModel<ATTEND_T, ATTEND_D>::State&, index_t, const SampleOptions&);
ATTEND_TEMPLATE class Ensemble<TransformerModel<ATTEND_T, ATTEND_D>>;
ATTEND_TEMPLATE Results<Hypothesis> greedy(const Ensemble<TransformerModel<ATTEND_T, ATTEND_D>>&,
                                           Ensemble<TransformerModel<ATTEND_T, ATTEND_D>>::State&, index_t, const GreedyOptions&);
ATTEND_TEMPLATE Results<Results<Hypothesis>> beam_search(const Ensemble<TransformerModel<ATTEND_T, ATTEND_D>>&,
                                                         Ensemble<TransformerModel<ATTEND_T, ATTEND_D>>::State&, index_t,
                                                         const BeamOptions&);
ATTEND_TEMPLATE Results<Results<Hypothesis>> sample(const Ensemble<TransformerModel<ATTEND_T, ATTEND_D>>&,
                                                    Ensemble<TransformerModel<ATTEND_T, ATTEND_D>>::State&, index_t,
                                                    const SampleOptions&);
ATTEND_TEMPLATE std::vector<detail::ForcedTarget> detail::force_targets(const nn::Transformer<ATTEND_T, ATTEND_D>&,
                                                                        std::span<const std::vector<token_t>>,
                                                                        std::span<const std::vector<token_t>>, const ForcedPass&);
}  // namespace decode

}  // namespace attend

#undef ATTEND_VAR
#undef ATTEND_T
#undef ATTEND_D
#endif
