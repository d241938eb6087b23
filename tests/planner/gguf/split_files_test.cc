// Models in several files: names, merging, and shards that contradict.
#include "planner/gguf/split_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "absl/strings/str_cat.h"

namespace plimsoll::planner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<GgufHeader> Shards(int n) {
  std::vector<GgufHeader> shards;
  for (int i = 0; i < n; ++i) {
    GgufHeader shard = {};
    shard.alignment = 32;
    shard.data_offset = 96;
    shard.file_bytes = 96 + 40;
    shard.metadata["split.no"] = {GgufType::kU16, uint64_t(i)};
    shard.metadata["split.count"] = {GgufType::kU16, uint64_t(n)};
    shard.tensors.push_back({.name = absl::StrCat("t", i),
                             .dtype = DType::kF32,
                             .n_dims = 1,
                             .ne = {10, 1, 1, 1},
                             .offset = 0,
                             .bytes = 40});
    shards.push_back(shard);
  }
  shards[0].metadata["split.tensors.count"] = {GgufType::kI32, int64_t(n)};
  shards[0].metadata["general.architecture"] = {GgufType::kString,
                                                std::string("llama")};
  return shards;
}

void ExpectError(const std::vector<GgufHeader>& shards,
                 const std::string& words) {
  const auto whole = MergeSplits(shards);
  EXPECT_TRUE(absl::IsInvalidArgument(whole.status())) << whole.status();
  EXPECT_THAT(std::string(whole.status().message()), HasSubstr(words));
}

TEST(SplitFilesTest, TheFirstPartNamesTheOthers) {
  EXPECT_THAT(SplitNames("m-00001-of-00003.gguf"),
              ElementsAre("m-00001-of-00003.gguf", "m-00002-of-00003.gguf",
                          "m-00003-of-00003.gguf"));
  EXPECT_THAT(SplitNames("m-00001-of-01024.gguf"), SizeIs(kMaxSplits));
  for (const char* name :
       {"m.gguf", "m-00002-of-00003.gguf", "m-00001-of-00000.gguf",
        "m-00001-of-01025.gguf", "-00001-of-00003.gguf",
        "m-00001-of-0000x.gguf", "m-00001-of-00003.ggufx", ""}) {
    EXPECT_THAT(SplitNames(name), IsEmpty()) << name;
  }
}

TEST(SplitFilesTest, LaterPartsAreKnownByTheirNames) {
  for (const char* name : {"m-00002-of-00003.gguf", "m-00003-of-00003.gguf"}) {
    EXPECT_TRUE(IsLaterSplit(name)) << name;
  }
  for (const char* name :
       {"m.gguf", "m-00001-of-00003.gguf", "m-00004-of-00003.gguf",
        "m-00000-of-00003.gguf", "m-0000x-of-00003.gguf",
        "m-00002-of-01025.gguf", "-00002-of-00003.gguf", ""}) {
    EXPECT_FALSE(IsLaterSplit(name)) << name;
  }
}

TEST(SplitFilesTest, PartsBecomeOneHeader) {
  const auto whole = MergeSplits(Shards(3));
  ASSERT_TRUE(whole.ok()) << whole.status();
  ASSERT_THAT(whole->tensors, SizeIs(3));
  // 136 bytes of a shard end at a multiple of 32 after 160.
  EXPECT_THAT(*SplitOffsets(Shards(3)), ElementsAre(0, 160, 320, 480));
  EXPECT_EQ(whole->data_offset, 96);
  EXPECT_EQ(whole->tensors[0].offset, 0);
  EXPECT_EQ(whole->tensors[1].offset, 160);
  EXPECT_EQ(whole->tensors[2].offset, 320);
  EXPECT_EQ(whole->file_bytes, 480);
  EXPECT_EQ(*whole->String("general.architecture"), "llama");
}

TEST(SplitFilesTest, TheWholeIsAlignedAsEachPartIs) {
  std::vector<GgufHeader> shards = Shards(2);
  shards[0].alignment = 64;
  shards[0].data_offset = 128;
  shards[0].file_bytes = 128 + 40;
  shards[0].metadata["general.alignment"] = {GgufType::kU32, uint64_t{64}};
  const auto whole = MergeSplits(shards);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->alignment, 32);
  EXPECT_EQ(*whole->Int("general.alignment"), 32);
  EXPECT_THAT(*SplitOffsets(shards), ElementsAre(0, 192, 352));
  EXPECT_EQ(whole->tensors[1].offset, 192 + 96 - 128);
}

TEST(SplitFilesTest, PartsThatContradictAreNamed) {
  EXPECT_FALSE(MergeSplits({}).ok());
  auto shards = Shards(3);
  std::swap(shards[1], shards[2]);
  ExpectError(shards, "shard 2: metadata \"split.no\" is 2, not 1");
  shards = Shards(3);
  shards.pop_back();
  ExpectError(shards, "shard 1: metadata \"split.count\" is 3, not 2");
  shards = Shards(3);
  shards[2].metadata.erase("split.count");
  ExpectError(shards, "shard 3: metadata \"split.count\" is missing");
  shards = Shards(3);
  shards[0].metadata["split.tensors.count"] = {GgufType::kI32, int64_t{4}};
  ExpectError(shards, "\"split.tensors.count\" is 4, not 3");
  shards = Shards(3);
  shards[2].tensors[0].name = "t1";
  ExpectError(shards, "\"t1\" is in two shards");
  shards = Shards(3);
  shards[1].metadata["split.no"] = {GgufType::kString, std::string("1")};
  ExpectError(shards, "split.no");
}

TEST(SplitFilesTest, ReportsOverflow) {
  auto shards = Shards(3);
  shards[0].file_bytes = std::numeric_limits<int64_t>::max() - 300;
  EXPECT_TRUE(absl::IsOutOfRange(MergeSplits(shards).status()));
  shards[0].file_bytes = std::numeric_limits<int64_t>::max();
  EXPECT_TRUE(absl::IsOutOfRange(MergeSplits(shards).status()));
}

}  // namespace
}  // namespace plimsoll::planner
