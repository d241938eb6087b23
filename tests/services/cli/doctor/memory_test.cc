// Diagnoses of memory from readings, and of trees that look like the kernel's.
#include "services/cli/doctor/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/worker/fake_tree.h"

namespace plimsoll::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kGiB = int64_t{1} << 30;

MemoryReadings GoodMemory() {
  MemoryReadings memory;
  memory.available_bytes = 20 * kGiB;
  memory.physical_bytes = 24 * kGiB;
  memory.settings.swap_bytes = 0;
  memory.settings.free_swap_bytes = 0;
  memory.settings.huge_pages = "madvise";
  return memory;
}

void ExpectOk(const Diagnosis& found, const std::string& text) {
  EXPECT_EQ(found.health, Health::kOk) << found.name;
  EXPECT_EQ(found.found, text);
  EXPECT_THAT(found.fix, IsEmpty());
}

void ExpectWarning(const Diagnosis& found, const std::string& text,
                   const std::string& fix) {
  EXPECT_EQ(found.health, Health::kWarning) << found.name;
  EXPECT_THAT(found.found, HasSubstr(text));
  EXPECT_THAT(found.fix, HasSubstr(fix));
}

TEST(MemoryCheckTest, AGoodMachineIsOk) {
  const MemoryReadings memory = GoodMemory();
  ExpectOk(CheckAvailable(memory),
           "20.0 GiB of 24.0 GiB are available to models");
  ExpectOk(CheckCgroup(memory), "no limit below the machine's memory");
  ExpectOk(CheckSwap(memory), "none");
  ExpectOk(CheckHugePages(memory), "transparent huge pages are on (madvise)");
  ExpectOk(CheckOvercommit(memory), "the system limits no mappings");
}

TEST(MemoryCheckTest, NoMemoryIsAnError) {
  MemoryReadings memory = GoodMemory();
  memory.available_bytes = 0;
  const Diagnosis found = CheckAvailable(memory);
  EXPECT_EQ(found.health, Health::kError);
  EXPECT_THAT(found.fix, HasSubstr("/proc/meminfo"));
}

TEST(MemoryCheckTest, ALimitIsShownWithItsFile) {
  MemoryReadings memory = GoodMemory();
  memory.cgroup = worker::CgroupMemory{2 * kGiB, "/cg/memory.max", kGiB};
  ExpectOk(CheckCgroup(memory),
           "the limit is 2.0 GiB (/cg/memory.max), 1.0 GiB are left");
  memory.cgroup->limit_bytes = memory.physical_bytes - 1;
  EXPECT_THAT(CheckCgroup(memory).found, HasSubstr("24.0 GiB"));
  memory.cgroup->limit_bytes = memory.physical_bytes;
  ExpectOk(CheckCgroup(memory), "no limit below the machine's memory");
}

TEST(MemoryCheckTest, ALimitThatCannotBeReadIsAnError) {
  MemoryReadings memory = GoodMemory();
  memory.cgroup = absl::UnavailableError("/cg/memory.max: Permission denied");
  const Diagnosis found = CheckCgroup(memory);
  EXPECT_EQ(found.health, Health::kError);
  EXPECT_THAT(found.found, HasSubstr("Permission denied"));
  EXPECT_THAT(found.fix, HasSubstr("read that file"));
}

TEST(MemoryCheckTest, SwapIsAWarningUnlessTheCgroupHasNone) {
  MemoryReadings memory = GoodMemory();
  memory.settings.swap_bytes = 8 * kGiB;
  memory.settings.free_swap_bytes = 5 * kGiB;
  ExpectWarning(CheckSwap(memory), "8.0 GiB, 3.0 GiB in use", "swapoff -a");
  memory.cgroup_swap_bytes = 1;
  ExpectWarning(CheckSwap(memory), "8.0 GiB", "MemorySwapMax=0");
  memory.cgroup_swap_bytes = 0;
  ExpectOk(CheckSwap(memory), "8.0 GiB, of which this cgroup may use none");
  memory.settings.swap_bytes.reset();
  EXPECT_EQ(CheckSwap(memory).health, Health::kSkipped);
}

TEST(MemoryCheckTest, HugePagesThatAreOffAreAWarning) {
  MemoryReadings memory = GoodMemory();
  memory.settings.huge_pages = "always";
  ExpectOk(CheckHugePages(memory), "transparent huge pages are on (always)");
  memory.settings.huge_pages = "never";
  ExpectWarning(CheckHugePages(memory), "off", "echo madvise >");
  memory.settings.huge_pages = "";
  EXPECT_EQ(CheckHugePages(memory).health, Health::kSkipped);
}

TEST(MemoryCheckTest, ALimitOfMappingsBelowWhatIsAvailableIsAWarning) {
  MemoryReadings memory = GoodMemory();
  memory.settings.mappable_bytes = memory.available_bytes;
  EXPECT_EQ(CheckOvercommit(memory).health, Health::kOk);
  memory.settings.mappable_bytes = memory.available_bytes - 1;
  ExpectWarning(CheckOvercommit(memory), "vm.overcommit_memory is 2",
                "vm.overcommit_memory=0");
}

TEST(MemoryReadingsTest, AllAreOfTheTree) {
  const testing::FakeTree tree;
  tree.Write(
      "/proc/meminfo",
      "MemAvailable: 1048576 kB\nSwapTotal: 2097152 kB\n"
      "SwapFree: 2097152 kB\nCommitLimit: 524288 kB\nCommitted_AS: 0 kB");
  tree.Write("/proc/sys/vm/overcommit_memory", "2");
  tree.Write("/sys/kernel/mm/transparent_hugepage/enabled",
             "always madvise [never]");
  tree.Write("/proc/self/cgroup", "0::/");
  tree.Write("/sys/fs/cgroup/memory.max", absl::StrCat(kGiB / 2));
  tree.Write("/sys/fs/cgroup/memory.current", absl::StrCat(kGiB / 4));
  const MemoryReadings memory = ReadMemory(tree.root());
  EXPECT_EQ(memory.available_bytes, kGiB / 4);
  EXPECT_GT(memory.physical_bytes, 0);
  ExpectOk(CheckCgroup(memory),
           absl::StrCat("the limit is 512.0 MiB (", tree.root(),
                        "/sys/fs/cgroup/memory.max), 256.0 MiB are left"));
  ExpectWarning(CheckSwap(memory), "2.0 GiB", "swapoff");
  ExpectWarning(CheckHugePages(memory), "off", "madvise");
  EXPECT_EQ(CheckOvercommit(memory).health, Health::kOk);
  tree.Write("/sys/fs/cgroup/memory.swap.max", "0");
  EXPECT_EQ(CheckSwap(ReadMemory(tree.root())).health, Health::kOk);
}

TEST(MemoryReadingsTest, AFileThatCannotBeReadIsAnError) {
  const testing::FakeTree tree;
  tree.Write("/proc/meminfo", "MemAvailable: 1048576 kB");
  tree.Write("/proc/self/cgroup", "0::/");
  tree.MakeUnreadable("/sys/fs/cgroup/memory.max");
  const MemoryReadings memory = ReadMemory(tree.root());
  EXPECT_EQ(CheckAvailable(memory).health, Health::kError);
  EXPECT_EQ(CheckCgroup(memory).health, Health::kError);
  EXPECT_THAT(CheckCgroup(memory).found, HasSubstr("memory.max"));
}

}  // namespace
}  // namespace plimsoll::cli
