// Settings of the system's memory, read from trees of files that look like the
// kernel's.
#include "worker/device/memory_settings.h"

#include <gtest/gtest.h>

#include "tests/worker/fake_tree.h"

namespace plimsoll::worker {
namespace {

constexpr int64_t kKiB = 1'024;

class MemorySettingsTest : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    tree_.Write(path, text);
  }
  MemorySettings Read() { return ReadMemorySettings(tree_.root()); }

  const testing::FakeTree tree_;
};

TEST_F(MemorySettingsTest, AnEmptySystemSaysNothing) {
  const MemorySettings settings = Read();
  EXPECT_FALSE(settings.swap_bytes.has_value());
  EXPECT_FALSE(settings.free_swap_bytes.has_value());
  EXPECT_EQ(settings.huge_pages, "");
  EXPECT_FALSE(settings.mappable_bytes.has_value());
}

TEST_F(MemorySettingsTest, SwapIsThatOfMeminfo) {
  Write("/proc/meminfo", "MemTotal: 9 kB\nSwapTotal: 100 kB\nSwapFree: 70 kB");
  EXPECT_EQ(Read().swap_bytes, 100 * kKiB);
  EXPECT_EQ(Read().free_swap_bytes, 70 * kKiB);
}

TEST_F(MemorySettingsTest, TheWordInBracketsIsChosen) {
  const std::string file = "/sys/kernel/mm/transparent_hugepage/enabled";
  Write(file, "always [madvise] never");
  EXPECT_EQ(Read().huge_pages, "madvise");
  Write(file, "[always] madvise never");
  EXPECT_EQ(Read().huge_pages, "always");
  Write(file, "always madvise [never]");
  EXPECT_EQ(Read().huge_pages, "never");
  Write(file, "always madvise never");
  EXPECT_EQ(Read().huge_pages, "");
}

TEST_F(MemorySettingsTest, OnlyStrictAccountingLimitsMappings) {
  Write("/proc/meminfo", "CommitLimit: 100 kB\nCommitted_AS: 60 kB");
  for (const char* mode : {"0", "1", ""}) {
    Write("/proc/sys/vm/overcommit_memory", mode);
    EXPECT_FALSE(Read().mappable_bytes.has_value()) << mode;
  }
  Write("/proc/sys/vm/overcommit_memory", "2");
  EXPECT_EQ(Read().mappable_bytes, 40 * kKiB);
  Write("/proc/meminfo", "CommitLimit: 100 kB\nCommitted_AS: 101 kB");
  EXPECT_EQ(Read().mappable_bytes, 0);
  Write("/proc/meminfo", "CommitLimit: 100 kB");
  EXPECT_FALSE(Read().mappable_bytes.has_value());
}

}  // namespace
}  // namespace plimsoll::worker
