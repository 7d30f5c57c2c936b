# The library's targets. Every header lies in one include folder; what a target adds is the packages that its headers need.
#
#   attend::core     tensors, autograd, operations, modules, optimizers,     threads
#                    search
#   attend::io       safetensors and model folders                           + nlohmann-json
#   attend::text     corpora, SentencePiece, BLEU, chrF                      + SentencePiece
#   attend::attend   all of it: training, decoding, <attend/attend.hpp>
#   attend::compiled the same, precompiled, and what most programs use of it is compiled in one file of its own
#
#   attend::mpi      ranks that are processes of MPI, <attend/mpi.hpp>       + an MPI
#   attend::nccl     ranks that exchange what lies on their GPUs, <attend/nccl.hpp>   + NCCL
#   attend::cuda     the back end for NVIDIA GPUs, <attend/cuda.hpp>         + CUDA's runtime, cuBLAS and cuBLASLt
#   attend::compiled_cuda   the same, and what most programs use of it is compiled in files of its own
#   attend::eigen    tensors as Eigen's matrices, <attend/eigen.hpp>         + Eigen

# Headers above the floors that come with another target than attend.
set(attend_with_core "/attend/(core|version)\\.hpp$")
set(attend_elsewhere "${attend_with_core}|/attend/(cuda|compiled_cuda|eigen|mpi|nccl)\\.hpp$")

# attend_library(<name> FLOORS <folder>... LINK <target>...)
function(attend_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "FLOORS;LINK")
  set(include "${PROJECT_SOURCE_DIR}/include")
  set(globs)
  foreach(floor IN LISTS arg_FLOORS)
    list(APPEND globs "${include}/attend/${floor}*.hpp")
  endforeach()
  file(GLOB headers CONFIGURE_DEPENDS ${globs})
  list(FILTER headers EXCLUDE REGEX "${attend_elsewhere}")
  if(attend_with_${name})
    file(GLOB_RECURSE others CONFIGURE_DEPENDS "${include}/attend/*.hpp")
    list(FILTER others INCLUDE REGEX "${attend_with_${name}}")
    list(APPEND headers ${others})
  endif()

  if(name STREQUAL "attend")
    set(target attend)
  else()
    set(target attend_${name})
  endif()
  add_library(${target} INTERFACE)
  add_library(attend::${name} ALIAS ${target})
  target_sources(${target} INTERFACE FILE_SET HEADERS BASE_DIRS "${include}" FILES ${headers})
  target_compile_features(${target} INTERFACE cxx_std_20)
  target_link_libraries(${target} INTERFACE ${arg_LINK})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
endfunction()

attend_library(
  core
  FLOORS core/ kernels/ autograd/ cpu/ ops/ nn/ optim/ decode/
  LINK Threads::Threads)
