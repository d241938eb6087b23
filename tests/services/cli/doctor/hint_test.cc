// Advice in messages.
#include "services/cli/doctor/hint.h"

#include <gtest/gtest.h>

namespace plimsoll::cli {
namespace {

TEST(HintTest, AMessageWithoutAdviceIsItself) {
  const Hint hint = SplitHint("nothing\nworks");
  EXPECT_EQ(hint.message, "nothing works");
  EXPECT_EQ(hint.advice, "");
  EXPECT_EQ(SplitHint("").message, "");
}

TEST(HintTest, TheFirstAdviceIsTakenInOneLine) {
  const Hint hint = SplitHint(
      "nobody answers\n  try: start it, or leave the address out\n       to "
      "run here\n  try: something else");
  EXPECT_EQ(hint.message, "nobody answers");
  EXPECT_EQ(hint.advice, "start it, or leave the address out to run here");
}

}  // namespace
}  // namespace plimsoll::cli
