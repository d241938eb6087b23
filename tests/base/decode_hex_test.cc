#include "base/decode_hex.h"

#include <gtest/gtest.h>

#include <string>

namespace plimsoll {
namespace {

TEST(DecodeHexTest, APairOfDigitsIsAByte) {
  EXPECT_EQ(DecodeHex(""), "");
  EXPECT_EQ(DecodeHex("00fF7a"), std::string("\0\xFF\x7A", 3));
}

}  // namespace
}  // namespace plimsoll
