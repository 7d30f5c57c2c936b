#pragma once

/// Whether the system lets a program have a part of a file as memory of its own (`io::map_privately`). On Windows all is read.
#if defined(_WIN32)
inline constexpr bool maps_privately = false;
#else
inline constexpr bool maps_privately = true;
#endif
