#include "worker/text/tokenizer/char_classes.h"

#include <cstdint>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "worker/text/code_points.h"

namespace plimsoll::worker {
namespace {

TEST(CharClasses, KnowTheirCodePoints) {
  const auto classes = CharClasses::Get(Alphabet::kLetters);
  ASSERT_TRUE(classes.ok()) << classes.status();
  EXPECT_EQ((*classes)->Of('a'), CharClasses::kLetter);
  EXPECT_EQ((*classes)->Of('7'), CharClasses::kNumber);
  EXPECT_EQ((*classes)->Of(' '), CharClasses::kSpace);
  EXPECT_EQ((*classes)->Of('!'), CharClasses::kSign);
  EXPECT_EQ((*classes)->Of(0x85), CharClasses::kSpace);     // next line
  EXPECT_EQ((*classes)->Of(0x180E), CharClasses::kSign);    // no space any more
  EXPECT_EQ((*classes)->Of(0x4E2D), CharClasses::kLetter);  // Han
  EXPECT_EQ((*classes)->Of(0x1F600), CharClasses::kSign);   // a face
  EXPECT_EQ((*classes)->Of(0xD800), 0);                     // a surrogate
  EXPECT_EQ((*classes)->Of(kMaxCodePoint), CharClasses::kSign);
}

// Blocks are made when they are looked at, by whichever thread comes first.
TEST(CharClasses, AreTheSameForAllThreads) {
  const auto classes = CharClasses::Get(Alphabet::kCases);
  ASSERT_TRUE(classes.ok()) << classes.status();
  constexpr uint32_t kLast = 0x2FFFF;
  std::vector<std::vector<uint8_t>> seen(4);
  {
    std::vector<std::jthread> threads;
    for (std::vector<uint8_t>& mine : seen) {
      threads.emplace_back([&mine, &classes] {
        for (uint32_t c = 0; c <= kLast; ++c) mine.push_back((*classes)->Of(c));
      });
    }
  }
  for (const std::vector<uint8_t>& mine : seen) EXPECT_EQ(mine, seen[0]);
}

}  // namespace
}  // namespace plimsoll::worker
