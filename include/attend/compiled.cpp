// Compiled once for a program with ATTEND_COMPILED: see compiled.hpp.

#include "attend/compiled.hpp"

#define ATTEND_TEMPLATE template
#include "attend/compiled.hpp"
#include "attend/cpu/guard.hpp"
#include "attend/io/averaging.hpp"
#include "attend/io/json_text.hpp"
#include "attend/io/pickle_machine.hpp"
#include "attend/io/safetensors_header_reader.hpp"
#include "attend/pretrained/generation_config.hpp"
#include "attend/pretrained/tokenizer_loader.hpp"
#include "attend/text/sentencepiece_making.hpp"
