# Decides whether this build has CUDA kernels: sets plimsoll_has_cuda and, where
# it does, enables the language.
set(plimsoll_has_cuda OFF)
if(PLIMSOLL_CUDA STREQUAL "AUTO" AND (PLIMSOLL_SANITIZE OR CMAKE_CROSSCOMPILING))
  message(STATUS "CUDA kernels: no (sanitizers, or another machine's build)")
elseif(PLIMSOLL_CUDA)
  include(CheckLanguage)
  # Before the language is enabled: nvcc's own default may be too old a target.
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 90 CACHE STRING
      "Compute capabilities to have code for; 90 is H100 and H200")
  endif()
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    # CMake 3.25 does not know that nvcc has C++20.
    if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    endif()
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
    find_package(CUDAToolkit REQUIRED)
    set(plimsoll_has_cuda ON)
    message(STATUS "CUDA kernels: for ${CMAKE_CUDA_ARCHITECTURES}, "
      "by nvcc ${CMAKE_CUDA_COMPILER_VERSION}")
  elseif(PLIMSOLL_CUDA STREQUAL "AUTO")
    message(STATUS "CUDA kernels: no (there is no nvcc)")
  else()
    message(FATAL_ERROR "PLIMSOLL_CUDA=${PLIMSOLL_CUDA}, but there is no nvcc")
  endif()
endif()
