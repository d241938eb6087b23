#include "services/host/crash/memory_failure.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstddef>
#include <limits>
#include <new>

#include "tests/sanitized.h"

namespace plimsoll::services {
namespace {

// No system has so much memory.
void* AllocateTooMuch() {
  volatile size_t bytes = std::numeric_limits<ptrdiff_t>::max();
  return ::operator new(bytes);
}

class MemoryFailureDeathTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // A sanitizer ends the process by itself, in its own way.
    if (plimsoll::testing::kIsSanitized) GTEST_SKIP();
  }
};

TEST_F(MemoryFailureDeathTest, EndsTheProcessWithALine) {
  const MemoryFailureScope scope(MemoryFailure::kEndsProcess);
  EXPECT_EXIT(AllocateTooMuch(), ::testing::KilledBySignal(SIGABRT),
              "no memory while it started or ended");
}

TEST_F(MemoryFailureDeathTest, ThrowsWithinAndAfterItsScope) {
  {
    const MemoryFailureScope ends(MemoryFailure::kEndsProcess);
    {
      const MemoryFailureScope throws(MemoryFailure::kThrows);
      EXPECT_THROW(AllocateTooMuch(), std::bad_alloc);
    }
    EXPECT_EXIT(AllocateTooMuch(), ::testing::KilledBySignal(SIGABRT), "");
  }
  EXPECT_THROW(AllocateTooMuch(), std::bad_alloc);
}

}  // namespace
}  // namespace plimsoll::services
