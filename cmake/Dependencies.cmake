# The packages that the enabled parts need: an installed one first. Unless ATTEND_FETCH is OFF, apt-get installs what is missing
# (InstallPackages.cmake), or else FetchContent brings a pinned release. Otherwise one error names all that is missing and the command
# that installs it.
include(FetchContent)
list(APPEND CMAKE_MODULE_PATH "${CMAKE_CURRENT_LIST_DIR}") # FindSentencePiece.cmake

# attend_dependency(<package> TARGET <target> [VERSION <least>] DEBIAN <package> URL <archive> SHA256 <sum>)
macro(attend_dependency package)
  cmake_parse_arguments(attend_${package} "" "TARGET;VERSION;DEBIAN;URL;SHA256" "" ${ARGN})
  list(APPEND attend_packages ${package})
endmacro()

set(attend_packages)
if(ATTEND_IO)
  attend_dependency(
    nlohmann_json
    TARGET nlohmann_json::nlohmann_json
    VERSION 3.9
    DEBIAN nlohmann-json3-dev
    URL https://github.com/nlohmann/json/releases/download/v3.11.3/json.tar.xz
    SHA256 d6c65aca6b1ed68e7a182f4757257b107ae403032760ed6ef121c9d55e81757d)
endif()
if(ATTEND_TEXT)
  attend_dependency(
    SentencePiece
    TARGET SentencePiece::SentencePiece
    DEBIAN libsentencepiece-dev
    URL https://github.com/google/sentencepiece/archive/refs/tags/v0.2.0.tar.gz
    SHA256 9970f0a0afee1648890293321665e5b2efa04eaec9f1671fcf8048f456f5bb86)
endif()
if(ATTEND_BUILD_TESTS)
  attend_dependency(
    Catch2
    TARGET Catch2::Catch2
    DEBIAN catch2
    URL https://github.com/catchorg/Catch2/archive/refs/tags/v3.7.1.tar.gz
    SHA256 c991b247a1a0d7bb9c39aa35faf0fe9e19764213f28ffba3109388e62ee0269c)
endif()
if(ATTEND_BUILD_EXAMPLES AND ATTEND_TEXT)
  attend_dependency(
    CLI11
    TARGET CLI11::CLI11
    VERSION 2.1
    DEBIAN libcli11-dev
    URL https://github.com/CLIUtils/CLI11/archive/refs/tags/v2.4.2.tar.gz
    SHA256 f2d893a65c3b1324c50d4e682c0cdc021dd0477ae2c048544f39eed6654b699a)
endif()
if(ATTEND_BUILD_BENCHMARKS AND ATTEND_TEXT)
  attend_dependency(
    benchmark
    TARGET benchmark::benchmark
    VERSION 1.6
    DEBIAN libbenchmark-dev
    URL https://github.com/google/benchmark/archive/refs/tags/v1.9.1.tar.gz
    SHA256 32131c08ee31eeff2c8968d7e874f3cb648034377dfc32a4c377fa8796d84981)
endif()

# Looks for every package and lists those that are not installed in attend_missing. GLOBAL, because a project that takes attend
# in by add_subdirectory links its targets from outside this folder.
macro(attend_find_packages)
  set(attend_missing)
  foreach(package IN LISTS attend_packages)
    if(NOT TARGET ${attend_${package}_TARGET})
      find_package(${package} ${attend_${package}_VERSION} QUIET GLOBAL)
    endif()
    if(NOT TARGET ${attend_${package}_TARGET})
      list(APPEND attend_missing ${package})
    endif()
  endforeach()
  if(SentencePiece_ABSEIL)
    set(attend_SentencePiece_DEBIAN libsentencepiece-dev libabsl-dev)
  endif()
endmacro()

