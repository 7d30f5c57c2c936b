# Installs the tree for the tests that follow, and looks whether every header is there. ATTEND_TREE, PREFIX, WORK, GENERATOR,
# COMPILER, SETTINGS as in consume.cmake; the build folder is WORK/build.
cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/run.cmake")
file(REMOVE_RECURSE "${PREFIX}")
run("configuring" ${CMAKE_COMMAND} -S "${ATTEND_TREE}" -B "${WORK}/build" -G "${GENERATOR}" "-DCMAKE_CXX_COMPILER=${COMPILER}"
    -DCMAKE_BUILD_TYPE=Release -DATTEND_INSTALL_PACKAGES=OFF -DATTEND_BUILD_TESTS=OFF -DATTEND_BUILD_EXAMPLES=OFF
    -DATTEND_BUILD_BENCHMARKS=OFF -DFETCHCONTENT_FULLY_DISCONNECTED=ON)
run("installing" ${CMAKE_COMMAND} --install "${WORK}/build" --prefix "${PREFIX}")
file(GLOB_RECURSE expected RELATIVE "${ATTEND_TREE}" "${ATTEND_TREE}/include/*")
file(GLOB_RECURSE installed RELATIVE "${PREFIX}" "${PREFIX}/include/*")
if(NOT expected STREQUAL installed)
  list(REMOVE_ITEM expected ${installed})
  message(FATAL_ERROR "not installed: ${expected}")
endif()
