# Installing what is missing with apt-get: only as root, only where there is an apt-get, only for the top-level project.

# attend_apt_install(<package>...): one call of apt-get for all packages. Sets ATTEND_APT_NOTE in the caller to what stood in
# the way, or to nothing.
function(attend_apt_install)
  find_program(ATTEND_APT_GET apt-get)
  mark_as_advanced(ATTEND_APT_GET)
  if(NOT ATTEND_APT_GET)
    set(ATTEND_APT_NOTE "there is no apt-get here" PARENT_SCOPE)
    return()
  endif()
  execute_process(COMMAND id -u OUTPUT_VARIABLE user OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT user STREQUAL "0")
    set(ATTEND_APT_NOTE "apt-get needs root" PARENT_SCOPE)
    return()
  endif()

  list(JOIN ARGN " " packages)
  message(STATUS "attend: installing with apt-get: ${packages} (ATTEND_INSTALL_PACKAGES=OFF prevents this)")
  set(apt ${CMAKE_COMMAND} -E env DEBIAN_FRONTEND=noninteractive ${ATTEND_APT_GET} -qq -o DPkg::Lock::Timeout=120
          -o Acquire::Retries=2)
  # A container starts without package lists, and old lists name files that are gone. A failed update is no reason to stop.
  execute_process(COMMAND ${apt} update OUTPUT_QUIET ERROR_QUIET)
  execute_process(
    COMMAND ${apt} install -y --no-install-recommends ${ARGN}
    RESULT_VARIABLE result
    OUTPUT_VARIABLE output
    ERROR_VARIABLE output)
  if(result EQUAL 0)
    set(ATTEND_APT_NOTE "" PARENT_SCOPE)
    return()
  endif()
  string(REGEX MATCHALL "E: [^\n]*" errors "${output}")
  list(JOIN errors "; " errors)
  set(ATTEND_APT_NOTE "apt-get failed (${errors})" PARENT_SCOPE)
endfunction()

# Debian's cmake and g++ do not pull in make, CMake's default build tool there.
function(attend_ensure_build_tool)
  if(NOT CMAKE_SOURCE_DIR STREQUAL CMAKE_CURRENT_SOURCE_DIR OR NOT CMAKE_GENERATOR STREQUAL "Unix Makefiles")
    return()
  endif()
  if(DEFINED ATTEND_INSTALL_PACKAGES AND NOT ATTEND_INSTALL_PACKAGES)
    return()
  endif()
  find_program(CMAKE_MAKE_PROGRAM NAMES gmake make smake)
  if(NOT CMAKE_MAKE_PROGRAM)
    attend_apt_install(make)
  endif()
endfunction()
