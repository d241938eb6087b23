// Memory and CPU time that cgroups leave, read from trees of files that look
// like the kernel's.
#include "worker/device/cgroup.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/worker/fake_tree.h"
#include "worker/device/host_resources.h"

namespace plimsoll::worker {
namespace {

constexpr int64_t kMiB = 1 << 20;

std::string Mib(int64_t mib) { return std::to_string(mib * kMiB); }

class CgroupTest : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    tree_.Write(path, text);
  }
  void WriteMount(const std::string& root, const std::string& point,
                  const std::string& type) {
    std::filesystem::create_directories(root_ + "/proc/self");
    std::ofstream(root_ + "/proc/self/mountinfo", std::ios::app)
        << "31 23 0:28 " << root << " " << point << " rw,relatime shared:9 - "
        << type << "\n";
  }
  void MountV2(const std::string& root, const std::string& point) {
    WriteMount(root, point, "cgroup2 cgroup2 rw,nsdelegate");
  }
  void MountV1(const std::string& root, const std::string& point) {
    WriteMount(root, point, "cgroup cgroup rw,memory");
  }

  // What a group uses, file pages among it, in MiB.
  struct Use {
    int64_t current = 0;
    int64_t active = 0;
    int64_t inactive = 0;
    int64_t dirty = 0;
    int64_t writeback = 0;
  };
  // A cgroup of version 2 with a limit.
  void GroupV2(const std::string& folder, const std::string& max,
               const Use& use) {
    Write(folder + "/memory.max", max);
    Write(folder + "/memory.current", Mib(use.current));
    Write(folder + "/memory.stat",
          "anon 1048576\nfile " + Mib(use.active + use.inactive + 500) +
              "\nshmem 524288000\nfile_mapped 0\nfile_dirty " + Mib(use.dirty) +
              "\nfile_writeback " + Mib(use.writeback) + "\nactive_file " +
              Mib(use.active) + "\ninactive_file " + Mib(use.inactive) +
              "\nunevictable 4096");
  }
  // A cgroup of version 1. Figures of the cgroup alone must not be read.
  void GroupV1(const std::string& folder, const std::string& limit,
               const Use& use) {
    Write(folder + "/memory.limit_in_bytes", limit);
    Write(folder + "/memory.usage_in_bytes", Mib(use.current));
    Write(folder + "/memory.stat",
          "cache 77\nactive_file 1\ninactive_file 1\ndirty 1\ntotal_dirty " +
              Mib(use.dirty) + "\ntotal_writeback 0\ntotal_inactive_file " +
              Mib(use.inactive) + "\ntotal_active_file " + Mib(use.active));
  }

  CgroupMemory Memory() {
    const auto memory = ReadCgroupMemory(root_);
    EXPECT_TRUE(memory.ok()) << memory.status();
    return memory.value_or(CgroupMemory());
  }
  int64_t Available() { return Memory().available_bytes.value_or(-1) / kMiB; }
  int64_t Limit() { return Memory().limit_bytes.value_or(-1) / kMiB; }

  void MakeUnreadable(const std::string& path) { tree_.MakeUnreadable(path); }
  void ExpectNothingFree(const std::string& why) {
    EXPECT_TRUE(absl::IsUnavailable(ReadCgroupMemory(root_).status())) << why;
    EXPECT_EQ(AvailableMemoryBytes(root_), 0) << why;
  }

  const testing::FakeTree tree_;
  const std::string& root_ = tree_.root();
};

