# What attend_optimise adds where a project has a build type, and where it has none. ATTEND_TREE, WORK, GENERATOR, COMPILER as in
# consume.cmake. Nothing is compiled but the compiler checks.
cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/run.cmake")
file(WRITE "${WORK}/program.cpp" "int main() {}\n")
file(
  WRITE "${WORK}/CMakeLists.txt"
  "cmake_minimum_required(VERSION 3.25)\nproject(optimise LANGUAGES CXX)\ninclude(\"${ATTEND_TREE}/cmake/AttendOptimise.cmake\")\n"
  "add_compile_options(\${OPTIONS})\nadd_executable(program program.cpp)\nattend_optimise(program)\n"
  "get_target_property(options program COMPILE_OPTIONS)\nmessage(STATUS \"options: \${options}\")\n")
# case(<name> <whether -O3 is expected> <setting>...)
function(case name expected)
  run("configuring" ${CMAKE_COMMAND} -S "${WORK}" -B "${WORK}/${name}" -G "${GENERATOR}" "-DCMAKE_CXX_COMPILER=${COMPILER}" ${ARGN})
  if(NOT output MATCHES "options: [^\n]*")
    message(FATAL_ERROR "${name}: attend_optimise adds nothing:\n${output}")
  endif()
  set(options "${CMAKE_MATCH_0}")
  if(options MATCHES "-O3" AND NOT expected OR expected AND NOT (options MATCHES "-O3" AND output MATCHES "CMAKE_BUILD_TYPE is empty"))
    message(FATAL_ERROR "${name}: ${options}")
  endif()
endfunction()
unset(ENV{CMAKE_BUILD_TYPE})
unset(ENV{CXXFLAGS})
case(none ON)
case(release OFF -DCMAKE_BUILD_TYPE=Release)
case(debug OFF -DCMAKE_BUILD_TYPE=Debug)
case(flags OFF "-DCMAKE_CXX_FLAGS=-g -O1")
case(options OFF "-DOPTIONS=-Og")
