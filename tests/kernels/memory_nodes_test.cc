// Memory that is spread over nodes, asked of the system itself.
#include "kernels/memory_nodes.h"

#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernels/memory.h"

namespace plimsoll::kernels {
namespace {

// The policy of the page at `data`, or -1.
int PolicyAt(std::byte* data) {
  int mode = -1;
  if (syscall(SYS_get_mempolicy, &mode, nullptr, 0, data, MPOL_F_ADDR) != 0) {
    return -1;
  }
  return mode;
}

class MemoryNodesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (nodes_.none()) GTEST_SKIP() << "the system names no nodes";
  }

  MemoryNodes nodes_ = NodesToSpreadOver();
};

TEST_F(MemoryNodesTest, PagesComeFromTheNodesThatWereAskedFor) {
  bool is_done = false;
  const auto buffer =
      AllocateHuge(kHugePageBytes, [&](std::byte* data, int64_t bytes) {
        is_done = InterleavePages(data, bytes, nodes_);
        data[0] = std::byte{1};
      });
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  if (!is_done) GTEST_SKIP() << "the system refuses mbind";
  EXPECT_EQ(PolicyAt(buffer->data()), MPOL_INTERLEAVE);
  // By itself an allocation is spread only where there are several.
  const auto other = AllocateHuge(
      kHugePageBytes, [](std::byte* data, int64_t) { data[0] = std::byte{1}; });
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(PolicyAt(other->data()),
            nodes_.count() > 1 ? MPOL_INTERLEAVE : MPOL_DEFAULT);
}

TEST_F(MemoryNodesTest, ANodeThatThereIsNotIsRefusedAndHarmsNothing) {
  MemoryNodes none;
  none.set(kMaxMemoryNodes - 1);
  const auto buffer =
      AllocateHuge(kHugePageBytes, [&](std::byte* data, int64_t bytes) {
        EXPECT_FALSE(InterleavePages(data, bytes, none));
        data[0] = std::byte{1};
      });
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  EXPECT_EQ(buffer->data()[0], std::byte{1});
}

}  // namespace
}  // namespace plimsoll::kernels
