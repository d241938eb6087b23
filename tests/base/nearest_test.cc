#include "base/nearest.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace plimsoll {
namespace {

constexpr absl::string_view kNames[] = {"/set", "/save", "/system", "/reset",
                                        "/regenerate"};

TEST(NearestTest, TakesTheNameWithTheFewestWrongLetters) {
  EXPECT_EQ(Nearest("/sat", kNames), "/set");
  EXPECT_EQ(Nearest("/svae", kNames), "/save") << "swapped letters are one";
  EXPECT_EQ(Nearest("/sytsme", kNames), "/system");
  EXPECT_EQ(Nearest("/resett", kNames), "/reset");
}

TEST(NearestTest, ABeginningIsNearerThanAnyOtherName) {
  EXPECT_EQ(Nearest("/reg", kNames), "/regenerate");
  EXPECT_EQ(Nearest("/s", kNames), "/set") << "the first of several";
}

TEST(NearestTest, TakesAnyWord) {
  EXPECT_EQ(Nearest("", kNames), "/set");
  std::string long_word(1 << 20, 'x');
  long_word += "/reset";
  EXPECT_EQ(Nearest(long_word, kNames), "/set");
}

}  // namespace
}  // namespace plimsoll
