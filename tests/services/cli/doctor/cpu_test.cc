// Diagnoses of the CPU from readings of good and of odd machines.
#include "services/cli/doctor/cpu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/cpu/target.h"

namespace plimsoll::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

CpuReadings GoodCpu() {
  return {.brand = "Some CPU",
          .path = "AVX3_DL_AMX",
          .vectors = "AVX3_DL",
          .amx = kernels::AmxState::kRuns,
          .n_usable = 8,
          .n_machine = 8};
}

TEST(CpuPathTest, APathWithWideVectorsIsOk) {
  const Diagnosis found = CheckCpuPath(GoodCpu());
  EXPECT_EQ(found.health, Health::kOk);
  EXPECT_EQ(found.found, "AVX3_DL_AMX on Some CPU");
  EXPECT_THAT(found.fix, IsEmpty());
  CpuReadings old = GoodCpu();
  old.path = old.vectors = "AVX2";
  old.amx = kernels::AmxState::kAbsent;
  EXPECT_EQ(CheckCpuPath(old).health, Health::kOk);
}

TEST(CpuPathTest, AmxThatIsAnnouncedAndDoesNotRunIsAWarning) {
  struct Case {
    kernels::AmxState state;
    const char* found;
    const char* fix;
  };
  for (const Case& at :
       {Case{kernels::AmxState::kNotSaved, "does not save", "5.16"},
        Case{kernels::AmxState::kNotAllowed, "does not permit", "arch_prctl"},
        Case{kernels::AmxState::kTraps, "trap", "hypervisor"}}) {
    CpuReadings cpu = GoodCpu();
    cpu.path = "AVX3_DL";
    cpu.amx = at.state;
    const Diagnosis found = CheckCpuPath(cpu);
    EXPECT_EQ(found.health, Health::kWarning);
    EXPECT_THAT(found.found, AllOf(HasSubstr("AVX3_DL on"), HasSubstr("AMX"),
                                   HasSubstr(at.found)));
    EXPECT_THAT(found.fix, HasSubstr(at.fix));
  }
}

TEST(CpuPathTest, NarrowVectorsAreAWarning) {
  CpuReadings cpu = GoodCpu();
  cpu.path = cpu.vectors = "SSE4";
  cpu.amx = kernels::AmxState::kAbsent;
  const Diagnosis found = CheckCpuPath(cpu);
  EXPECT_EQ(found.health, Health::kWarning);
  EXPECT_THAT(found.fix, HasSubstr("AVX2"));
}

TEST(CpuCountTest, WhatKeepsAProcessFromTheOthersIsNamed) {
  CpuReadings cpu = GoodCpu();
  EXPECT_EQ(CheckCpuCount(cpu).found, "a model computes on 8 of 8 CPUs");
  cpu.n_usable = 2;
  EXPECT_THAT(CheckCpuCount(cpu).found, HasSubstr("may use no others"));
  cpu.n_quota = 3;
  EXPECT_THAT(CheckCpuCount(cpu).found, HasSubstr("may use no others"));
  cpu.n_quota = 2;
  EXPECT_THAT(CheckCpuCount(cpu).found, HasSubstr("quota"));
  cpu.n_quota.reset();
  cpu.n_usable = 256;
  cpu.n_machine = 384;
  EXPECT_THAT(CheckCpuCount(cpu).found,
              HasSubstr("256 of 384 CPUs, and never on more"));
  EXPECT_EQ(CheckCpuCount(cpu).health, Health::kOk);
}

TEST(CpuReadingsTest, ThisMachineHasThem) {
  const CpuReadings cpu = ReadCpu();
  EXPECT_EQ(cpu.path, kernels::CpuTarget());
  EXPECT_THAT(cpu.path, HasSubstr(cpu.vectors));
  EXPECT_GE(cpu.n_usable, 1);
  EXPECT_LE(cpu.n_usable, cpu.n_machine);
}

}  // namespace
}  // namespace plimsoll::cli
