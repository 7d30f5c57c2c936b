#pragma once

// What all of the library needs of its compiler, said first: the headers that all others stand on include this first.
#if (defined(_MSVC_LANG) ? _MSVC_LANG : __cplusplus) < 202002L
#error "attend needs C++20: compile with -std=c++20, or let CMake do it by linking attend::core or attend::attend"
#endif

// Before functions that stand in a header, or in compiled.cpp alone if a program has that. There they are put out though nobody
// calls them, and may come from several of its parts.
#ifdef ATTEND_COMPILED
#define ATTEND_INLINE inline __attribute__((used))
#else
#define ATTEND_INLINE inline
#endif
