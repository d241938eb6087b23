# The .deb that CPack makes of what cmake/install.cmake installs; scripts/package.sh
# calls it in a build folder with the prefix /usr.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME plimsoll)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
  WORLD_READ WORLD_EXECUTE)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "Plimsoll <maintainers@plimsoll.dev>")
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY
  "plan the memory of language models and serve them")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
  "Plimsoll plans how much of a device's memory a language model may use, loads
it exactly to that line, and streams text from it: over gRPC, over HTTP with
OpenAI's interface, and as one command that needs no server.

The services of planner and worker are neither enabled nor started.")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
if(CMAKE_CROSSCOMPILING)  # by cmake/aarch64.cmake
  set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${arm64_libraries})
endif()
# Makes the user; any of them will do. libcurl is opened at run time, so that no
# tool finds it; newer systems call its package libcurl4t64.
set(CPACK_DEBIAN_PACKAGE_DEPENDS
  "systemd | systemd-standalone-sysusers | systemd-sysusers, libcurl4 | libcurl4t64")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "ca-certificates")
set(debian_dir ${CMAKE_SOURCE_DIR}/deploy/debian)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
  ${debian_dir}/conffiles ${debian_dir}/postinst ${debian_dir}/prerm
  ${debian_dir}/postrm)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
# What only a package of Debian has.
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_SOURCE_DIR}/cmake/debian_files.cmake)

include(CPack)
