# Toolchain for 64-bit ARM: a cross build with Debian's compiler and the libraries of
# scripts/arm64_sysroot.sh, run under QEMU. The preset `neon` and
# `scripts/package.sh --arm64` use it.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

get_filename_component(arm64_sysroot
  ${CMAKE_CURRENT_LIST_DIR}/../build/arm64-sysroot ABSOLUTE)
if(NOT EXISTS ${arm64_sysroot}/.packages)
  message(FATAL_ERROR "run scripts/arm64_sysroot.sh first")
endif()

# Libraries are looked for there and in the compiler's own folder, which has the C
# library, and programs such as protoc on this machine. It is no CMAKE_SYSROOT: the
# compiler finds the headers of its C library itself.
set(CMAKE_FIND_ROOT_PATH ${arm64_sysroot} /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(arm64_libraries ${arm64_sysroot}/usr/lib/aarch64-linux-gnu
  ${arm64_sysroot}/lib/aarch64-linux-gnu)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${arm64_sysroot})
set(ENV{PKG_CONFIG_LIBDIR}
  ${arm64_sysroot}/usr/lib/aarch64-linux-gnu/pkgconfig)
# Some headers are of one machine alone (openssl/opensslconf.h).
set(CMAKE_CXX_FLAGS_INIT
  "-idirafter ${arm64_sysroot}/usr/include/aarch64-linux-gnu")
# Where the linker finds the libraries of libraries.
list(JOIN arm64_libraries ":" folders)
set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,-rpath-link,${folders}")

# The least of 64-bit ARM (ARMv8.0), which faults on anything newer.
set(CMAKE_CROSSCOMPILING_EMULATOR
  qemu-aarch64-static -cpu cortex-a53 -L ${arm64_sysroot})
