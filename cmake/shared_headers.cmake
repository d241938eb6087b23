# Reading headers takes most of the compilers' time. Headers that most files of a
# room include are compiled once for all its targets, where many files are
# compiled as one: what compiles file by file shows which includes are missing.
option(PLIMSOLL_SHARED_HEADERS "Compile headers that many targets read once"
  ${CMAKE_UNITY_BUILD})

# plimsoll_share_headers(BASE HEADERS <header>... [TARGETS target...]): BASE
# compiles the headers, and TARGETS, which have its options, take them from it.
function(plimsoll_share_headers base)
  if(NOT PLIMSOLL_SHARED_HEADERS)
    return()
  endif()
  cmake_parse_arguments(arg "" "" "HEADERS;TARGETS" ${ARGN})
  target_precompile_headers(${base} PRIVATE ${arg_HEADERS})
  # Their times do not count for clang. ccache may bring them from elsewhere.
  target_compile_options(${base} PRIVATE
    $<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>)
  plimsoll_take_headers(${base} ${arg_TARGETS})
endfunction()

# plimsoll_take_headers(BASE target...): the targets, which have BASE's options,
# take its headers.
function(plimsoll_take_headers base)
  if(PLIMSOLL_SHARED_HEADERS)
    foreach(target IN LISTS ARGN)
      target_precompile_headers(${target} REUSE_FROM ${base})
    endforeach()
  endif()
endfunction()

set(plimsoll_test_headers <gmock/gmock.h> <gtest/gtest.h>)
set(plimsoll_common_headers
  <algorithm> <cstdint> <functional> <memory> <optional> <string> <utility>
  <vector> <absl/status/statusor.h> <absl/strings/match.h>
  <absl/strings/str_cat.h> <absl/strings/string_view.h>)
set(plimsoll_service_headers ${plimsoll_common_headers}
  <absl/synchronization/mutex.h> <absl/time/clock.h> <grpcpp/grpcpp.h>
  <plimsoll/v1/admin.grpc.pb.h> <plimsoll/v1/generation.grpc.pb.h>
  <plimsoll/v1/model.grpc.pb.h> <plimsoll/v1/planner.grpc.pb.h>
  <plimsoll/v1/session.grpc.pb.h> <plimsoll/v1/tokenizer.grpc.pb.h>)
