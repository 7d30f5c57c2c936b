// See compiled_loading.hpp.
#include "compiled.hpp"
#define ATTEND_LOADING template
#include "compiled_loading.hpp"
