# What `cmake --install` puts where, in components: `programs` is enough to run
# them, `docs` and `service` (units of systemd) are for a system. Nothing here
# fixes the prefix: `cmake --install BUILD --prefix FOLDER` and DESTDIR both hold.
include(GNUInstallDirs)

install(TARGETS plimsoll plimsoll-gateway plimsoll-planner plimsoll-worker
  RUNTIME COMPONENT programs)
install(FILES data/devices.csv
  DESTINATION ${CMAKE_INSTALL_DATADIR}/plimsoll COMPONENT programs)
install(DIRECTORY proto/plimsoll
  DESTINATION ${CMAKE_INSTALL_DATADIR}/plimsoll/proto COMPONENT programs
  FILES_MATCHING PATTERN "*.proto" PATTERN "service_config.json")

install(FILES LICENSE README.md CHANGELOG.md SECURITY.md
  DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT docs)
install(DIRECTORY docs
  DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT docs
  FILES_MATCHING PATTERN "*.md" PATTERN "*.svg")
install(FILES deploy/systemd/gpu.conf
  DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples COMPONENT docs)

# A command's own words: under the emulator if it was built for another machine.
install(CODE "
  set(plimsoll ${CMAKE_CROSSCOMPILING_EMULATOR} \"$<TARGET_FILE:plimsoll>\")
  set(made_dir \"${CMAKE_BINARY_DIR}/completions\")
  set(data_dir \"${CMAKE_INSTALL_DATADIR}\")"
  COMPONENT programs)
install(SCRIPT cmake/install_completions.cmake COMPONENT programs)
# The units name the program's folder, which is known at the installation.
install(CODE "
  set(source_dir \"${CMAKE_SOURCE_DIR}/deploy/systemd\")
  set(made_dir \"${CMAKE_BINARY_DIR}/systemd\")
  set(bin_dir \"${CMAKE_INSTALL_BINDIR}\")
  set(doc_dir \"${CMAKE_INSTALL_DOCDIR}\")"
  COMPONENT service)
install(SCRIPT cmake/install_units.cmake COMPONENT service)
