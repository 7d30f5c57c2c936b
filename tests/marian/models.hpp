#pragma once

#include "attend/load.hpp"

// What takes long to compile is compiled once for all files of these tests, in load_test.cpp.
namespace attend {

#ifndef ATTEND_MARIAN_TEMPLATE
#define ATTEND_MARIAN_TEMPLATE extern template
#endif

ATTEND_MARIAN_TEMPLATE nn::Transformer<float>::Transformer(const nn::ModelOptions&);
ATTEND_MARIAN_TEMPLATE nn::Transformer<float> io::load_model<float, Cpu>(const std::filesystem::path&);
ATTEND_MARIAN_TEMPLATE TranslationModel<float> io::load_marian<float, Cpu>(const std::filesystem::path&);

}  // namespace attend

namespace marian {

/// The logits of a model, [target rows, vocabulary].
attend::Tensor<float> logits(const attend::nn::Transformer<float>& model, const attend::Tensor<attend::token_t>& source,
                             const attend::Segments& sources, const attend::Tensor<attend::token_t>& target,
                             const attend::Segments& targets);

}  // namespace marian
