// Instructions that run and some that trap, and what is left of the probe.
#include "kernels/cpu/trap_probe.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

namespace plimsoll::kernels {
namespace {

bool has_run = false;
void RunSomething() { has_run = true; }

void RunUnknownInstruction() {
#if defined(__x86_64__)
  asm volatile("ud2");
#elif defined(__aarch64__)
  asm volatile(".inst 0x00000000");  // udf #0
#else
  raise(SIGILL);
#endif
}

void ReadWhatMayNotBeRead() {
  void* const page = mmap(nullptr, 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
                          /*fd=*/-1, /*offset=*/0);
  (void)*static_cast<const volatile char*>(page);
}

void OwnHandler(int /*signal*/) {}

TEST(TrapProbeTest, WhatRunsIsThere) {
  has_run = false;
  EXPECT_TRUE(RunsWithoutTrap(RunSomething));
  EXPECT_TRUE(has_run);
}

TEST(TrapProbeTest, WhatTrapsIsNot) {
  EXPECT_FALSE(RunsWithoutTrap(RunUnknownInstruction));
  EXPECT_FALSE(RunsWithoutTrap(ReadWhatMayNotBeRead));
  EXPECT_TRUE(RunsWithoutTrap(RunSomething));
}

TEST(TrapProbeTest, HandlersAndMaskAreAsTheyWere) {
  struct sigaction own = {};
  own.sa_handler = OwnHandler;
  struct sigaction before;
  ASSERT_EQ(sigaction(SIGILL, &own, &before), 0);
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGILL);
  ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &blocked, nullptr), 0);
  for (void (*const instructions)() : {RunSomething, RunUnknownInstruction}) {
    EXPECT_EQ(RunsWithoutTrap(instructions), instructions == RunSomething);
    struct sigaction after;
    ASSERT_EQ(sigaction(SIGILL, nullptr, &after), 0);
    EXPECT_EQ(after.sa_handler, OwnHandler);
    sigset_t mask;
    ASSERT_EQ(pthread_sigmask(SIG_BLOCK, nullptr, &mask), 0);
    EXPECT_EQ(sigismember(&mask, SIGILL), 1);
    EXPECT_EQ(sigismember(&mask, SIGSEGV), 0);
  }
  ASSERT_EQ(pthread_sigmask(SIG_UNBLOCK, &blocked, nullptr), 0);
  ASSERT_EQ(sigaction(SIGILL, &before, nullptr), 0);
}

TEST(TrapProbeDeathTest, ATrapAfterwardsEndsTheProcess) {
  EXPECT_DEATH(
      {
        (void)RunsWithoutTrap(RunUnknownInstruction);
        RunUnknownInstruction();
      },
      "");
}

}  // namespace
}  // namespace plimsoll::kernels
