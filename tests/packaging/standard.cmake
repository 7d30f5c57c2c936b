# What a compiler says that is not set to C++20: one error, if a program includes one of the headers right in attend/; that error
# before any others, if it includes another header.
# ATTEND_TREE, WORK, COMPILER as in consume.cmake.
cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/run.cmake")
foreach(header IN ITEMS attend core load marian compiled nn/linear ops/map decode/greedy text/bleu io/model optim/adam train/fit)
  file(WRITE "${WORK}/program.cpp" "#include <attend/${header}.hpp>\nint main() {}\n")
  set(first_alone)
  if(header MATCHES "/") # of these nothing else counts
    set(first_alone -Wfatal-errors)
  endif()
  execute_process(
    COMMAND ${COMPILER} -std=c++17 -fsyntax-only ${first_alone} "-I${ATTEND_TREE}/include" program.cpp
    WORKING_DIRECTORY "${WORK}"
    RESULT_VARIABLE result
    OUTPUT_VARIABLE output
    ERROR_VARIABLE output)
  string(REGEX MATCHALL "error:[^\n]*" errors "${output}")
  list(LENGTH errors count)
  list(GET errors 0 first)
  if(result EQUAL 0 OR NOT first MATCHES "attend needs C\\+\\+20: compile with -std=c\\+\\+20")
    message(FATAL_ERROR "${header}.hpp in C++17: the first error is '${first}'")
  endif()
  if(NOT header MATCHES "/" AND NOT count EQUAL 1)
    message(FATAL_ERROR "${header}.hpp in C++17: ${count} errors, expected one:\n${output}")
  endif()
endforeach()
