# Configures, builds and runs the consumer in a fresh folder.
#
# WAY: find_package, find_core or add_subdirectory. ATTEND_SOURCE, ATTEND_BUILD: the tree and its build. WORK: a folder that may
# be wiped. GENERATOR, COMPILER: those of the tree. SETTINGS: further cache entries.
function(run what)
  execute_process(
    COMMAND ${ARGN}
    WORKING_DIRECTORY "${WORK}"
    RESULT_VARIABLE result
    OUTPUT_VARIABLE output
    ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${WAY}: ${what} failed (${result}):\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE "${WORK}")
file(MAKE_DIRECTORY "${WORK}")
set(settings ${SETTINGS})
if(WAY STREQUAL "add_subdirectory")
  list(APPEND settings "-DATTEND_SUBDIRECTORY=${ATTEND_SOURCE}")
else()
  run("installing" ${CMAKE_COMMAND} --install "${ATTEND_BUILD}" --prefix "${WORK}/prefix")
  list(APPEND settings "-DCMAKE_PREFIX_PATH=${WORK}/prefix")
endif()
if(WAY STREQUAL "find_core")
  # Found or not elsewhere on this machine: the core has to do without them.
  list(APPEND settings -DCONSUME_CORE=ON -DCMAKE_DISABLE_FIND_PACKAGE_nlohmann_json=ON
       -DCMAKE_DISABLE_FIND_PACKAGE_SentencePiece=ON)
endif()

run("configuring" ${CMAKE_COMMAND} -S "${CMAKE_CURRENT_LIST_DIR}/consumer" -B "${WORK}/build" -G "${GENERATOR}"
    "-DCMAKE_CXX_COMPILER=${COMPILER}" "-DCMAKE_CXX_FLAGS=-O0" -DCMAKE_BUILD_TYPE=None ${settings})
run("building" ${CMAKE_COMMAND} --build "${WORK}/build")
run("running" "${WORK}/build/consumer")
message("${output}")
