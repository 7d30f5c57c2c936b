# What is made of this tree to be handed on:
#
#   cmake --build build --target single_header   attend_single.hpp and attend_core_single.hpp, in the build folder
#   cpack --config build/CPackConfig.cmake       libattend-dev_<version>_all.deb and attend-<version>.tar.gz: headers, the CMake
#                                                package, the files for pkg-config; and with ATTEND_INSTALL_PROGRAM attend-tools,
#                                                the program translate
set(singles)
foreach(core IN ITEMS OFF ON)
  set(single "${PROJECT_BINARY_DIR}/attend_single.hpp")
  if(core)
    set(single "${PROJECT_BINARY_DIR}/attend_core_single.hpp")
  endif()
  list(APPEND singles COMMAND ${CMAKE_COMMAND} -D "OUTPUT=${single}" -D CORE=${core} -P
                              "${CMAKE_CURRENT_LIST_DIR}/single_header.cmake")
endforeach()
add_custom_target(single_header ${singles} VERBATIM)

if(NOT ATTEND_INSTALL)
  return()
endif()

set(CPACK_PACKAGE_NAME attend)
set(CPACK_PACKAGE_VENDOR "The attend authors")
set(CPACK_PACKAGE_CONTACT "The attend authors <attend@example.org>" CACHE STRING "Maintainer of the Debian package: Name <address>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "train translation models in C++ and translate with them")
set(CPACK_PACKAGE_FILE_NAME "attend-${PROJECT_VERSION}")
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_GENERATOR TGZ DEB)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ
                                                WORLD_EXECUTE)
set(CPACK_COMPONENTS_ALL dev)
if(ATTEND_INSTALL_PROGRAM)
  list(APPEND CPACK_COMPONENTS_ALL program)
  if(ATTEND_NATIVE)
    message(WARNING "attend: with ATTEND_NATIVE the program translate runs on no older processor than this one: do not hand it on.")
  endif()
endif()
set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)
set(CPACK_ARCHIVE_DEV_FILE_NAME "attend-${PROJECT_VERSION}")
set(CPACK_ARCHIVE_PROGRAM_FILE_NAME "attend-tools-${PROJECT_VERSION}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}")
# Debian's policy wants a copyright file in a form of its own and a changelog: debian/complete.cmake adds them.
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_DEV_PACKAGE_NAME libattend-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_DEV_DESCRIPTION
    "Headers to train encoder-decoder Transformers and to translate with them:
tensors, automatic differentiation, networks, training, search, subwords,
scores. With a CMake package and files for pkg-config. Programs for NVIDIA
GPUs need a CUDA toolkit, 12 or later, besides.")
set(depends)
if(ATTEND_IO)
  list(APPEND depends "nlohmann-json3-dev (>= 3.9)")
endif()
if(ATTEND_TEXT)
  list(APPEND depends ${attend_SentencePiece_DEBIAN})
endif()
list(JOIN depends ", " CPACK_DEBIAN_DEV_PACKAGE_DEPENDS)
set(CPACK_DEBIAN_DEV_PACKAGE_SUGGESTS "cmake (>= 3.25), pkgconf, nvidia-cuda-toolkit")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME attend-tools)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_CONFLICTS translate) # a dictionary, whose program has the same name
set(CPACK_DEBIAN_PROGRAM_DESCRIPTION
    "The program translate trains an encoder-decoder Transformer on pairs of
sentences, translates with it, and scores translations.")

set(CPACK_PRE_BUILD_SCRIPTS "${CMAKE_CURRENT_LIST_DIR}/debian/complete.cmake")
include(CPack)
