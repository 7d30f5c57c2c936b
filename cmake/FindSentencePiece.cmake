# Finds SentencePiece with its training library: the CMake package that Conan and others make for it, or, as it installs none of
# its own on most systems, the libraries and the header.
#
# Defines the target SentencePiece::SentencePiece and the variables SentencePiece_FOUND and SentencePiece_VERSION (empty if
# pkg-config is not there to ask). Hints: CMAKE_PREFIX_PATH, SentencePiece_ROOT.
include(FindPackageHandleStandardArgs)

find_package(sentencepiece CONFIG QUIET)
mark_as_advanced(sentencepiece_DIR)
if(TARGET sentencepiece::sentencepiece AND TARGET sentencepiece::sentencepiece_train)
  set(SentencePiece_VERSION "${sentencepiece_VERSION}")
  find_package_handle_standard_args(SentencePiece REQUIRED_VARS sentencepiece_DIR VERSION_VAR SentencePiece_VERSION)
  if(NOT TARGET SentencePiece::SentencePiece)
    add_library(SentencePiece::SentencePiece INTERFACE IMPORTED)
    target_link_libraries(SentencePiece::SentencePiece INTERFACE sentencepiece::sentencepiece_train
                                                                 sentencepiece::sentencepiece)
  endif()
  return()
endif()

find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(PC_SentencePiece QUIET sentencepiece)
  set(SentencePiece_VERSION "${PC_SentencePiece_VERSION}")
endif()

find_path(SentencePiece_INCLUDE_DIR sentencepiece_trainer.h HINTS ${PC_SentencePiece_INCLUDE_DIRS})
find_library(SentencePiece_LIBRARY sentencepiece HINTS ${PC_SentencePiece_LIBRARY_DIRS})
find_library(SentencePiece_TRAIN_LIBRARY sentencepiece_train HINTS ${PC_SentencePiece_LIBRARY_DIRS})
mark_as_advanced(SentencePiece_INCLUDE_DIR SentencePiece_LIBRARY SentencePiece_TRAIN_LIBRARY)

# Since 0.2.2 its header includes Abseil's, and whoever asks it for its status calls Abseil. Debian's package does not ask for that.
# (Headers before that name Abseil's string_view too, for those who define a macro.)
set(SentencePiece_ABSEIL)
set(SentencePiece_reason)
if(SentencePiece_INCLUDE_DIR)
  file(STRINGS "${SentencePiece_INCLUDE_DIR}/sentencepiece_processor.h" SentencePiece_ABSEIL REGEX "^#include [<\"]absl/status/")
endif()
if(SentencePiece_ABSEIL)
  find_package(absl CONFIG QUIET)
  mark_as_advanced(absl_DIR)
  set(SentencePiece_ABSEIL absl_DIR)
  if(NOT absl_FOUND)
    set(SentencePiece_reason REASON_FAILURE_MESSAGE "its header includes Abseil's, which is not installed (Debian: libabsl-dev)")
  endif()
endif()

find_package_handle_standard_args(
  SentencePiece
  REQUIRED_VARS SentencePiece_LIBRARY SentencePiece_TRAIN_LIBRARY SentencePiece_INCLUDE_DIR ${SentencePiece_ABSEIL}
  VERSION_VAR SentencePiece_VERSION
  ${SentencePiece_reason})

if(SentencePiece_FOUND AND NOT TARGET SentencePiece::SentencePiece)
  add_library(SentencePiece::SentencePiece INTERFACE IMPORTED)
  target_include_directories(SentencePiece::SentencePiece INTERFACE "${SentencePiece_INCLUDE_DIR}")
  # The training library first: a static one takes what it lacks from the other.
  target_link_libraries(SentencePiece::SentencePiece INTERFACE "${SentencePiece_TRAIN_LIBRARY}" "${SentencePiece_LIBRARY}")
  if(SentencePiece_ABSEIL)
    target_link_libraries(SentencePiece::SentencePiece INTERFACE absl::status absl::strings absl::span)
  endif()
  if(SentencePiece_LIBRARY MATCHES "\\.a$") # vcpkg's stands on protobuf, and a static library does not say so itself
    find_package(protobuf CONFIG QUIET)
    mark_as_advanced(protobuf_DIR)
    if(TARGET protobuf::libprotobuf-lite)
      target_link_libraries(SentencePiece::SentencePiece INTERFACE protobuf::libprotobuf-lite)
    endif()
  endif()
endif()
