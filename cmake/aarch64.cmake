# Toolchain of the preset `neon`: a cross build for 64-bit ARM with Debian's
# compiler and the libraries of scripts/arm64_sysroot.sh, run under QEMU.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

get_filename_component(arm64_sysroot
  ${CMAKE_CURRENT_LIST_DIR}/../build/arm64-sysroot ABSOLUTE)
if(NOT EXISTS ${arm64_sysroot}/.packages)
  message(FATAL_ERROR "run scripts/arm64_sysroot.sh first")
endif()

# Libraries are looked for there and nowhere else. It is no CMAKE_SYSROOT: the
# compiler brings the headers of its C library itself.
set(CMAKE_FIND_ROOT_PATH ${arm64_sysroot})
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)

# The least of 64-bit ARM (ARMv8.0), which faults on anything newer.
set(CMAKE_CROSSCOMPILING_EMULATOR
  qemu-aarch64 -cpu cortex-a53 -L ${arm64_sysroot})
