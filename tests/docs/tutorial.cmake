# Follows docs/tutorial.md with the files of examples/tutorial: configures, builds, and runs the program in a fresh folder.
#
# ATTEND_SOURCE: the tree. WORK: a folder that may be wiped. GENERATOR, COMPILER: those of the tree. SETTINGS: further cache
# entries. COMPILED: a library that has what attend::compiled has, compiled as the project is, or nothing.
function(run what)
  execute_process(
    COMMAND ${ARGN}
    WORKING_DIRECTORY "${WORK}"
    RESULT_VARIABLE result
    OUTPUT_VARIABLE output
    ERROR_VARIABLE errors)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "tutorial: ${what} failed (${result}):\n${output}${errors}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

function(expect what pattern)
  if(NOT output MATCHES "${pattern}")
    message(FATAL_ERROR "tutorial: ${what} gave\n${output}\nexpected ${pattern}")
  endif()
endfunction()

file(REMOVE_RECURSE "${WORK}")
file(COPY "${ATTEND_SOURCE}/examples/tutorial/" DESTINATION "${WORK}")
set(flags -Og)
if(COMPILED) # not once more
  file(WRITE "${WORK}/compiled.cmake" "add_compile_definitions(ATTEND_COMPILED)\nlink_libraries(\"${COMPILED}\")\n")
  list(APPEND SETTINGS "-DCMAKE_PROJECT_translator_INCLUDE=${WORK}/compiled.cmake")
  set(flags -O0)
endif()
run("configuring" ${CMAKE_COMMAND} -S . -B build -G "${GENERATOR}" "-DCMAKE_CXX_COMPILER=${COMPILER}" "-DCMAKE_CXX_FLAGS=${flags}"
    -DCMAKE_BUILD_TYPE=None -DCMAKE_DISABLE_FIND_PACKAGE_attend=ON "-DFETCHCONTENT_SOURCE_DIR_ATTEND=${ATTEND_SOURCE}"
    ${SETTINGS})
run("building" ${CMAKE_COMMAND} --build build)
run("making pairs" sh make_pairs.sh)
file(WRITE "${WORK}/pairs.tsv" "${output}")

run("training" build/translator train pairs.tsv model)
expect("training" "test: BLEU.* = (9[0-9]|100)\\.")
file(WRITE "${WORK}/english.txt" "the small girl sees the black bird\n")
foreach(precision "" "--int8")
  run("translating" sh -c "build/translator run model ${precision} < english.txt")
  expect("translating" "^la chica pequeña ve el pájaro negro\n$")
endforeach()

run("choosing pairs" sh -c "grep girl pairs.tsv | sed s/chica/nena/g > new.tsv")
run("fine-tuning" build/translator tune new.tsv model tuned)
run("translating with the fine-tuned model" sh -c "build/translator run tuned < english.txt")
expect("translating with the fine-tuned model" "^la nena pequeña ve el pájaro negro\n$")
