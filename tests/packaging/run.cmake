# For the scripts beside it.

# run(<what> <command>...): runs it in WORK; if it fails, the test ends with what it printed. Sets `output`.
function(run what)
  execute_process(
    COMMAND ${ARGN}
    WORKING_DIRECTORY "${WORK}"
    RESULT_VARIABLE result
    OUTPUT_VARIABLE output
    ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${what} failed (${result}):\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

# refuse(<what> <expected> <command>...): it must fail and print, line breaks aside, what the pattern says.
function(refuse what expected)
  execute_process(
    COMMAND ${ARGN}
    WORKING_DIRECTORY "${WORK}"
    RESULT_VARIABLE result
    OUTPUT_VARIABLE output
    ERROR_VARIABLE output)
  string(REGEX REPLACE "[ \n]+" " " output "${output}")
  if(result EQUAL 0 OR NOT output MATCHES "${expected}")
    message(FATAL_ERROR "${what}: expected a failure that says '${expected}', got (${result}):\n${output}")
  endif()
endfunction()

# consume(<folder> <setting>...): configures, builds and runs consumer/ in WORK/<folder>.
function(consume folder)
  run("configuring the consumer" ${CMAKE_COMMAND} -S "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/consumer" -B "${WORK}/${folder}" -G
      "${GENERATOR}" "-DCMAKE_CXX_COMPILER=${COMPILER}" "-DCMAKE_CXX_FLAGS=${QUICK}" -DCMAKE_BUILD_TYPE=None ${ARGN})
  run("building the consumer" ${CMAKE_COMMAND} --build "${WORK}/${folder}")
  run("running the consumer" "${WORK}/${folder}/consumer")
  message("${output}")
endfunction()

file(REMOVE_RECURSE "${WORK}")
file(MAKE_DIRECTORY "${WORK}")
