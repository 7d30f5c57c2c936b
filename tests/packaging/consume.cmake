# Builds and runs the consumer in a fresh folder.
#
# WAY: find_package, find_core, find_cuda, add_subdirectory or FetchContent. ATTEND_TREE: the tree; PREFIX: where it is installed.
# WORK: a folder that may be wiped. GENERATOR, COMPILER: those of the tree. QUICK: options by which it compiles soonest. SETTINGS:
# further cache entries.
cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/run.cmake")
set(settings ${SETTINGS})
if(WAY STREQUAL "find_package")
  # Without run-time type information, which nothing in the library asks for.
  consume(build "-DCMAKE_PREFIX_PATH=${PREFIX}" "-DCMAKE_CXX_FLAGS=${QUICK} -fno-rtti" ${settings})
elseif(WAY STREQUAL "find_core")
  # Found or not elsewhere on this machine: the core has to do without them.
  consume(build "-DCMAKE_PREFIX_PATH=${PREFIX}" -DCONSUME_CORE=ON -DCMAKE_DISABLE_FIND_PACKAGE_nlohmann_json=ON
          -DCMAKE_DISABLE_FIND_PACKAGE_SentencePiece=ON ${settings})
elseif(WAY STREQUAL "find_cuda")
  find_program(nvcc nvcc HINTS ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
  if(NOT nvcc)
    message("skipped: there is no nvcc here")
    return()
  endif()
  run("configuring" ${CMAKE_COMMAND} -S "${CMAKE_CURRENT_LIST_DIR}/consumer/cuda" -B "${WORK}/build" -G "${GENERATOR}"
      "-DCMAKE_CXX_COMPILER=${COMPILER}" "-DCMAKE_CUDA_COMPILER=${nvcc}" "-DCMAKE_PREFIX_PATH=${PREFIX}" -DCMAKE_BUILD_TYPE=None
      -DCMAKE_EXPORT_COMPILE_COMMANDS=ON)
  file(READ "${WORK}/build/compile_commands.json" commands)
  foreach(type IN ITEMS float bfloat16)
    if(NOT commands MATCHES "-DATTEND_COMPILED -DATTEND_COMPILED_CUDA [^\n]*/attend/compiled_cuda_${type}\\.cu")
      message(FATAL_ERROR "attend::compiled_cuda does not compile its file for ${type}:\n${commands}")
    endif()
  endforeach()
  run("building" ${CMAKE_COMMAND} --build "${WORK}/build")
  run("running" "${WORK}/build/consumer")
else()
  # A small program: find_package compiles all of it.
  list(APPEND settings -DCONSUME_PROGRAM=tokenizer.cpp)
  consume(build "-DATTEND_TREE=${ATTEND_TREE}" -DCONSUME_BY=${WAY} -DCMAKE_EXPORT_COMPILE_COMMANDS=ON ${settings})
  file(READ "${WORK}/build/compile_commands.json" commands)
  if(commands MATCHES " -W[a-z]")
    message(FATAL_ERROR "warnings of attend's own are switched on:\n${commands}")
  endif()
  run("installing" ${CMAKE_COMMAND} --install "${WORK}/build" --prefix "${WORK}/prefix")
  file(GLOB_RECURSE installed RELATIVE "${WORK}/prefix" "${WORK}/prefix/*")
  if(NOT installed STREQUAL "bin/consumer")
    message(FATAL_ERROR "the consumer's installation holds more than itself: ${installed}")
  endif()
endif()
