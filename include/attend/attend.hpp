#pragma once

/// All that a CPU program needs: tensors, operations, modules, training, decoding, text and files.
/// It needs nlohmann-json and SentencePiece. A program that uses only networks and searches includes `attend/core.hpp`, which
/// needs no other library.

#if (defined(_MSVC_LANG) ? _MSVC_LANG : __cplusplus) < 202002L
#error "attend needs C++20: compile with -std=c++20, or let CMake do it by linking attend::core or attend::attend"
#else

#include "attend/adapters.hpp"
#include "attend/core.hpp"
#include "attend/io/average.hpp"
#include "attend/io/model.hpp"
#include "attend/io/torch.hpp"
#include "attend/load.hpp"
#include "attend/marian.hpp"
#include "attend/pretrained.hpp"
#include "attend/text/bleu.hpp"
#include "attend/text/chrf.hpp"
#include "attend/text/corpus.hpp"
#include "attend/text/sentencepiece.hpp"
#include "attend/text/split_sentences.hpp"
#include "attend/train/fit.hpp"
#include "attend/train/interrupt.hpp"
#include "attend/train/recipe.hpp"
#include "attend/translate/search_file.hpp"
#include "attend/translate/shortlist.hpp"
#include "attend/translate/translator.hpp"

#ifdef ATTEND_COMPILED
#include "attend/compiled.hpp"
#endif

#endif  // C++20
