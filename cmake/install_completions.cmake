# Installs what `plimsoll completion` prints for each shell. cmake/install.cmake
# sets `plimsoll`, `made_dir` and `data_dir`.
foreach(file IN ITEMS
    bash-completion/completions/plimsoll
    zsh/site-functions/_plimsoll
    fish/vendor_completions.d/plimsoll.fish)
  string(REGEX REPLACE "^(bash|zsh|fish).*" "\\1" shell ${file})
  execute_process(COMMAND ${plimsoll} completion ${shell}
    OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  file(WRITE ${made_dir}/${file} "${text}")
  cmake_path(GET file PARENT_PATH folder)
  file(INSTALL ${made_dir}/${file}
    DESTINATION ${CMAKE_INSTALL_PREFIX}/${data_dir}/${folder})
endforeach()
