# Compiles for 64-bit Windows with Debian's MinGW-w64 and runs tests in Wine: g++-mingw-w64-x86-64-posix, wine64. Libraries are taken
# from CMAKE_PREFIX_PATH, see docs/platforms.md.
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(CMAKE_C_COMPILER x86_64-w64-mingw32-gcc-posix)
set(CMAKE_CXX_COMPILER x86_64-w64-mingw32-g++-posix)
set(CMAKE_RC_COMPILER x86_64-w64-mingw32-windres)
set(CMAKE_EXE_LINKER_FLAGS_INIT -static)
find_program(ATTEND_WINE NAMES wine64 wine PATHS /usr/lib/wine)
if(ATTEND_WINE)
  set(CMAKE_CROSSCOMPILING_EMULATOR "${ATTEND_WINE}")
endif()
