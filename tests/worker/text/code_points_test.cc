#include "worker/text/code_points.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "worker/text/utf8.h"

namespace plimsoll::worker {
namespace {

bool Contains(const CodePoints& set, uint32_t c) {
  return std::any_of(set.begin(), set.end(), [c](const CodePointRange& r) {
    return r.first <= c && c <= r.last;
  });
}

bool Spells(const std::vector<ByteSequence>& sequences,
            const std::string& bytes) {
  return std::any_of(sequences.begin(), sequences.end(),
                     [&](const ByteSequence& one) {
                       if (one.size() != bytes.size()) return false;
                       for (size_t i = 0; i < one.size(); ++i) {
                         const auto byte = static_cast<uint8_t>(bytes[i]);
                         if (byte < one[i].first || byte > one[i].last)
                           return false;
                       }
                       return true;
                     });
}

TEST(CodePointsTest, SurrogatesAndWhatIsAboveTheLastAreNoCharacters) {
  for (const int64_t c : {0, 0x61, 0xD7FF, 0xE000, 0x10FFFF})
    EXPECT_TRUE(IsCharacter(c)) << c;
  for (const int64_t c : {int64_t{-1}, int64_t{0xD800}, int64_t{0xDFFF},
                          int64_t{0x110000}, int64_t{0x10000000061}})
    EXPECT_FALSE(IsCharacter(c)) << c;
}

TEST(CodePointsTest, RangesAreMergedAndHaveNoSurrogates) {
  const CodePoints set =
      Normalized({{5, 9}, {1, 3}, {4, 4}, {8, 12}, {0xD7FF, 0xE000}, {99, 98}});
  ASSERT_EQ(set.size(), 3u);
  EXPECT_EQ(set[0].first, 1u);
  EXPECT_EQ(set[0].last, 12u);
  EXPECT_EQ(set[1].last, 0xD7FFu);
  EXPECT_EQ(set[2].first, 0xE000u);
}

TEST(CodePointsTest, NothingIsAboveTheLastCodePoint) {
  const CodePoints set = Normalized({{0x10FFFF, 0xFFFFFFFF}});
  ASSERT_EQ(set.size(), 1u);
  EXPECT_EQ(set[0].last, kMaxCodePoint);
  EXPECT_TRUE(Normalized({{0x110000, 0x110001}}).empty());
}

TEST(CodePointsTest, AComplementHasTheRest) {
  const CodePoints set = {{'a', 'z'}, {0x400, 0x20000}};
  const CodePoints rest = Complement(set);
  for (const uint32_t c : {0u, 96u, 97u, 122u, 123u, 0x3FFu, 0x400u, 0x20000u,
                           0x20001u, 0x10FFFFu}) {
    EXPECT_NE(Contains(set, c), Contains(rest, c)) << c;
  }
  EXPECT_FALSE(Contains(Complement({}), 0xD800));
  EXPECT_TRUE(Complement(Complement({})).empty());
}

TEST(CodePointsTest, SequencesSpellExactlyTheSet) {
  const CodePoints sets[] = {
      {{0, kMaxCodePoint}},
      {{'b', 'y'}},
      {{0x7F, 0x80}, {0x7FF, 0x800}, {0xFFFF, 0x10000}},
      {{0x3B1, 0x3C9}, {0x1F600, 0x1F64F}},
      Complement({{'"', '"'}, {'\\', '\\'}, {0x123, 0x4567}}),
  };
  for (const CodePoints& set : sets) {
    const std::vector<ByteSequence> sequences = Utf8Sequences(set);
    for (uint32_t c = 0; c <= kMaxCodePoint; c += (c < 0x11000 ? 1 : 7)) {
      if (c >= 0xD800 && c <= 0xDFFF) continue;
      std::string bytes;
      AppendUtf8(c, bytes);
      ASSERT_EQ(Spells(sequences, bytes), Contains(set, c)) << c;
    }
  }
}

TEST(CodePointsTest, IllFormedBytesAreInNoSet) {
  const std::vector<ByteSequence> all = Utf8Sequences(Complement({}));
  for (const char* bytes : {"\x80", "\xC0\x80", "\xED\xA0\x80", "\xE0\x80\x80",
                            "\xF4\x90\x80\x80", "\xFF"}) {
    EXPECT_FALSE(Spells(all, bytes));
  }
}

TEST(CodePointsTest, WhatIsAppendedIsTaken) {
  for (const uint32_t c :
       {0u, 0x7Fu, 0x80u, 0x7FFu, 0x800u, 0xFFFFu, 0x10000u, 0x10FFFFu}) {
    std::string bytes;
    AppendUtf8(c, bytes);
    EXPECT_TRUE(IsValidUtf8(bytes));
    absl::string_view rest = bytes;
    EXPECT_EQ(TakeCodePoint(rest), c);
    EXPECT_TRUE(rest.empty());
  }
  absl::string_view broken = "\xE2\x82";
  EXPECT_EQ(TakeCodePoint(broken), std::nullopt);
}

}  // namespace
}  // namespace plimsoll::worker
