# Installs the units of systemd and what they read, with the paths of this
# installation. cmake/install.cmake sets `source_dir`, `made_dir`, `bin_dir` and
# `doc_dir`; these folders are absolute, or relative to the prefix.
foreach(folder IN ITEMS bin_dir doc_dir)
  cmake_path(ABSOLUTE_PATH ${folder} BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX})
endforeach()
# The prefix /usr has its settings in /etc.
set(config_dir ${CMAKE_INSTALL_PREFIX}/etc)
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  set(config_dir /etc)
endif()
file(READ ${source_dir}/hardening.conf hardening)

foreach(program IN ITEMS planner worker gateway)
  set(unit plimsoll-${program})
  configure_file(${source_dir}/${unit}.service.in ${made_dir}/${unit}.service
    @ONLY)
  file(INSTALL ${made_dir}/${unit}.service
    DESTINATION ${CMAKE_INSTALL_PREFIX}/lib/systemd/system)
  # What somebody has set stays as it is.
  if(NOT EXISTS $ENV{DESTDIR}${config_dir}/default/${unit})
    file(INSTALL ${source_dir}/${unit}.default
      DESTINATION ${config_dir}/default RENAME ${unit})
  endif()
endforeach()
file(INSTALL ${source_dir}/plimsoll.sysusers
  DESTINATION ${CMAKE_INSTALL_PREFIX}/lib/sysusers.d RENAME plimsoll.conf)
