# An overlay port that installs the tree it lies in:
#     vcpkg install attend --overlay-ports=<tree>/cmake/vcpkg
# In a registry, vcpkg_from_git or vcpkg_from_github with REF and SHA512 of a release would set SOURCE_PATH instead.
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(VCPKG_BUILD_TYPE release) # header-only

vcpkg_check_features(
  OUT_FEATURE_OPTIONS FEATURE_OPTIONS
  FEATURES
    io ATTEND_IO
    text ATTEND_TEXT)
# The component cuda is headers and names; its feature sees to the toolkit.
vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS
    ${FEATURE_OPTIONS}
    -DATTEND_INSTALL=ON
    -DATTEND_INSTALL_PACKAGES=OFF
    -DATTEND_BUILD_TESTS=OFF
    -DATTEND_BUILD_EXAMPLES=OFF
    -DATTEND_BUILD_BENCHMARKS=OFF
    -DFETCHCONTENT_FULLY_DISCONNECTED=ON)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH share/cmake/attend)
vcpkg_fixup_pkgconfig()

file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/share/doc")
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
