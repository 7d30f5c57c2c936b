// As compiled.hpp, for what opens folders.
#include "attend/load.hpp"

#ifndef ATTEND_LOADING
#define ATTEND_LOADING extern template
#endif

ATTEND_LOADING attend::TranslationModel<float> attend::load<float, attend::Cpu>(const std::filesystem::path&);
ATTEND_LOADING attend::TranslationModel<float> attend::io::load_marian<float, attend::Cpu>(const std::filesystem::path&);
ATTEND_LOADING attend::io::PretrainedModel<float> attend::io::load_pretrained<float, attend::Cpu>(const std::filesystem::path&);
ATTEND_LOADING attend::io::PretrainedModel<double> attend::io::load_pretrained<double, attend::Cpu>(const std::filesystem::path&);

#undef ATTEND_LOADING