# Downloads the archive of a package and unpacks it. Sets <package>_SOURCE_DIR, or attend_fetch_error and no more.
# The download is ours and not FetchContent's, whose failure would end the configuration before the other gaps are known.
function(attend_fetch_source package)
  string(TOUPPER ${package} upper)
  string(TOLOWER ${package} lower)
  set(url ${attend_${package}_URL})
  cmake_path(GET url FILENAME file)
  set(archive "${FETCHCONTENT_BASE_DIR}/archives/${package}-${file}")
  set(attend_fetch_error "" PARENT_SCOPE)
  if(NOT ATTEND_FETCH)
    set(attend_fetch_error "ATTEND_FETCH is OFF" PARENT_SCOPE)
    return()
  endif()
  if(NOT FETCHCONTENT_SOURCE_DIR_${upper})
    if(NOT EXISTS "${archive}")
      if(FETCHCONTENT_FULLY_DISCONNECTED)
        set(attend_fetch_error "FETCHCONTENT_FULLY_DISCONNECTED is on" PARENT_SCOPE)
        return()
      endif()
      message(STATUS "attend: fetching ${url}")
      file(DOWNLOAD ${url} "${archive}.part" STATUS status TIMEOUT 600 INACTIVITY_TIMEOUT 20 TLS_VERIFY ON)
      list(POP_FRONT status code reason)
      if(NOT code EQUAL 0)
        file(REMOVE "${archive}.part")
        set(attend_fetch_error "${url}: ${reason}" PARENT_SCOPE)
        return()
      endif()
      file(SHA256 "${archive}.part" sum)
      if(NOT sum STREQUAL attend_${package}_SHA256)
        file(REMOVE "${archive}.part")
        set(attend_fetch_error "${url}: SHA-256 is ${sum}, expected ${attend_${package}_SHA256}" PARENT_SCOPE)
        return()
      endif()
      file(RENAME "${archive}.part" "${archive}")
    endif()
    set(FETCHCONTENT_FULLY_DISCONNECTED OFF) # the archive is here
  endif()
  # A SOURCE_SUBDIR that does not exist keeps FetchContent from adding the project: below, each is added its own way.
  FetchContent_Declare(
    attend_${lower}
    URL "${archive}"
    URL_HASH SHA256=${attend_${package}_SHA256}
    DOWNLOAD_EXTRACT_TIMESTAMP ON
    SOURCE_SUBDIR none)
  if(FETCHCONTENT_SOURCE_DIR_${upper})
    string(TOUPPER attend_${lower} own)
    set(FETCHCONTENT_SOURCE_DIR_${own} "${FETCHCONTENT_SOURCE_DIR_${upper}}")
  endif()
  FetchContent_MakeAvailable(attend_${lower})
  set(${package}_SOURCE_DIR "${attend_${lower}_SOURCE_DIR}" PARENT_SCOPE)
endfunction()

function(attend_header_only target folder)
  add_library(${target} INTERFACE IMPORTED GLOBAL)
  target_include_directories(${target} INTERFACE "${folder}")
endfunction()

