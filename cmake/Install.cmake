# `cmake --install`: the headers, the package that find_package(attend) reads, and the files for pkg-config. Nothing of it
# depends on the processor. The install components are dev and, with ATTEND_INSTALL_PROGRAM, program.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(ATTEND_CONFIG_DIR "${CMAKE_INSTALL_DATADIR}/cmake/attend")
set(ATTEND_PKGCONFIG_DIR "${CMAKE_INSTALL_DATADIR}/pkgconfig")

# One export set per target, so that a package built for attend::core alone asks for no other library.
foreach(name IN LISTS ATTEND_LIBRARIES)
  if(name STREQUAL "attend")
    set(target attend)
  else()
    set(target attend_${name})
  endif()
  install(TARGETS ${target} EXPORT attend-${name} FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT dev)
  if(name STREQUAL "attend")
    install(TARGETS attend_compiled EXPORT attend-attend)
    install(
      FILES "${PROJECT_SOURCE_DIR}/include/attend/compiled.cpp"
      DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/attend"
      COMPONENT dev)
  endif()
  if(name STREQUAL "cuda")
    install(TARGETS attend_compiled_cuda EXPORT attend-cuda)
    install(
      FILES ${attend_compiled_cuda_sources}
      DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/attend"
      COMPONENT dev)
  endif()
  install(
    EXPORT attend-${name}
    NAMESPACE attend::
    DESTINATION "${ATTEND_CONFIG_DIR}"
    FILE attend-${name}.cmake
    COMPONENT dev)
endforeach()

configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/attendConfig.cmake.in" "${PROJECT_BINARY_DIR}/attendConfig.cmake"
                              INSTALL_DESTINATION "${ATTEND_CONFIG_DIR}" NO_SET_AND_CHECK_MACRO)
# Headers depend on no word size, so one package serves every architecture. Before 1.0 a minor version may break.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/attendConfigVersion.cmake" COMPATIBILITY SameMinorVersion
                                 ARCH_INDEPENDENT)
install(
  FILES "${PROJECT_BINARY_DIR}/attendConfig.cmake" "${PROJECT_BINARY_DIR}/attendConfigVersion.cmake"
        "${CMAKE_CURRENT_LIST_DIR}/FindSentencePiece.cmake" "${CMAKE_CURRENT_LIST_DIR}/FindNCCL.cmake"
        "${CMAKE_CURRENT_LIST_DIR}/AttendOptimise.cmake" "${CMAKE_CURRENT_LIST_DIR}/AttendGemm.cmake"
  DESTINATION "${ATTEND_CONFIG_DIR}"
  COMPONENT dev)

# attend-core.pc, and attend.pc for all. The prefix is told from where the file lies, so that a tree may be moved.
file(RELATIVE_PATH attend_pc_prefix "${CMAKE_INSTALL_PREFIX}/${ATTEND_PKGCONFIG_DIR}" "${CMAKE_INSTALL_PREFIX}")
string(REGEX REPLACE "/$" "" attend_pc_prefix "${attend_pc_prefix}")
cmake_path(APPEND attend_pc_include "\${prefix}" "${CMAKE_INSTALL_INCLUDEDIR}") # which may be absolute
function(attend_pkg_config name description requires libs)
  configure_file("${CMAKE_CURRENT_FUNCTION_LIST_DIR}/attend.pc.in" "${PROJECT_BINARY_DIR}/${name}.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/${name}.pc" DESTINATION "${ATTEND_PKGCONFIG_DIR}" COMPONENT dev)
endfunction()
attend_pkg_config(attend-core "tensors, automatic differentiation, networks, search" "" "")
if(ATTEND_TEXT)
  set(attend_requires "attend-core = ${PROJECT_VERSION}, nlohmann_json >= 3.9")
  set(attend_libs)
  # In Debian 13 SentencePiece's own file asks for protobuf's, which does not come with it: there is a version, but no flags.
  set(attend_pc_version 1)
  if(PKG_CONFIG_EXECUTABLE)
    execute_process(COMMAND ${PKG_CONFIG_EXECUTABLE} --modversion sentencepiece RESULT_VARIABLE attend_pc_version OUTPUT_QUIET
                                                                                                        ERROR_QUIET)
    execute_process(COMMAND ${PKG_CONFIG_EXECUTABLE} --cflags sentencepiece RESULT_VARIABLE attend_pc_flags OUTPUT_QUIET ERROR_QUIET)
  endif()
  get_filename_component(folder "${SentencePiece_LIBRARY}" DIRECTORY)
  if(attend_pc_version EQUAL 0 AND NOT attend_pc_flags EQUAL 0 AND folder IN_LIST CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES)
    set(attend_libs " -lsentencepiece_train -lsentencepiece")
  else()
    string(APPEND attend_requires ", sentencepiece")
  endif()
  if(SentencePiece_ABSEIL AND NOT SentencePiece IN_LIST ATTEND_FETCHED) # see FindSentencePiece.cmake
    string(APPEND attend_requires ", absl_status, absl_strings")
  endif()
  attend_pkg_config(attend "training, translation, text and files" "${attend_requires}" "${attend_libs}")
endif()

install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT dev)
if(ATTEND_INSTALL_PROGRAM)
  install(TARGETS translate RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT program)
endif()
