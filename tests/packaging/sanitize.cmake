# tests/sanitize with a stand-in for cmake, which makes "programs" of files: what it runs, remembers and says. ATTEND_TREE, WORK.
cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/run.cmake")
find_program(bash bash)
if(NOT bash)
  message("skipped: there is no bash here")
  return()
endif()
file(COPY "${ATTEND_TREE}/tests/sanitize" DESTINATION "${WORK}/tests")
foreach(floor IN ITEMS core text)
  file(WRITE "${WORK}/tests/${floor}/some_test.cpp" "")
endforeach()
file(
  WRITE "${WORK}/bin/cmake"
  "#!${bash}\nmkdir -p build-asan/bin && touch build-asan/CMakeCache.txt\n[[ $1 == --build ]] || exit 0\n"
  "program=\${@: -1}\ncp tests/\${program#test_}/program build-asan/bin/$program && chmod +x build-asan/bin/$program\n")
file(CHMOD "${WORK}/bin/cmake" PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
set(ENV{PATH} "${WORK}/bin:$ENV{PATH}")

function(program floor body)
  file(WRITE "${WORK}/tests/${floor}/program" "#!${bash}\n${body}\n")
endfunction()

# sanitize(<exit code> <what it prints>... ARGUMENTS <word>...)
function(sanitize code)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "ARGUMENTS")
  execute_process(
    COMMAND "${bash}" tests/sanitize asan ${arg_ARGUMENTS}
    WORKING_DIRECTORY "${WORK}"
    RESULT_VARIABLE result
    OUTPUT_VARIABLE output
    ERROR_VARIABLE output)
  foreach(line IN LISTS arg_UNPARSED_ARGUMENTS)
    string(FIND "${output}" "${line}\n" at)
    if(at EQUAL -1 OR NOT result EQUAL code)
      message(FATAL_ERROR "expected ${code} and '${line}', got ${result}:\n${output}")
    endif()
  endforeach()
endfunction()

program(core "exit 0")
program(text "echo a leak && exit 3")
sanitize(75 "asan: 0 passed. failed: none. left: core text" ARGUMENTS --minutes 0)
if(EXISTS "${WORK}/build-asan/CMakeCache.txt")
  message(FATAL_ERROR "--minutes 0, which only says what is left, has configured a build")
endif()
sanitize(1 "core: passed" "a leak" "text: FAILED (3), see build-asan/passed/text.log" "asan: 1 passed. failed: text. left: none")
program(text "exit 0")
sanitize(0 "core: has passed before" "text: passed" "asan: 2 passed. failed: none. left: none")
sanitize(0 "asan: 2 passed. failed: none. left: none" ARGUMENTS --minutes 0)
program(core "exit 0 # another")
sanitize(0 "core: passed" "asan: 1 passed. failed: none. left: none" ARGUMENTS core)
program(core "exit 1")
sanitize(1 "text: has passed before" "asan: 1 passed. failed: core. left: none")
sanitize(75 "asan: 1 passed. failed: none. left: core" ARGUMENTS --minutes 0)
