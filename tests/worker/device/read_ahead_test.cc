// Pieces of a file come in order and whole, whatever is asked for when.
#include "worker/device/read_ahead.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <vector>

#include "tests/worker/random_model.h"

namespace plimsoll::worker {
namespace {

using ::plimsoll::testing::FindRandomModel;
using ::plimsoll::testing::RandomModelBytes;
using ::plimsoll::testing::TemporaryFile;

// With a thread, and without.
class ReadAheadTest : public ::testing::TestWithParam<bool> {
 protected:
  ReadAheadTest()
      : bytes_(RandomModelBytes(FindRandomModel("llama_f32"))),
        on_disk_(bytes_) {
    auto opened = ModelFile::Open(on_disk_.path());
    EXPECT_TRUE(opened.ok()) << opened.status();
    file_ = *std::move(opened);
  }

  const std::vector<std::byte> bytes_;
  const TemporaryFile on_disk_;
  std::unique_ptr<ModelFile> file_;
};

TEST_P(ReadAheadTest, EveryPieceIsTheFilesBytes) {
  std::vector<ReadAhead::Piece> pieces;
  for (int64_t i = 0; i < 200; ++i) {
    pieces.push_back({.offset = i * 37, .bytes = 1 + i * i % 997});
  }
  ReadAhead reader(*file_, pieces, GetParam());
  for (const ReadAhead::Piece& piece : pieces) {
    const auto read = reader.Next();
    ASSERT_TRUE(read.ok()) << read.status();
    ASSERT_EQ(static_cast<int64_t>(read->size()), piece.bytes);
    EXPECT_TRUE(
        std::equal(read->begin(), read->end(), bytes_.begin() + piece.offset));
  }
}

TEST_P(ReadAheadTest, PiecesThatNobodyTakesAreNotWaitedFor) {
  const std::vector<ReadAhead::Piece> pieces(100, {.offset = 0, .bytes = 64});
  const ReadAhead untouched(*file_, pieces, GetParam());
  ReadAhead begun(*file_, pieces, GetParam());
  EXPECT_TRUE(begun.Next().ok());
  const ReadAhead empty(*file_, {}, GetParam());
}

TEST_P(ReadAheadTest, AnErrorComesWithItsPieceAndStays) {
  std::filesystem::resize_file(on_disk_.path(), 100);
  ReadAhead reader(*file_,
                   {{.offset = 0, .bytes = 100},
                    {.offset = 50, .bytes = 100},
                    {.offset = 0, .bytes = 10}},
                   GetParam());
  EXPECT_TRUE(reader.Next().ok());
  EXPECT_EQ(reader.Next().status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(reader.Next().status().code(), absl::StatusCode::kDataLoss);
}

INSTANTIATE_TEST_SUITE_P(All, ReadAheadTest, ::testing::Bool());

}  // namespace
}  // namespace plimsoll::worker
