// As ../compiled.hpp, with the device's back end besides, which compiled_<type>.cpp compile.
#include "../compiled.hpp"
#include "attend/compiled_cuda.hpp"

#define ATTEND_TEMPLATE extern template
#define ATTEND_T double
#define ATTEND_D Cuda
#include "attend/compiled_core.hpp"
#undef ATTEND_TEMPLATE
