// Compiled once for a program with ATTEND_COMPILED: see compiled.hpp.

#define ATTEND_TEMPLATE template
#include "attend/compiled.hpp"

#include "attend/text/sentencepiece_making.hpp"