TEST_F(CgroupTest, FilePagesOfVersion2CountAsAvailable) {
  Write("/proc/self/cgroup", "0::/");
  MountV2("/", "/sys/fs/cgroup");
  // A container whose model's file fills the cache.
  GroupV2("/sys/fs/cgroup", Mib(2'048),
          {.current = 2'000, .active = 400, .inactive = 1'200});
  EXPECT_EQ(Limit(), 2'048);
  EXPECT_EQ(Available(), 2'048 - (2'000 - 1'600));
}

TEST_F(CgroupTest, PagesThatMustBeWrittenFirstDoNot) {
  Write("/proc/self/cgroup", "0::/");
  MountV2("/", "/sys/fs/cgroup");
  GroupV2("/sys/fs/cgroup", Mib(1'000),
          {.current = 900,
           .active = 300,
           .inactive = 200,
           .dirty = 60,
           .writeback = 40});
  EXPECT_EQ(Available(), 1'000 - (900 - 400));
  // More of them than of the others frees nothing.
  GroupV2("/sys/fs/cgroup", Mib(1'000),
          {.current = 900,
           .active = 10,
           .inactive = 10,
           .dirty = 60,
           .writeback = 40});
  EXPECT_EQ(Available(), 100);
}

TEST_F(CgroupTest, VersionOneCountsAllBelowACgroup) {
  Write("/proc/self/cgroup", "5:cpu,cpuacct:/job\n4:memory:/job\n0::/");
  MountV1("/", "/sys/fs/cgroup/memory");
  GroupV1("/sys/fs/cgroup/memory/job", Mib(1'000),
          {.current = 900, .active = 300, .inactive = 200, .dirty = 50});
  GroupV1("/sys/fs/cgroup/memory", "9223372036854771712", {.current = 5'000});
  EXPECT_EQ(Limit(), 1'000);
  EXPECT_EQ(Available(), 1'000 - (900 - 450));
}

TEST_F(CgroupTest, OfBothVersionsAtOnceTheTighterOneCounts) {
  Write("/proc/self/cgroup", "4:memory:/job\n0::/unit");
  MountV1("/", "/sys/fs/cgroup/memory");
  MountV2("/", "/sys/fs/cgroup/unified");
  // systemd mounts version 2 without controllers.
  Write("/sys/fs/cgroup/unified/unit/cgroup.controllers", "");
  GroupV1("/sys/fs/cgroup/memory/job", Mib(1'000), {.current = 400});
  EXPECT_EQ(Available(), 600);
  GroupV2("/sys/fs/cgroup/unified/unit", Mib(700),
          {.current = 400, .active = 100});
  EXPECT_EQ(Limit(), 700);
  EXPECT_EQ(Available(), 400);
}

TEST_F(CgroupTest, AnAncestorThatHasLessLeftCounts) {
  Write("/proc/self/cgroup", "0::/pods/pod/container");
  MountV2("/", "/sys/fs/cgroup");
  GroupV2("/sys/fs/cgroup/pods/pod/container", Mib(4'000), {.current = 1'000});
  GroupV2("/sys/fs/cgroup/pods/pod", "max", {.current = 3'000});
  // The smallest limit is not where the least is left.
  GroupV2("/sys/fs/cgroup/pods", Mib(8'000),
          {.current = 7'900, .active = 200, .inactive = 100});
  EXPECT_EQ(Limit(), 4'000);
  EXPECT_EQ(Available(), 400);
  GroupV2("/sys/fs/cgroup/pods/pod", Mib(3'100), {.current = 3'000});
  EXPECT_EQ(Limit(), 3'100);
  EXPECT_EQ(Available(), 100);
}

TEST_F(CgroupTest, AMountThatShowsAPartOfTheTreeIsReadFromThere) {
  // A container with the host's /proc/self/cgroup and a mount of its own part.
  Write("/proc/self/cgroup", "4:memory:/docker/abc/inner");
  MountV1("/docker/abc", "/sys/fs/cgroup/memory");
  GroupV1("/sys/fs/cgroup/memory", Mib(500), {.current = 100});
  GroupV1("/sys/fs/cgroup/memory/inner", Mib(300), {.current = 100});
  EXPECT_EQ(Available(), 200);
}

TEST_F(CgroupTest, APathOutsideTheMountIsReadAtTheMount) {
  for (const char* path : {"0::/../../elsewhere", "0::/docker/abcd",
                           "0::", "0::no/path", "0::/docker/abc", "nonsense"}) {
    Write("/proc/self/cgroup", path);
    std::filesystem::remove(root_ + "/proc/self/mountinfo");
    MountV2("/docker/abc", "/with\\040space");
    GroupV2("/with space", Mib(500), {.current = 100});
    EXPECT_EQ(Available(), 400) << path;
  }
}

TEST_F(CgroupTest, WithoutMountinfoTheUsualPlacesAreRead) {
  Write("/proc/self/cgroup", "0::/unit");
  GroupV2("/sys/fs/cgroup/unit", Mib(500), {.current = 100});
  EXPECT_EQ(Available(), 400);
  Write("/proc/self/cgroup", "3:memory:/job");
  GroupV1("/sys/fs/cgroup/memory/job", Mib(300), {.current = 100});
  EXPECT_EQ(Available(), 200);
}

TEST_F(CgroupTest, WithoutALimitNothingIsSaid) {
  EXPECT_FALSE(Memory().limit_bytes.has_value());
  EXPECT_FALSE(Memory().available_bytes.has_value());
  Write("/proc/self/cgroup", "0::/");
  MountV2("/", "/sys/fs/cgroup");
  EXPECT_FALSE(Memory().limit_bytes.has_value());
  for (const char* none : {"max", "-1", "99999999999999999999"}) {
    GroupV2("/sys/fs/cgroup", none,
            {.current = 100, .active = 10, .inactive = 10});
    EXPECT_FALSE(Memory().limit_bytes.has_value()) << none;
    EXPECT_FALSE(Memory().available_bytes.has_value()) << none;
  }
}

TEST_F(CgroupTest, WhatCannotBeReadIsNotFree) {
  const std::string memory = "/sys/fs/cgroup/memory";
  const auto start_anew = [&] {
    std::filesystem::remove_all(root_ + "/proc");
    std::filesystem::remove_all(root_ + "/sys");
    Write("/proc/meminfo", "MemTotal: 4096 kB\nMemAvailable:    2048 kB");
    Write("/proc/self/cgroup", "4:memory:/\n0::/");
    MountV2("/", "/sys/fs/cgroup");
    MountV1("/", memory);
    GroupV2("/sys/fs/cgroup", Mib(500), {.current = 100});
    GroupV1(memory, Mib(400), {.current = 100});
    EXPECT_EQ(AvailableMemoryBytes(root_), 2 * kMiB);
  };
  for (const char* path :
       {"/proc/self/mountinfo", "/proc/self/cgroup",
        "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes"}) {
    start_anew();
    MakeUnreadable(path);
    ExpectNothingFree(path);
  }
  start_anew();
  MakeUnreadable("/proc/meminfo");
  EXPECT_TRUE(ReadCgroupMemory(root_).ok());
  EXPECT_EQ(AvailableMemoryBytes(root_), 0);
  for (const char* text : {"", "MemTotal: 4096 kB", "MemAvailable: much kB"}) {
    Write("/proc/meminfo2", text);
    std::filesystem::remove(root_ + "/proc/meminfo");
    std::filesystem::rename(root_ + "/proc/meminfo2", root_ + "/proc/meminfo");
    EXPECT_EQ(AvailableMemoryBytes(root_), 0) << text;
  }
  // Pages that can be dropped only add to what is free.
  start_anew();
  MakeUnreadable("/sys/fs/cgroup/memory.stat");
  EXPECT_EQ(Available(), 300);
}

TEST_F(CgroupTest, AFileThatDoesNotExistLimitsNothing) {
  const int64_t all = AvailableMemoryBytes(root_);
  EXPECT_GT(all, 0);
  Write("/proc/self/cgroup", "0::/");
  MountV2("/", "/sys/fs/cgroup");
  Write("/sys/fs/cgroup/memory.max", Mib(2));
  EXPECT_EQ(AvailableMemoryBytes(root_), 2 * kMiB) << "the limit alone";
  std::filesystem::remove(root_ + "/sys/fs/cgroup/memory.max");
  Write("/sys/fs/cgroup/memory.current", Mib(1));
  EXPECT_EQ(AvailableMemoryBytes(root_), all);
  // A folder that is a file: there can be nothing in it.
  std::filesystem::remove_all(root_ + "/sys/fs");
  Write("/sys/fs", "");
  EXPECT_EQ(AvailableMemoryBytes(root_), all);
}

TEST_F(CgroupTest, GarbageNeverMakesMoreAvailable) {
  Write("/proc/self/cgroup", "0::/");
  MountV2("/", "/sys/fs/cgroup");
  GroupV2("/sys/fs/cgroup", Mib(500), {.current = 100});
  const std::string stat = "/sys/fs/cgroup/memory.stat";
  for (const char* text :
       {"", "inactive_file", "inactive_file -5", "inactive_file 1 2",
        "inactive_file 99999999999999999999",
        "inactive_file 9223372036854775807\nactive_file 9223372036854775807",
        "inactive_file 0x100000", "\xff\xfe"}) {
    Write(stat, text);
    EXPECT_EQ(Available(), 400) << text;
  }
  // Never more than is used at all.
  Write(stat, "inactive_file 9223372036854775807");
  EXPECT_EQ(Available(), 500);
  std::filesystem::remove(root_ + stat);
  EXPECT_EQ(Available(), 400);
  // A use above the limit leaves nothing.
  Write("/sys/fs/cgroup/memory.current", Mib(600));
  EXPECT_EQ(Available(), 0);
  for (const char* text : {"", "-2", "much", "1 2", "\xff\xfe"}) {
    Write("/sys/fs/cgroup/memory.current", text);
    ExpectNothingFree(text);
  }
  Write("/sys/fs/cgroup/memory.current", Mib(100));
  for (const char* text : {"", "-2", "much", "1 2", "\xff\xfe"}) {
    Write("/sys/fs/cgroup/memory.max", text);
    ExpectNothingFree(text);
  }
}

TEST_F(CgroupTest, TheSmallestQuotaOfCpuTimeCounts) {
  Write("/proc/self/cgroup", "4:cpu,cpuacct:/job\n0::/a/b");
  MountV2("/", "/sys/fs/cgroup");
  EXPECT_FALSE(ReadCgroupCpus(root_).has_value());
  Write("/sys/fs/cgroup/a/b/cpu.max", "max 100000");
  EXPECT_FALSE(ReadCgroupCpus(root_).has_value());
  Write("/sys/fs/cgroup/a/cpu.max", "250000 100000");
  EXPECT_EQ(ReadCgroupCpus(root_), 3);
  WriteMount("/", "/sys/fs/cgroup/cpu", "cgroup cgroup rw,cpu,cpuacct");
  Write("/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "-1");
  Write("/sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000");
  EXPECT_EQ(ReadCgroupCpus(root_), 3);
  Write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000");
  Write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
  EXPECT_EQ(ReadCgroupCpus(root_), 2);
  for (const char* text : {"", "7", "x y", "1 0", "0 1", "1 2 3"}) {
    Write("/sys/fs/cgroup/a/b/cpu.max", text);
    EXPECT_EQ(ReadCgroupCpus(root_), 2) << text;
  }
}

TEST_F(CgroupTest, TheFileWithTheSmallestLimitIsNamed) {
  Write("/proc/self/cgroup", "0::/a/b");
  MountV2("/", "/sys/fs/cgroup");
  EXPECT_EQ(Memory().limit_file, "");
  GroupV2("/sys/fs/cgroup/a/b", "max", {.current = 10});
  EXPECT_EQ(Memory().limit_file, "");
  GroupV2("/sys/fs/cgroup/a", Mib(1'000), {.current = 20});
  EXPECT_EQ(Memory().limit_file, root_ + "/sys/fs/cgroup/a/memory.max");
  GroupV2("/sys/fs/cgroup/a/b", Mib(999), {.current = 10});
  EXPECT_EQ(Memory().limit_file, root_ + "/sys/fs/cgroup/a/b/memory.max");
  // If two limits are equal, the inner group's file is named.
  GroupV2("/sys/fs/cgroup/a", Mib(999), {.current = 20});
  EXPECT_EQ(Memory().limit_file, root_ + "/sys/fs/cgroup/a/b/memory.max");
}

TEST_F(CgroupTest, TheSmallestLimitOfSwapCounts) {
  Write("/proc/self/cgroup", "0::/a/b");
  MountV2("/", "/sys/fs/cgroup");
  EXPECT_FALSE(ReadCgroupSwap(root_).has_value());
  Write("/sys/fs/cgroup/a/b/memory.swap.max", "max");
  EXPECT_FALSE(ReadCgroupSwap(root_).has_value());
  Write("/sys/fs/cgroup/a/b/memory.swap.max", Mib(7));
  EXPECT_EQ(ReadCgroupSwap(root_), 7 * kMiB);
  Write("/sys/fs/cgroup/a/memory.swap.max", "0");
  EXPECT_EQ(ReadCgroupSwap(root_), 0);
}

TEST_F(CgroupTest, TheCgroupThatLeavesTheFewestThreadsCounts) {
  Write("/proc/self/cgroup", "8:pids:/job\n0::/a");
  MountV2("/", "/sys/fs/cgroup");
  EXPECT_FALSE(ReadCgroupTasks(root_).has_value());
  Write("/sys/fs/cgroup/a/pids.max", "max");
  Write("/sys/fs/cgroup/a/pids.current", "12");
  EXPECT_FALSE(ReadCgroupTasks(root_).has_value());
  Write("/sys/fs/cgroup/a/pids.max", "100");
  auto tasks = ReadCgroupTasks(root_);
  ASSERT_TRUE(tasks.has_value());
  EXPECT_EQ(tasks->limit, 100);
  EXPECT_EQ(tasks->used, 12);
  EXPECT_EQ(tasks->limit_file, root_ + "/sys/fs/cgroup/a/pids.max");
  // A larger limit of which more is used leaves less.
  WriteMount("/", "/sys/fs/cgroup/pids", "cgroup cgroup rw,pids");
  Write("/sys/fs/cgroup/pids/job/pids.max", "1000");
  Write("/sys/fs/cgroup/pids/job/pids.current", "950");
  tasks = ReadCgroupTasks(root_);
  ASSERT_TRUE(tasks.has_value());
  EXPECT_EQ(tasks->limit, 1'000);
  EXPECT_EQ(tasks->limit_file, root_ + "/sys/fs/cgroup/pids/job/pids.max");
}

TEST(CgroupOfThisProcessTest, WithoutDescriptorsNothingIsFree) {
  const int64_t total = TotalMemoryBytes();
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none = {0, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const int64_t available = AvailableMemoryBytes();
  const int64_t total_without = TotalMemoryBytes();
  const bool is_known = ReadCgroupMemory().ok();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(available, 0);
  EXPECT_FALSE(is_known);
  EXPECT_GE(total_without, total);
  EXPECT_GT(AvailableMemoryBytes(), 0);
}

TEST(CgroupOfThisProcessTest, MakesSense) {
  const auto read = ReadCgroupMemory();
  ASSERT_TRUE(read.ok()) << read.status();
  const CgroupMemory& memory = *read;
  if (memory.limit_bytes) {
    EXPECT_GT(*memory.limit_bytes, ResidentBytes());
  }
  if (memory.available_bytes) {
    EXPECT_GT(*memory.available_bytes, 0);
    EXPECT_LE(AvailableMemoryBytes(), *memory.available_bytes + 64 * kMiB);
  }
  EXPECT_GE(ReadCgroupCpus().value_or(1), 1);
}

}  // namespace
}  // namespace plimsoll::worker
