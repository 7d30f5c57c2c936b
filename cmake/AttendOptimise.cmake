# attend_optimise(<target> [PORTABLE]): compiles a program for the processor of this machine; it will not start on an older one.
# PORTABLE: for any processor of the kind; the kernels that fit it are chosen when the program starts. It takes longer to compile,
# and runs about as fast. It comes with the installed package too.
#
#   -march=native                 all instructions of this processor
#   -DATTEND_DISPATCH=0           and no choice of kernels; left out where the processor has AMX, which the system may refuse
#   -mprefer-vector-width=512     on processors with AVX-512, where compilers stop at 256 bits by themselves
#   -mtune=haswell                GCC on AMD: measured on Zen 3 with the products of another library, a quarter faster
#   -fno-math-errno, -fno-trapping-math    loops over sqrt and over branches become vector code; no result changes
#   -O3                           where no build type, CMAKE_CXX_FLAGS or option of the target says how far to optimise
include_guard(GLOBAL)
include(CheckCXXCompilerFlag)
include(CheckCXXSourceCompiles)

function(attend_find_optimise_flags)
  if(DEFINED CACHE{ATTEND_OPTIMISE_FLAGS})
    return()
  endif()
  set(flags)
  set(CMAKE_REQUIRED_QUIET ON)
  if(NOT CMAKE_CROSSCOMPILING AND CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang")
    set(flags -fno-math-errno -fno-trapping-math)
    check_cxx_compiler_flag(-march=native ATTEND_HAVE_MARCH_NATIVE)
    check_cxx_compiler_flag(-mcpu=native ATTEND_HAVE_MCPU_NATIVE)
    if(ATTEND_HAVE_MARCH_NATIVE)
      set(CMAKE_REQUIRED_FLAGS -march=native)
      check_cxx_source_compiles(
        "#if !defined(__AMX_BF16__) && !defined(__AMXBF16__)\n#error\n#endif\nint main() {}"
        ATTEND_HAVE_AMX)
      list(APPEND flags -march=native)
      if(NOT ATTEND_HAVE_AMX)
        list(APPEND flags -DATTEND_DISPATCH=0)
      endif()
    elseif(ATTEND_HAVE_MCPU_NATIVE) # some compilers for ARM and POWER
      list(APPEND flags -mcpu=native)
    endif()

    list(JOIN flags " " CMAKE_REQUIRED_FLAGS)
    check_cxx_source_compiles("#ifndef __AVX512F__\n#error\n#endif\nint main() {}" ATTEND_HAVE_AVX512)
    if(ATTEND_HAVE_AVX512)
      list(APPEND flags -mprefer-vector-width=512)
    endif()

    cmake_host_system_information(RESULT processor QUERY PROCESSOR_NAME)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND processor MATCHES "AMD" AND ATTEND_HAVE_MARCH_NATIVE)
      list(APPEND flags -mtune=haswell)
    endif()
    message(STATUS "attend: flags for this processor: ${flags}")
  endif()
  set(ATTEND_OPTIMISE_FLAGS "${flags}" CACHE INTERNAL "What attend_optimise adds")
endfunction()

function(attend_optimise target)
  cmake_parse_arguments(PARSE_ARGV 1 for "PORTABLE" "" "")
  if(for_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "attend_optimise(${target}): got ${for_UNPARSED_ARGUMENTS}, expected nothing or PORTABLE")
  endif()
  attend_find_optimise_flags()
  set(flags ${ATTEND_OPTIMISE_FLAGS})
  if(for_PORTABLE)
    list(FILTER flags EXCLUDE REGEX "^-(m|D)") # leaves -fno-math-errno and -fno-trapping-math
  endif()
  get_property(multi_config GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
  get_target_property(given ${target} COMPILE_OPTIONS) # those of add_compile_options with them
  set(given " ${CMAKE_CXX_FLAGS};${given}")
  if(NOT CMAKE_BUILD_TYPE AND NOT multi_config AND NOT given MATCHES "[ ;]-O" AND CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang")
    list(APPEND flags -O3)
    message(STATUS "attend: CMAKE_BUILD_TYPE is empty: ${target} is compiled with -O3 (CMAKE_BUILD_TYPE=Release does so for all)")
  endif()
  # Files for nvcc too: the library's functions must be compiled alike in all files of a program.
  list(TRANSFORM flags PREPEND "-Xcompiler=" OUTPUT_VARIABLE cuda_flags)
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${flags}>"
                                           "$<$<COMPILE_LANGUAGE:CUDA>:${cuda_flags}>")
endfunction()
