#pragma once

#include <filesystem>

#include "attend/load.hpp"
#include "attend/text/any_tokenizer.hpp"
#include "attend/train/run_folder.hpp"

namespace translate {

/// The model folder that a folder on the command line stands for: itself if it is of the `transformers` library, whatever its
/// weights are called, otherwise as train::model_folder says. Throws as that, and as attend::pretrained_family.
inline std::filesystem::path model_folder(const std::filesystem::path& folder) {
  return attend::is_pretrained_folder(folder) ? folder : attend::train::model_folder(folder);
}

/// The tokenizer there. Throws also as attend::load_tokenizer.
inline attend::text::AnyTokenizer tokenizer_of(const std::filesystem::path& folder) {
  return attend::load_tokenizer(model_folder(folder));
}

}  // namespace translate
