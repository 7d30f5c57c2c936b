// What the tests' programs use of the library's templates, compiled once, in compiled.cpp: included after the headers of all
// tests.
#include "attend/core.hpp"
#ifdef ATTEND_COMPILED
#include "attend/compiled.hpp"
#endif

#ifndef ATTEND_TEMPLATE
#define ATTEND_TEMPLATE extern template
#endif

#define ATTEND_T float
#define ATTEND_D Cpu
#include "attend/compiled_core.hpp"
#define ATTEND_T double
#define ATTEND_D Cpu
#include "attend/compiled_core.hpp"

ATTEND_TEMPLATE class attend::decode::detail::EagerSteps<float, attend::Cpu>;
ATTEND_TEMPLATE class attend::decode::detail::EagerSteps<double, attend::Cpu>;
ATTEND_TEMPLATE void attend::cpu::multiply<float>(const attend::cpu::Product<float>&, bool);
ATTEND_TEMPLATE void attend::cpu::multiply<double>(const attend::cpu::Product<double>&, bool);
ATTEND_TEMPLATE void attend::cpu::multiply_by_rows<float>(const attend::cpu::Product<float>&, bool, bool);
ATTEND_TEMPLATE void attend::cpu::multiply_by_rows<double>(const attend::cpu::Product<double>&, bool, bool);

#undef ATTEND_TEMPLATE
