#include "worker/text/tokenizer/piece_cache.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace plimsoll::worker {
namespace {

using Kind = PieceCache::Kind;
using Ids = std::vector<int32_t>;

class PieceCacheTest : public ::testing::Test {
 protected:
  // The ids of a piece, which are `fresh` unless the cache has others.
  Ids Get(absl::string_view piece, const Ids& fresh, Kind kind) {
    Ids ids = {-1};
    const auto encode = [&] {
      ++n_encoded_;
      ids.insert(ids.end(), fresh.begin(), fresh.end());
      return absl::OkStatus();
    };
    EXPECT_TRUE(cache_.Append(piece, kind, ids, encode).ok());
    EXPECT_EQ(ids.front(), -1) << "what was there stays";
    ids.erase(ids.begin());
    return ids;
  }
  Ids Get(absl::string_view piece, const Ids& fresh) {
    return Get(piece, fresh, Kind::kPiece);
  }

  PieceCache cache_ = PieceCache(1 << 20);
  int n_encoded_ = 0;
};

TEST_F(PieceCacheTest, AShortPieceIsEncodedOnce) {
  for (size_t n = 0; n <= PieceCache::kMaxPieceBytes; ++n) {
    const std::string piece(n, 'x');
    const auto id = static_cast<int32_t>(n);
    EXPECT_EQ(Get(piece, {id, 7}), (Ids{id, 7})) << n;
    EXPECT_EQ(Get(piece, {100}), (Ids{id, 7})) << n;
  }
  EXPECT_EQ(n_encoded_, static_cast<int>(PieceCache::kMaxPieceBytes) + 1);
}

TEST_F(PieceCacheTest, EveryByteOfAPieceCounts) {
  for (size_t n = 1; n <= PieceCache::kMaxPieceBytes; ++n) {
    for (size_t at = 0; at < n; ++at) {
      std::string piece(n, 'x');
      piece[at] = '\0';
      const Ids fresh = {static_cast<int32_t>(n), static_cast<int32_t>(at)};
      EXPECT_EQ(Get(piece, fresh), fresh);
    }
  }
}

TEST_F(PieceCacheTest, AFragmentIsAnotherPiece) {
  EXPECT_EQ(Get("a", {1}, Kind::kPiece), (Ids{1}));
  EXPECT_EQ(Get("a", {2}, Kind::kFragment), (Ids{2}));
  EXPECT_EQ(Get("a", {3}, Kind::kFragment), (Ids{2}));
}

TEST_F(PieceCacheTest, LongPiecesAndManyIdsAreNotRemembered) {
  const std::string longer(PieceCache::kMaxPieceBytes + 1, 'x');
  EXPECT_EQ(Get(longer, {1}), (Ids{1}));
  EXPECT_EQ(Get(longer, {2}), (Ids{2}));
  const Ids most(PieceCache::kMaxIds, 3);
  const Ids more(PieceCache::kMaxIds + 1, 4);
  EXPECT_EQ(Get("a", more), more);
  EXPECT_EQ(Get("a", most), most);
  EXPECT_EQ(Get("a", more), most);
}

TEST_F(PieceCacheTest, AnErrorIsReturnedAndNotRemembered) {
  const absl::Status error = absl::CancelledError("gone");
  Ids ids;
  EXPECT_EQ(cache_.Append("a", Kind::kPiece, ids, [&] { return error; }),
            error);
  EXPECT_EQ(Get("a", {5}), (Ids{5}));
}

TEST(SmallPieceCacheTest, ALaterPieceMayTakeAPlaceButNeverAnothersIds) {
  PieceCache cache(0);
  for (int round = 0; round < 2; ++round) {
    for (int32_t i = 0; i < 200; ++i) {
      Ids ids;
      const auto encode = [&] {
        ids.push_back(i);
        return absl::OkStatus();
      };
      ASSERT_TRUE(
          cache.Append(std::to_string(i), Kind::kPiece, ids, encode).ok());
      EXPECT_EQ(ids, (Ids{i}));
    }
  }
}

}  // namespace
}  // namespace plimsoll::worker
