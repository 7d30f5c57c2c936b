# What find_package(attend) finds and refuses: see components/. PREFIX, VERSION, WORK, GENERATOR, COMPILER as in consume.cmake.
cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/run.cmake")
set(configure ${CMAKE_COMMAND} -S "${CMAKE_CURRENT_LIST_DIR}/components" -B build -G "${GENERATOR}"
              "-DCMAKE_CXX_COMPILER=${COMPILER}" "-DCMAKE_PREFIX_PATH=${PREFIX}" "-DVERSION=${VERSION}")
run("finding components" ${configure})
refuse("a component that there is not" "there is no component audio, this installation has core" ${configure}
       "-DASK=COMPONENTS audio")
refuse("a version that does not fit" "\"attend\" that is compatible with requested version \"97\\.5\".*version: ${VERSION}"
       ${configure} "-DASK=97.5")
