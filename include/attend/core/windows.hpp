#pragma once

/// Windows' own declarations, the lean ones, and without some macros that take common words from a program: `min`, `max`, `near`,
/// `far`.

#if defined(_WIN32)
#if !defined(WIN32_LEAN_AND_MEAN)
#define WIN32_LEAN_AND_MEAN
#endif
#if !defined(NOMINMAX)
#define NOMINMAX
#endif
#include <windows.h>
#undef near
#undef far
#undef NEAR
#undef FAR
#define NEAR  // which other headers of Windows still use
#define FAR
#endif