set(ATTEND_LIBRARIES core)
# GCC for Windows: see cpu/processor.hpp; and an unoptimised file has more sections than its format has numbers for.
if(MINGW AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(attend_core INTERFACE -Wa,-muse-unaligned-vector-move -Wa,-mbig-obj)
  target_compile_definitions(attend_core INTERFACE ATTEND_UNALIGNED_MOVES)
endif()

# Installed always, for it is headers and names: the program that asks for the component finds the toolkit. In this tree and
# in projects that take it in it is there with ATTEND_CUDA.
add_library(attend_cuda INTERFACE)
file(GLOB headers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/include/attend/cuda/*/*.cuh")
target_sources(
  attend_cuda INTERFACE FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}/include"
                        FILES "${PROJECT_SOURCE_DIR}/include/attend/cuda.hpp" "${PROJECT_SOURCE_DIR}/include/attend/compiled_cuda.hpp"
                              ${headers})
# A CUDA compiler compiles these headers, which CMAKE_VERIFY_INTERFACE_HEADER_SETS knows nothing of.
set_target_properties(attend_cuda PROPERTIES EXPORT_NAME cuda VERIFY_INTERFACE_HEADER_SETS OFF)
target_link_libraries(attend_cuda INTERFACE attend_core CUDA::cudart CUDA::cublas CUDA::cublasLt)
list(APPEND ATTEND_LIBRARIES cuda)
if(ATTEND_CUDA)
  add_library(attend::cuda ALIAS attend_cuda)
  if("cuda_std_20" IN_LIST CMAKE_CUDA_COMPILE_FEATURES)
    target_compile_features(attend_cuda INTERFACE $<BUILD_INTERFACE:cuda_std_20>)
  else() # a CMake older than the toolkit
    target_compile_options(attend_cuda INTERFACE $<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20>>)
  endif()
endif()

# The files become a program's own, as attend::compiled's do.
include(GNUInstallDirs)
set(attend_compiled_cuda_sources)
add_library(attend_compiled_cuda INTERFACE)
target_link_libraries(attend_compiled_cuda INTERFACE attend_cuda)
target_compile_definitions(attend_compiled_cuda INTERFACE ATTEND_COMPILED_CUDA)
foreach(type IN ITEMS float bfloat16)
  set(source "${PROJECT_SOURCE_DIR}/include/attend/compiled_cuda_${type}.cu")
  list(APPEND attend_compiled_cuda_sources "${source}")
  target_sources(
    attend_compiled_cuda
    INTERFACE "$<BUILD_INTERFACE:${source}>"
              "$<INSTALL_INTERFACE:$<INSTALL_PREFIX>/${CMAKE_INSTALL_INCLUDEDIR}/attend/compiled_cuda_${type}.cu>")
endforeach()
set_target_properties(attend_compiled_cuda PROPERTIES EXPORT_NAME compiled_cuda)
if(ATTEND_CUDA)
  add_library(attend::compiled_cuda ALIAS attend_compiled_cuda)
endif()

# Installed always too. In this tree and in projects that take it in, it is there if Eigen is.
add_library(attend_eigen INTERFACE)
target_sources(attend_eigen INTERFACE FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}/include"
                                      FILES "${PROJECT_SOURCE_DIR}/include/attend/eigen.hpp")
set_target_properties(attend_eigen PROPERTIES EXPORT_NAME eigen VERIFY_INTERFACE_HEADER_SETS OFF)
target_link_libraries(attend_eigen INTERFACE attend_core Eigen3::Eigen)
list(APPEND ATTEND_LIBRARIES eigen)
attend_find_eigen(GLOBAL)
if(TARGET Eigen3::Eigen)
  add_library(attend::eigen ALIAS attend_eigen)
endif()

if(ATTEND_IO)
  attend_library(
    io
    FLOORS io/
    LINK attend_core nlohmann_json::nlohmann_json)
  list(APPEND ATTEND_LIBRARIES io)
endif()
if(ATTEND_TEXT)
  attend_library(
    text
    FLOORS text/
    LINK attend_io SentencePiece::SentencePiece)
  # The trailing "" stands for the headers above the floors.
  attend_library(
    attend
    FLOORS train/ translate/ pretrained/ marian/ ""
    LINK attend_text)
  list(APPEND ATTEND_LIBRARIES text attend)

  # Installed always, like attend::cuda: the program that asks for the component finds its MPI.
  add_library(attend_mpi INTERFACE)
  target_sources(attend_mpi INTERFACE FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}/include"
                                      FILES "${PROJECT_SOURCE_DIR}/include/attend/mpi.hpp")
  set_target_properties(attend_mpi PROPERTIES EXPORT_NAME mpi VERIFY_INTERFACE_HEADER_SETS OFF)
  target_link_libraries(attend_mpi INTERFACE attend MPI::MPI_CXX)
  list(APPEND ATTEND_LIBRARIES mpi)
  if(ATTEND_MPI)
    add_library(attend::mpi ALIAS attend_mpi)
  endif()

  add_library(attend_nccl INTERFACE)
  target_sources(attend_nccl INTERFACE FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}/include"
                                       FILES "${PROJECT_SOURCE_DIR}/include/attend/nccl.hpp")
  set_target_properties(attend_nccl PROPERTIES EXPORT_NAME nccl VERIFY_INTERFACE_HEADER_SETS OFF)
  target_link_libraries(attend_nccl INTERFACE attend attend_cuda NCCL::NCCL)
  list(APPEND ATTEND_LIBRARIES nccl)
  if(ATTEND_NCCL)
    add_library(attend::nccl ALIAS attend_nccl)
  endif()

  # The file becomes one of the program's own, so that it has the program's flags, and no binary needs to be installed.
  set(compiled_source attend/compiled.cpp)
  add_library(attend_compiled INTERFACE)
  add_library(attend::compiled ALIAS attend_compiled)
  target_link_libraries(attend_compiled INTERFACE attend)
  target_compile_definitions(attend_compiled INTERFACE ATTEND_COMPILED)
  target_sources(
    attend_compiled
    INTERFACE "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include/${compiled_source}>"
              "$<INSTALL_INTERFACE:$<INSTALL_PREFIX>/${CMAKE_INSTALL_INCLUDEDIR}/${compiled_source}>")
  # And the headers are read once for all files of a program.
  target_precompile_headers(attend_compiled INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:<attend/attend.hpp$<ANGLE-R>>")
  set_target_properties(attend_compiled PROPERTIES EXPORT_NAME compiled)
endif()
