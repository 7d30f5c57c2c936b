#pragma once

#include <filesystem>

#include "attend/io/folder.hpp"
#include "attend/pretrained/pretrained_tokenizer.hpp"

/// Tokenizers in the folders of the `transformers` library.

namespace attend::text {

/// The tokenizer of a folder of the `transformers` library, of the families NLLB-200, mBART, mBART-50, M2M-100, T5 (mT5, umT5,
/// MADLAD-400) and BART, or any whose `tokenizer.json` has nothing but what these have. Which it is, `tokenizer_class` says in
/// `tokenizer_config.json` or `config.json`, or else `model_type`.
///
/// A SentencePiece model counts before `tokenizer.json`, since models were trained with it. The languages are those of the files
/// (`src_lang`, `tgt_lang`), for sources otherwise English; `with_languages` chooses others.
///
/// Throws IoError if files are missing, FormatError if one is not what it should be, or asks for what is not supported, by its
/// name.
PretrainedTokenizer load_pretrained_tokenizer(const io::FolderReader& folder);
/// The same.
inline PretrainedTokenizer load_pretrained_tokenizer(const std::filesystem::path& folder) {
  return load_pretrained_tokenizer(io::FolderReader(folder));
}

}  // namespace attend::text

#ifndef ATTEND_COMPILED
#include "attend/pretrained/tokenizer_loader.hpp"
#endif
