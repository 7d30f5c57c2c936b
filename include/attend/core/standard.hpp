#pragma once

// What all of the library needs of its compiler, said first: the headers that all others stand on include this first.
#if (defined(_MSVC_LANG) ? _MSVC_LANG : __cplusplus) < 202002L
#error "attend needs C++20: compile with -std=c++20, or let CMake do it by linking attend::core or attend::attend"
#endif
