#include "kernels/buffer.h"

#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace plimsoll::kernels {
namespace {

class BufferTest : public ::testing::Test {
 protected:
  Buffer Take(int i) {
    return {&bytes_[i], i + 1, [this](std::byte* data, int64_t bytes) {
              freed_.emplace_back(data - bytes_, bytes);
            }};
  }

  std::byte bytes_[4] = {};
  std::vector<std::pair<int64_t, int64_t>> freed_;  // places and bytes
};

TEST_F(BufferTest, IsFreedOnceWithItsBytes) {
  {
    const Buffer buffer = Take(2);
    EXPECT_EQ(buffer.data(), bytes_ + 2);
    EXPECT_EQ(buffer.bytes(), 3);
    EXPECT_EQ(buffer.view().data, bytes_ + 2);
    EXPECT_EQ(buffer.view().bytes, 3);
    EXPECT_TRUE(freed_.empty());
  }
  EXPECT_EQ(freed_, (std::vector<std::pair<int64_t, int64_t>>{{2, 3}}));
}

TEST_F(BufferTest, AnEmptyOneFreesNothing) {
  { const Buffer buffer; }
  EXPECT_TRUE(freed_.empty());
}

TEST_F(BufferTest, WhoeverIsMovedToFrees) {
  {
    Buffer outer;
    {
      Buffer inner = Take(1);
      outer = std::move(inner);
    }
    EXPECT_TRUE(freed_.empty());
    const Buffer last = std::move(outer);
    EXPECT_EQ(last.bytes(), 2);
  }
  EXPECT_EQ(freed_, (std::vector<std::pair<int64_t, int64_t>>{{1, 2}}));
}

TEST_F(BufferTest, WhatAnAssignmentReplacesIsFreedToo) {
  {
    Buffer first = Take(0);
    Buffer second = Take(3);
    first = std::move(second);
    EXPECT_EQ(first.data(), bytes_ + 3);
  }
  EXPECT_EQ(freed_, (std::vector<std::pair<int64_t, int64_t>>{{0, 1}, {3, 4}}));
}

TEST(BufferViewTest, ASliceIsCountedFromTheViewsBegin) {
  std::byte bytes[8] = {};
  const BufferView slice = BufferView{bytes + 1, 6}.Slice(2, 3);
  EXPECT_EQ(slice.data, bytes + 3);
  EXPECT_EQ(slice.bytes, 3);
}

}  // namespace
}  // namespace plimsoll::kernels
