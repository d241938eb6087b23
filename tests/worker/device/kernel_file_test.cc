#include "worker/device/kernel_file.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/status/status.h"

namespace plimsoll::worker {
namespace {

class KernelFileTest : public ::testing::Test {
 protected:
  KernelFileTest() : folder_(::testing::TempDir() + "plimsoll-file-XXXXXX") {
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
  }
  ~KernelFileTest() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& text) {
    const std::string path = folder_ + "/file";
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

  std::string folder_;
};

TEST_F(KernelFileTest, TheWholeTextIsRead) {
  for (const size_t n_bytes : {0u, 1u, 4095u, 4096u, 4097u, 100'000u}) {
    const std::string text(n_bytes, 'x');
    EXPECT_EQ(ReadKernelFile(Write(text)).value_or("none"), text);
  }
  EXPECT_FALSE(ReadKernelFile("/proc/self/status")->empty());
}

TEST_F(KernelFileTest, AFileUpToTheLimitAndNotPastIt) {
  const std::string text(kMaxKernelFileBytes, 'x');
  EXPECT_TRUE(ReadKernelFile(Write(text)).ok());
  EXPECT_TRUE(absl::IsUnavailable(ReadKernelFile(Write(text + "x")).status()));
}

TEST_F(KernelFileTest, AbsentIsNotUnreadable) {
  const std::string file = Write("text");
  EXPECT_TRUE(absl::IsNotFound(ReadKernelFile(folder_ + "/none").status()));
  EXPECT_TRUE(absl::IsNotFound(ReadKernelFile(file + "/in it").status()));
  EXPECT_TRUE(absl::IsUnavailable(ReadKernelFile(folder_).status()));
}

TEST(BytesOfKeyTest, AKeyIsAWholeNameAtTheBeginningOfALine) {
  const std::string text =
      "MemTotal:       24684084 kB\nSwapTotal: 5 kB\nHugePages_Total:       7\n"
      "SwapTotalMore: 9 kB\nBroken: x kB\n";
  EXPECT_EQ(BytesOfKey(text, "MemTotal"), int64_t{24'684'084} * 1'024);
  EXPECT_EQ(BytesOfKey(text, "SwapTotal"), 5 * 1'024);
  for (const char* key : {"Total", "Swap", "Broken", "Absent"}) {
    EXPECT_FALSE(BytesOfKey(text, key).has_value()) << key;
  }
  EXPECT_FALSE(BytesOfKey("", "MemTotal").has_value());
}

}  // namespace
}  // namespace plimsoll::worker
