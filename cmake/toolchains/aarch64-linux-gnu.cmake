# Compiles for 64-bit ARM with Debian's cross compiler and runs tests in QEMU: g++-aarch64-linux-gnu, qemu-user. Libraries with
# nothing but headers are taken from this machine; of others, those that are installed for arm64.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
find_program(ATTEND_QEMU NAMES qemu-aarch64 qemu-aarch64-static)
if(ATTEND_QEMU)
  set(CMAKE_CROSSCOMPILING_EMULATOR "${ATTEND_QEMU};-L;/usr/aarch64-linux-gnu")
endif()
