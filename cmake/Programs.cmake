# Settings of attend's own programs: tests, examples, benchmarks. Nothing here reaches a program that uses attend.

set(ATTEND_WARNINGS)
if(CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang")
  set(ATTEND_WARNINGS -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # False alarms about std::string, GCC bugs 105651 and 105329.
    list(APPEND ATTEND_WARNINGS -Wno-restrict -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread)
  endif()
  if(ATTEND_WERROR)
    list(APPEND ATTEND_WARNINGS -Werror)
  endif()
endif()

# GCC's garbage collector takes up to an eighth of what compiling a file of templates takes, to save a quarter of 1.2 GB.
set(ATTEND_COMPILER_MEMORY "$<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=1048576>")

# attend_own(<target>): warnings, and for this machine's processor alone with ATTEND_NATIVE.
function(attend_own target)
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${ATTEND_WARNINGS};${ATTEND_COMPILER_MEMORY}>")
  if(ATTEND_NATIVE)
    attend_optimise(${target})
  else()
    attend_optimise(${target} PORTABLE)
  endif()
  if(NOT ATTEND_NATIVE OR ATTEND_HAVE_AMX)
    # In files that are not optimised too: those of a program must know what kernels are made of by the same names.
    target_compile_definitions(${target} PRIVATE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:ATTEND_DISPATCH=1>)
  endif()
endfunction()

# attend_program(<name> <source>...): an executable in bin/.
function(attend_program name)
  add_executable(${name} ${ARGN})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
  attend_own(${name})
endfunction()

# attend_prefer(<program> <library>...): of a function that both the program's own files and these libraries have compiled, as templates
# often are, the program takes the libraries', which are optimised: linkers keep the one that comes first.
function(attend_prefer program)
  foreach(library IN LISTS ARGN)
    target_link_libraries(${program} PRIVATE ${library}) # so that it is there, and what it needs
    target_link_options(${program} PRIVATE "$<TARGET_OBJECTS:${library}>")
  endforeach()
endfunction()

# attend_once(<name> <library> <macro> <source>...): what a program with the macro leaves to these sources, compiled once for all of
# attend's own programs, which know of it by including the library's headers.
function(attend_once name library macro)
  add_library(${name} STATIC ${ARGN})
  target_link_libraries(${name} PUBLIC ${library})
  target_compile_definitions(${name} PUBLIC ${macro})
  attend_own(${name})
endfunction()

# The tests, and what of `translate` is its own, run for moments, and optimising is most of what they cost: -O2 would take half as
# long again to compile, -O3 twice. With -fexpensive-optimizations GCC fuses a * b + c, as it does at -O3, which is what users run and what the
# program translate is tested at.
set(ATTEND_QUICK_OPTIMISATION
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>,$<CXX_COMPILER_ID:GNU,Clang,AppleClang>>:-O1>
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>,$<CXX_COMPILER_ID:GNU>>:-fexpensive-optimizations>)
