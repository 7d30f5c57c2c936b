# The version stands in one place, include/attend/version.hpp. Everything else asks here, packages and scripts too.

# attend_read_version(<variable>): "major.minor.patch"
function(attend_read_version variable)
  set(header "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../include/attend/version.hpp")
  file(READ "${header}" text)
  set(numbers)
  foreach(part IN ITEMS MAJOR MINOR PATCH)
    if(NOT text MATCHES "#define ATTEND_VERSION_${part} ([0-9]+)")
      message(FATAL_ERROR "attend: ${header} does not define ATTEND_VERSION_${part}.")
    endif()
    list(APPEND numbers ${CMAKE_MATCH_1})
  endforeach()
  list(JOIN numbers "." version)
  set(${variable} ${version} PARENT_SCOPE)
endfunction()
