// As ../compiled.hpp, with the device's back end besides. A file that defines ATTEND_COMPILE_<type> compiles what is of that
// type.
#include "attend/core.hpp"
#include "attend/cuda.hpp"

#ifdef ATTEND_COMPILE_FLOAT
#define ATTEND_TEMPLATE template
#else
#define ATTEND_TEMPLATE extern template
#endif
#define ATTEND_T float
#define ATTEND_D Cpu
#include "attend/compiled_core.hpp"
#define ATTEND_T float
#define ATTEND_D Cuda
#include "attend/compiled_core.hpp"
ATTEND_TEMPLATE void attend::cpu::multiply<float>(const attend::cpu::Product<float>&, bool);
#undef ATTEND_TEMPLATE

#ifdef ATTEND_COMPILE_DOUBLE
#define ATTEND_TEMPLATE template
#else
#define ATTEND_TEMPLATE extern template
#endif
#define ATTEND_T double
#define ATTEND_D Cpu
#include "attend/compiled_core.hpp"
#define ATTEND_T double
#define ATTEND_D Cuda
#include "attend/compiled_core.hpp"
ATTEND_TEMPLATE void attend::cpu::multiply<double>(const attend::cpu::Product<double>&, bool);
#undef ATTEND_TEMPLATE

#ifdef ATTEND_COMPILE_BFLOAT16
#define ATTEND_TEMPLATE template
#else
#define ATTEND_TEMPLATE extern template
#endif
#define ATTEND_T bfloat16
#define ATTEND_D Cuda
#include "attend/compiled_core.hpp"
#undef ATTEND_TEMPLATE
