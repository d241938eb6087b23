# Adds what only a Debian package has to the folder of which CPack makes one:
# copyright, licences of compiled-in code, the list of parts, and the changelog in
# Debian's form.
set(source_dir ${CMAKE_CURRENT_LIST_DIR}/..)
set(doc_dir ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr/share/doc/plimsoll)

file(REMOVE ${doc_dir}/LICENSE)  # Debian has its text already
file(COPY ${source_dir}/deploy/debian/copyright DESTINATION ${doc_dir})
execute_process(
  COMMAND python3 ${source_dir}/deploy/licences.py ${doc_dir}/licences
  COMMAND_ERROR_IS_FATAL ANY)
set(bin_dir ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr/bin)
execute_process(
  COMMAND python3 ${source_dir}/deploy/parts.py ${doc_dir}/plimsoll.cdx.json
    ${CPACK_PACKAGE_VERSION} ${bin_dir}/plimsoll ${bin_dir}/plimsoll-planner
    ${bin_dir}/plimsoll-worker
  COMMAND_ERROR_IS_FATAL ANY)

# The time of the last commit, so that one tree gives one package; without git's
# history it is now.
execute_process(COMMAND git -C ${source_dir} log -1 --format=%cD
  OUTPUT_VARIABLE date OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(date STREQUAL "")
  execute_process(COMMAND date -R
    OUTPUT_VARIABLE date OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()
file(WRITE ${doc_dir}/changelog
  "plimsoll (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * CHANGELOG.md tells what is new.

 -- ${CPACK_DEBIAN_PACKAGE_MAINTAINER}  ${date}
")
execute_process(COMMAND gzip -9n ${doc_dir}/changelog COMMAND_ERROR_IS_FATAL ANY)
