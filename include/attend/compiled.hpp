/// For programs that want to compile faster than a library of headers lets them: what most of them use of attend.hpp is compiled
/// once, in compiled.cpp, and no longer in every file that includes attend.hpp or core.hpp. Nothing else changes: other types and
/// whatever is missing here are compiled where they are used, as ever.
///
/// With CMake, link `attend::compiled` besides `attend::attend`, which also precompiles attend.hpp. Without CMake, define
/// ATTEND_COMPILED for all files and add `attend/compiled.cpp` to them, with the flags that they have.
///
/// No `#pragma once`: compiled.cpp includes this a second time, and then instantiates what the first time declared.

#if (defined(_MSVC_LANG) ? _MSVC_LANG : __cplusplus) < 202002L
#error "attend needs C++20: compile with -std=c++20, or let CMake do it by linking attend::core or attend::attend"
#else

#include "attend/adapters.hpp"
#include "attend/core.hpp"
#include "attend/io/model.hpp"
#include "attend/load.hpp"
#include "attend/text/any_tokenizer.hpp"
#include "attend/text/corpus.hpp"
#include "attend/text/sentencepiece.hpp"
#include "attend/train/fit.hpp"
#include "attend/translate/shortlist.hpp"
#include "attend/translate/translator.hpp"

#ifndef ATTEND_TEMPLATE
#define ATTEND_TEMPLATE extern template
#else  // compiled.cpp leaves out the `extern`; core.hpp declares these
#define ATTEND_T float
#define ATTEND_D Cpu
#include "attend/compiled_core.hpp"
#endif

ATTEND_TEMPLATE class nlohmann::detail::serializer<nlohmann::json>;
ATTEND_TEMPLATE class nlohmann::detail::lexer<nlohmann::json, nlohmann::detail::iterator_input_adapter<const char*>>;
ATTEND_TEMPLATE class nlohmann::detail::parser<nlohmann::json, nlohmann::detail::iterator_input_adapter<const char*>>;

