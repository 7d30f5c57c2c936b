# Run by CPack before it closes its packages: gives each Debian package the copyright file and the changelog that the policy of
# Debian asks for, in /usr/share/doc/<package>. Their texts are LICENSE and a word about CHANGELOG.md.
if(NOT CPACK_GENERATOR STREQUAL "DEB")
  return()
endif()

string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC) # that of SOURCE_DATE_EPOCH if it is set
file(READ "${CPACK_RESOURCE_FILE_LICENSE}" license)
if(NOT license MATCHES "^[^\n]+\n\nCopyright \\(c\\) ([^\n]+)\n\n(.*)$")
  message(FATAL_ERROR "attend: ${CPACK_RESOURCE_FILE_LICENSE} is not the MIT license")
endif()
set(holder "${CMAKE_MATCH_1}")
string(STRIP "${CMAKE_MATCH_2}" license)
string(REPLACE "\n" "\n " license "${license}")
string(REPLACE "\n \n" "\n .\n" license "${license}")

foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  string(TOUPPER ${component} upper)
  set(package "${CPACK_DEBIAN_${upper}_PACKAGE_NAME}")
  set(docs "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/${component}${CPACK_PACKAGING_INSTALL_PREFIX}/share/doc")
  file(REMOVE_RECURSE "${docs}/attend") # the license once more
  file(WRITE "${docs}/${package}/copyright"
       "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n"
       "Upstream-Name: attend\n\n"
       "Files: *\nCopyright: ${holder}\nLicense: Expat\n\n"
       "License: Expat\n ${license}\n")
  file(WRITE "${docs}/${package}/changelog"
       "attend (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium\n\n"
       "  * Version ${CPACK_PACKAGE_VERSION}; CHANGELOG.md of the source says what is new.\n\n"
       " -- ${CPACK_PACKAGE_CONTACT}  ${date}\n")
  execute_process(COMMAND gzip -9nf "${docs}/${package}/changelog" COMMAND_ERROR_IS_FATAL ANY)
  file(CHMOD "${docs}/${package}/copyright" "${docs}/${package}/changelog.gz" PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ
                                                                                         WORLD_READ)
endforeach()
