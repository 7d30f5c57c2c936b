# attend_gemm(<target> own|eigen|blas): whose large matrix products in float and double a program computes with: this library's,
# Eigen's (3.4 or 5), or those of any CBLAS with 32-bit sizes (OpenBLAS, MKL, Accelerate; BLA_VENDOR of find_package(BLAS) chooses).
# For all files of a program alike. The threads are this library's: the other's are to be one (OPENBLAS_NUM_THREADS=1, and so on). It
# comes with the installed package too; within this tree the cache variable ATTEND_GEMM chooses for all programs.
include_guard(GLOBAL)
include(CheckFunctionExists)

# attend_eigen_options(<variable>): sets it to what whoever includes Eigen compiles with: without GCC's false alarms about uninitialised
# vectors in its own AVX-512 header (before 13, bug 105593) and in Eigen 5 (16).
function(attend_eigen_options variable)
  set(${variable} PARENT_SCOPE)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND (CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13 OR CMAKE_CXX_COMPILER_VERSION
                                                                                            VERSION_GREATER_EQUAL 16))
    set(${variable} "$<$<COMPILE_LANGUAGE:CXX>:-Wno-uninitialized;-Wno-maybe-uninitialized>" PARENT_SCOPE)
  endif()
endfunction()

# attend_find_eigen([GLOBAL]): find_package of either Eigen, whose packages do not pass for one another. Sets Eigen3_FOUND.
macro(attend_find_eigen)
  find_package(Eigen3 3.4 QUIET ${ARGN})
  if(NOT Eigen3_FOUND)
    find_package(Eigen3 5 QUIET ${ARGN})
  endif()
endmacro()

function(attend_gemm target provider)
  set(options)
  if(provider STREQUAL "own")
    return()
  elseif(provider STREQUAL "eigen")
    attend_find_eigen()
    if(NOT Eigen3_FOUND)
      message(FATAL_ERROR "attend_gemm(${target} eigen): there is no package Eigen3, version 3.4 or 5")
    endif()
    set(libraries Eigen3::Eigen)
    attend_eigen_options(options)
  elseif(provider STREQUAL "blas")
    find_package(BLAS REQUIRED)
    set(libraries BLAS::BLAS)
    set(CMAKE_REQUIRED_LIBRARIES BLAS::BLAS)
    unset(ATTEND_BLAS_IS_CBLAS CACHE) # BLA_VENDOR may be another
    check_function_exists(cblas_sgemm ATTEND_BLAS_IS_CBLAS)
    if(NOT ATTEND_BLAS_IS_CBLAS) # it has Fortran's names alone, and C's lie beside it
      find_library(ATTEND_CBLAS cblas REQUIRED)
      list(PREPEND libraries "${ATTEND_CBLAS}")
    endif()
  else()
    message(FATAL_ERROR "attend_gemm(${target}): got '${provider}', expected own, eigen or blas")
  endif()
  string(TOUPPER ${provider} name)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "INTERFACE_LIBRARY") # not exported: whoever installs the package chooses for its programs
    target_compile_options(${target} INTERFACE $<BUILD_INTERFACE:${options}>)
    target_compile_definitions(${target} INTERFACE $<BUILD_INTERFACE:ATTEND_GEMM_${name}>)
    target_link_libraries(${target} INTERFACE $<BUILD_INTERFACE:${libraries}>)
  else()
    target_compile_options(${target} PRIVATE ${options})
    target_compile_definitions(${target} PRIVATE ATTEND_GEMM_${name})
    target_link_libraries(${target} PRIVATE ${libraries})
  endif()
endfunction()
