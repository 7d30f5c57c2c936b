# `cmake --install` and the package that find_package(attend) reads.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(ATTEND_CONFIG_DIR "${CMAKE_INSTALL_DATADIR}/cmake/attend")

# One export set per target, so that a package built for attend::core alone asks for no other library.
foreach(name IN LISTS ATTEND_LIBRARIES)
  if(name STREQUAL "attend")
    set(target attend)
  else()
    set(target attend_${name})
  endif()
  install(TARGETS ${target} EXPORT attend-${name} FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
  if(name STREQUAL "attend")
    install(TARGETS attend_compiled EXPORT attend-attend)
    install(FILES "${PROJECT_SOURCE_DIR}/include/attend/compiled.cpp" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/attend")
  endif()
  install(
    EXPORT attend-${name}
    NAMESPACE attend::
    DESTINATION "${ATTEND_CONFIG_DIR}"
    FILE attend-${name}.cmake)
endforeach()

configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/attendConfig.cmake.in" "${PROJECT_BINARY_DIR}/attendConfig.cmake"
                              INSTALL_DESTINATION "${ATTEND_CONFIG_DIR}" NO_SET_AND_CHECK_MACRO)
# Headers depend on no word size, so one package serves every architecture. Before 1.0 a minor version may break.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/attendConfigVersion.cmake" COMPATIBILITY SameMinorVersion
                                 ARCH_INDEPENDENT)
install(FILES "${PROJECT_BINARY_DIR}/attendConfig.cmake" "${PROJECT_BINARY_DIR}/attendConfigVersion.cmake"
              "${CMAKE_CURRENT_LIST_DIR}/FindSentencePiece.cmake" "${CMAKE_CURRENT_LIST_DIR}/AttendOptimise.cmake"
        DESTINATION "${ATTEND_CONFIG_DIR}")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