# Makes the target of a package out of its unpacked source.
function(attend_add_fetched package folder)
  # These projects ask for old CMake versions, whose option() would overrule the variables set here.
  set(CMAKE_POLICY_DEFAULT_CMP0077 NEW)
  set(CMAKE_POLICY_VERSION_MINIMUM 3.5)
  set(BUILD_SHARED_LIBS OFF)
  set(CMAKE_WARN_DEPRECATED OFF)
  set(build "${FETCHCONTENT_BASE_DIR}/${package}-build")
  if(package STREQUAL "nlohmann_json")
    attend_header_only(nlohmann_json::nlohmann_json "${folder}/include")
  elseif(package STREQUAL "CLI11")
    attend_header_only(CLI11::CLI11 "${folder}/include")
  elseif(package STREQUAL "SentencePiece")
    set(SPM_ENABLE_SHARED OFF)
    set(SPM_ENABLE_TCMALLOC OFF)
    set(SPM_PROTOBUF_PROVIDER internal)
    set(SPM_ABSL_PROVIDER internal)
    if(CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang")
      string(APPEND CMAKE_CXX_FLAGS " -include cstdint -w") # which it forgets, and GCC 15 finds fault with much else
    endif()
    add_subdirectory("${folder}" "${build}" EXCLUDE_FROM_ALL SYSTEM)
    attend_header_only(SentencePiece::SentencePiece "${folder}/src")
    target_link_libraries(SentencePiece::SentencePiece INTERFACE sentencepiece_train-static sentencepiece-static)
  elseif(package STREQUAL "Catch2")
    add_subdirectory("${folder}" "${build}" EXCLUDE_FROM_ALL SYSTEM)
    set(Catch2_DIR "${folder}/extras" CACHE INTERNAL "Where Catch.cmake is")
  elseif(package STREQUAL "benchmark")
    set(BENCHMARK_ENABLE_TESTING OFF)
    set(BENCHMARK_ENABLE_INSTALL OFF)
    set(BENCHMARK_ENABLE_WERROR OFF)
    add_subdirectory("${folder}" "${build}" EXCLUDE_FROM_ALL SYSTEM)
  endif()
endfunction()

find_package(Threads REQUIRED GLOBAL)
attend_find_packages()

set(ATTEND_APT_NOTE "ATTEND_INSTALL_PACKAGES is OFF")
if(NOT ATTEND_FETCH)
  set(ATTEND_APT_NOTE "ATTEND_FETCH is OFF")
endif()
if(attend_missing AND ATTEND_INSTALL_PACKAGES AND ATTEND_FETCH)
  set(attend_installed)
  foreach(attempt RANGE 1) # again for what an installed package turns out to need besides
    set(attend_debian_packages)
    foreach(package IN LISTS attend_missing)
      list(APPEND attend_debian_packages ${attend_${package}_DEBIAN})
    endforeach()
    if(attend_debian_packages STREQUAL attend_installed)
      break()
    endif()
    attend_apt_install(${attend_debian_packages})
    attend_find_packages()
    set(attend_installed ${attend_debian_packages})
    if(ATTEND_APT_NOTE OR NOT attend_missing)
      break()
    endif()
  endforeach()
  if(attend_missing AND NOT ATTEND_APT_NOTE)
    set(ATTEND_APT_NOTE "apt-get has installed it, and CMake does not find it")
  endif()
endif()

# Packages that came by FetchContent, with their folders: a program that uses an installed attend has to find its own.
set(ATTEND_FETCHED)
set(attend_fetch_error)
if(attend_missing)
  list(JOIN attend_missing ", " attend_names)
  message(STATUS "attend: not installed: ${attend_names} (${ATTEND_APT_NOTE})")
endif()
foreach(package IN LISTS attend_missing)
  attend_fetch_source(${package})
  if(attend_fetch_error)
    break() # without a network the next one would fail as well
  endif()
  attend_add_fetched(${package} "${${package}_SOURCE_DIR}")
  list(APPEND ATTEND_FETCHED ${package})
endforeach()

if(attend_fetch_error)
  list(REMOVE_ITEM attend_missing ${ATTEND_FETCHED})
  set(attend_names)
  set(attend_debian_packages)
  foreach(package IN LISTS attend_missing)
    string(APPEND attend_names "\n    ${package} ${attend_${package}_VERSION}")
    list(APPEND attend_debian_packages ${attend_${package}_DEBIAN})
  endforeach()
  list(JOIN attend_debian_packages " " attend_debian_packages)
  message(
    FATAL_ERROR
      "attend needs packages that are not installed and could not be fetched:${attend_names}\n"
      "On Debian and Ubuntu this command installs them:\n"
      "    sudo apt-get install -y ${attend_debian_packages}\n"
      "Not installed by itself: ${ATTEND_APT_NOTE}.\nNot fetched: ${attend_fetch_error}.")
endif()
