# Finds NCCL, which installs no CMake package on most systems: its header and its library, which lie beside the CUDA toolkit, where the
# system has its own, or in a Python wheel (nvidia-nccl-cu12, nvidia-nccl-cu13), whose folder nvidia/nccl goes into NCCL_ROOT.
#
# Defines the target NCCL::NCCL and the variables NCCL_FOUND and NCCL_VERSION. Hints: CMAKE_PREFIX_PATH, NCCL_ROOT, NCCL_HOME in the
# environment.
include(FindPackageHandleStandardArgs)

find_path(NCCL_INCLUDE_DIR nccl.h HINTS ENV NCCL_HOME ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include)
# A wheel has no name for linkers.
find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ENV NCCL_HOME ${CUDAToolkit_LIBRARY_DIR} PATH_SUFFIXES lib lib64)
mark_as_advanced(NCCL_INCLUDE_DIR NCCL_LIBRARY)

if(NCCL_INCLUDE_DIR)
  file(STRINGS "${NCCL_INCLUDE_DIR}/nccl.h" lines REGEX "^#define NCCL_(MAJOR|MINOR|PATCH) +[0-9]+")
  string(REGEX REPLACE "[^0-9;]" "" lines "${lines}")
  list(JOIN lines "." NCCL_VERSION)
endif()
find_package_handle_standard_args(
  NCCL
  REQUIRED_VARS NCCL_LIBRARY NCCL_INCLUDE_DIR
  VERSION_VAR NCCL_VERSION)

if(NCCL_FOUND AND NOT TARGET NCCL::NCCL)
  add_library(NCCL::NCCL UNKNOWN IMPORTED)
  set_target_properties(NCCL::NCCL PROPERTIES IMPORTED_LOCATION "${NCCL_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES
                                                                                  "${NCCL_INCLUDE_DIR}")
endif()