namespace attend {

ATTEND_TEMPLATE void cpu::multiply(const cpu::Product<float>&, bool);
ATTEND_TEMPLATE void cpu::multiply_by_rows(const cpu::Product<float>&, bool, bool);
ATTEND_TEMPLATE std::unique_ptr<kernels::PackedProduct<float>> kernels::pack_matrix(Cpu, const kernels::Matrix<const float>&,
                                                                                    kernels::PackingObserver*);
ATTEND_TEMPLATE std::unique_ptr<kernels::PackedProduct<float>> kernels::pack_int8(Cpu, const kernels::Matrix<const float>&,
                                                                                  kernels::PackingObserver*);
ATTEND_TEMPLATE class cpu::PackedMatrix<float>;
ATTEND_TEMPLATE void kernels::gemm_bf16<float>(Cpu, kernels::Matrix<const float>, kernels::Matrix<const float>, const float*,
                                               kernels::Matrix<float>, const kernels::ProductOptions&);
ATTEND_TEMPLATE void kernels::gemm_bf16_batched<float>(Cpu, index_t, kernels::Matrices<const float>,
                                                       kernels::Matrices<const float>, kernels::Matrices<float>,
                                                       const kernels::ProductOptions&);
ATTEND_TEMPLATE std::unique_ptr<kernels::PackedProduct<float>> kernels::pack_bf16(Cpu, const kernels::Matrix<const float>&,
                                                                                  kernels::PackingObserver*);
ATTEND_TEMPLATE class decode::detail::EagerSteps<float, Cpu>;
ATTEND_TEMPLATE class optim::Muon<float>;
ATTEND_TEMPLATE class optim::AnyOptimizer<float>;
ATTEND_TEMPLATE class optim::WeightAverage<float>;
ATTEND_TEMPLATE class train::BatchGradients<nn::Transformer<float>>;
ATTEND_TEMPLATE class train::MemoryOfRanks<float, Cpu>;
ATTEND_TEMPLATE class train::SumsOfRanks<float, Cpu>;
ATTEND_TEMPLATE class train::SharedUpdate<float, Cpu>;
ATTEND_TEMPLATE std::optional<double> train::Validation::loss(nn::Transformer<float>&, const std::atomic<bool>*,
                                                              const train::Ranks&) const;
ATTEND_TEMPLATE void train::write_training_state(const std::filesystem::path&, const train::TrainingState&,
                                                 const train::RunIdentity&, const nn::Transformer<float>&,
                                                 const optim::OptimizerState<float, Cpu>&, const std::string&);
ATTEND_TEMPLATE train::TrainingState train::read_training_state(const std::filesystem::path&, const train::RunIdentity&,
                                                                const nn::Transformer<float>&, optim::OptimizerState<float, Cpu>&,
                                                                const std::string&);
ATTEND_TEMPLATE text::CorpusReport text::for_each_pair(const std::filesystem::path&, const text::ReadOptions&,
                                                       detail::AppendPair&&);
ATTEND_TEMPLATE text::CorpusReport text::for_each_pair(const std::filesystem::path&, const std::filesystem::path&,
                                                       const text::ReadOptions&, detail::AppendPair&&);
ATTEND_TEMPLATE class train::Trainer<nn::Transformer<float>>;
ATTEND_TEMPLATE train::FitReport train::fit(nn::Transformer<float>&, const text::Corpus&, const text::SentencePiece&,
                                            const train::FitOptions&, const train::Teacher<float>&);
ATTEND_TEMPLATE void io::save(const std::filesystem::path&, const nn::Transformer<float>&, const io::SaveOptions&);
ATTEND_TEMPLATE void io::save(const std::filesystem::path&, const nn::Transformer<float>&, const text::SentencePiece&,
                              const io::SaveOptions&);
ATTEND_TEMPLATE nn::Transformer<float> io::load_model<float, Cpu>(const std::filesystem::path&);
ATTEND_TEMPLATE TranslationModel<float> io::load_marian<float, Cpu>(const std::filesystem::path&);
ATTEND_TEMPLATE io::PretrainedModel<float> io::load_pretrained<float, Cpu>(const std::filesystem::path&);
ATTEND_TEMPLATE void io::load_adapters(const std::filesystem::path&, nn::Transformer<float>&);
ATTEND_TEMPLATE void io::save_adapters(const std::filesystem::path&, const nn::Transformer<float>&,
                                       const io::SaveAdaptersOptions&);
ATTEND_TEMPLATE TranslationModel<float> load<float, Cpu>(const std::filesystem::path&);
ATTEND_TEMPLATE void check_fields(const char*, const nn::StackOptions&, const std::string&);
ATTEND_TEMPLATE void check_fields(const char*, const train::FitOptions&, const std::string&);
ATTEND_TEMPLATE void check_fields(const char*, const decode::TranslatorOptions&, const std::string&);
ATTEND_TEMPLATE io::Json io::options_to_json(const nn::StackOptions&);
ATTEND_TEMPLATE io::Json io::options_to_json(const nn::ModelOptions&);
ATTEND_TEMPLATE io::Json io::options_to_json(const nn::AdapterOptions&);
ATTEND_TEMPLATE io::Json io::options_to_json(const decode::TranslatorOptions&);
ATTEND_TEMPLATE nn::ModelOptions io::options_from_json(const io::JsonObject&);
ATTEND_TEMPLATE decode::TranslatorOptions io::options_from_json(const io::JsonObject&);
namespace decode::detail {
using CompiledModel = const TransformerModel<float, Cpu>;
using CompiledSystem = TranslationSystem<float, Cpu>;
ATTEND_TEMPLATE class PartSearch<CompiledSystem>;
ATTEND_TEMPLATE class TargetReading<CompiledSystem>;
ATTEND_TEMPLATE CutSentences cut_sentences(const CompiledSystem&, std::span<const std::string>, std::size_t,
                                           std::span<const std::string>);
ATTEND_TEMPLATE Results<Translation> alternatives(const CompiledSystem&, std::string_view, std::string_view, index_t,
                                                  std::size_t);
}  // namespace decode::detail
namespace decode {
ATTEND_TEMPLATE Shortlist Shortlist::learn(const train::EncodedPairs&, index_t, index_t, const ShortlistOptions&);
ATTEND_TEMPLATE Results<Hypothesis> greedy(detail::CompiledModel&, detail::CompiledModel::State&, index_t, const GreedyOptions&);
ATTEND_TEMPLATE Results<Results<Hypothesis>> beam_search(detail::CompiledModel&, detail::CompiledModel::State&, index_t,
                                                         const BeamOptions&);
ATTEND_TEMPLATE Results<Results<Hypothesis>> sample(detail::CompiledModel&, detail::CompiledModel::State&, index_t,
                                                    const SampleOptions&);
}  // namespace decode
ATTEND_TEMPLATE class decode::Translator<text::AnyTokenizer, float>;
ATTEND_TEMPLATE decode::Translator<text::SentencePiece, float>::Translator(const nn::Transformer<float>&, text::SentencePiece,
                                                                           const decode::TranslatorOptions&);
ATTEND_TEMPLATE decode::Translator<text::SentencePiece, float>::Translator(const std::vector<nn::Transformer<float>>&,
                                                                           text::SentencePiece, const decode::TranslatorOptions&);
ATTEND_TEMPLATE decode::TranslationLists decode::Translator<text::SentencePiece, float>::translate(
    std::span<const std::string>, std::size_t, std::span<const std::string>) const;

}  // namespace attend

#undef ATTEND_TEMPLATE

#endif  // C++20
