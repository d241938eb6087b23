#include "worker/graph/step_pieces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace plimsoll::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Adds rows of a sequence, of which the last `n_sampled` are sampled.
void Append(StepBatch& batch, SequenceRows rows, int64_t n_sampled) {
  rows.first_row = std::ssize(batch.tokens);
  for (int64_t i = 0; i < rows.n_rows; ++i) {
    batch.tokens.push_back(static_cast<int32_t>(std::ssize(batch.tokens)));
    batch.positions.push_back(rows.first_position + i);
    batch.prefix_positions.push_back(rows.first_position + i - 3);
    if (i >= rows.n_rows - n_sampled) {
      batch.sampled_rows.push_back(static_cast<int32_t>(rows.first_row + i));
    }
  }
  batch.sequences.push_back(rows);
}

// One that decodes, a prompt that ends, and one that does not.
StepBatch Mixed() {
  StepBatch batch;
  batch.has_rolled_prefix = true;
  Append(batch, {.slot = 2, .first_row = 0, .n_rows = 1, .first_position = 70},
         1);
  Append(batch,
         {.slot = 0,
          .first_row = 0,
          .n_rows = 12,
          .first_position = 40,
          .is_prompt = true},
         1);
  Append(batch,
         {.slot = 1,
          .first_row = 0,
          .n_rows = 10,
          .first_position = 0,
          .is_prompt = true},
         0);
  return batch;
}

std::vector<StepBatch> Cut(const StepBatch& batch, int64_t least_rows) {
  std::vector<StepBatch> pieces;
  const size_t n = CutStep(batch, least_rows, pieces);
  EXPECT_EQ(pieces.size(), n == 1 ? 0 : n);
  return pieces;
}

TEST(StepPiecesTest, PiecesAreTheBatchInOrder) {
  const StepBatch batch = Mixed();
  for (const int64_t least_rows : {1, 2, 3, 5, 7, 11}) {
    SCOPED_TRACE(least_rows);
    const std::vector<StepBatch> pieces = Cut(batch, least_rows);
    EXPECT_EQ(std::ssize(pieces), 23 / least_rows);
    StepBatch joined;
    for (const StepBatch& piece : pieces) {
      EXPECT_EQ(piece.first_row, std::ssize(joined.tokens));
      EXPECT_EQ(piece.first_sampled, std::ssize(joined.sampled_rows));
      EXPECT_GE(std::ssize(piece.tokens), least_rows);
      EXPECT_TRUE(piece.has_rolled_prefix);
      EXPECT_FALSE(piece.only_decodes);
      int64_t row = 0;
      for (const SequenceRows& rows : piece.sequences) {
        EXPECT_EQ(rows.first_row, row);
        for (int64_t i = 0; i < rows.n_rows; ++i, ++row) {
          EXPECT_EQ(piece.positions[static_cast<size_t>(row)],
                    rows.first_position + i);
        }
      }
      EXPECT_EQ(row, std::ssize(piece.tokens));
      for (const int32_t sampled : piece.sampled_rows) {
        joined.sampled_rows.push_back(sampled +
                                      static_cast<int32_t>(piece.first_row));
      }
      joined.tokens.insert(joined.tokens.end(), piece.tokens.begin(),
                           piece.tokens.end());
      joined.positions.insert(joined.positions.end(), piece.positions.begin(),
                              piece.positions.end());
      joined.prefix_positions.insert(joined.prefix_positions.end(),
                                     piece.prefix_positions.begin(),
                                     piece.prefix_positions.end());
    }
    EXPECT_EQ(joined.tokens, batch.tokens);
    EXPECT_EQ(joined.positions, batch.positions);
    EXPECT_EQ(joined.prefix_positions, batch.prefix_positions);
    EXPECT_EQ(joined.sampled_rows, batch.sampled_rows);
  }
}

TEST(StepPiecesTest, ASequenceGoesOnInTheNextPiece) {
  const std::vector<StepBatch> pieces = Cut(Mixed(), 8);
  ASSERT_EQ(pieces.size(), 2u);
  ASSERT_EQ(pieces[0].sequences.size(), 2u);
  ASSERT_EQ(pieces[1].sequences.size(), 2u);
  EXPECT_FALSE(pieces[0].sequences[0].is_prompt);
  const SequenceRows& begun = pieces[0].sequences[1];
  const SequenceRows& rest = pieces[1].sequences[0];
  EXPECT_EQ(begun.slot, 0);
  EXPECT_EQ(begun.first_position, 40);
  EXPECT_EQ(begun.n_rows, 10);
  EXPECT_EQ(rest.slot, 0);
  EXPECT_TRUE(rest.is_prompt);
  EXPECT_EQ(rest.first_row, 0);
  EXPECT_EQ(rest.first_position, 50);
  EXPECT_EQ(rest.n_rows, 2);
  EXPECT_THAT(pieces[0].sampled_rows, ElementsAre(0));
  EXPECT_THAT(pieces[1].sampled_rows, ElementsAre(1));
}

TEST(StepPiecesTest, WhatIsLookedAtGoesWithItsRow) {
  StepBatch batch = Mixed();
  const std::vector<kernels::TopOutputs> top = {{.k = 1, .always = {}},
                                                {.k = 2, .always = {}}};
  batch.top = top;
  const std::vector<StepBatch> pieces = Cut(batch, 7);
  ASSERT_EQ(pieces.size(), 3u);
  ASSERT_EQ(pieces[0].top.size(), 1u);
  EXPECT_EQ(pieces[0].top[0].k, 1);
  ASSERT_EQ(pieces[1].top.size(), 1u);
  EXPECT_EQ(pieces[1].top[0].k, 2);
  EXPECT_THAT(pieces[2].top, IsEmpty());
}

TEST(StepPiecesTest, SomeStepsStayWhole) {
  EXPECT_THAT(Cut(Mixed(), 12), IsEmpty());
  EXPECT_THAT(Cut(Mixed(), 0), IsEmpty());
  StepBatch batch = Mixed();
  batch.only_decodes = true;
  EXPECT_THAT(Cut(batch, 2), IsEmpty());
  batch = Mixed();
  batch.keeps_all_rows = true;
  EXPECT_THAT(Cut(batch, 2), IsEmpty());
  batch = Mixed();
  Append(batch,
         {.slot = 3,
          .first_row = 0,
          .n_rows = 4,
          .first_position = 9,
          .n_draft = 3},
         4);
  EXPECT_THAT(Cut(batch, 2), IsEmpty());
}

TEST(StepPiecesTest, PiecesOfALaterStepReplaceTheFormerOnes) {
  std::vector<StepBatch> pieces;
  ASSERT_EQ(CutStep(Mixed(), 2, pieces), 11u);
  StepBatch batch;
  Append(batch,
         {.slot = 1,
          .first_row = 0,
          .n_rows = 5,
          .first_position = 10,
          .is_prompt = true},
         0);
  ASSERT_EQ(CutStep(batch, 2, pieces), 2u);
  EXPECT_THAT(pieces[0].tokens, ElementsAre(0, 1));
  EXPECT_THAT(pieces[1].tokens, ElementsAre(2, 3, 4));
  EXPECT_FALSE(pieces[0].has_rolled_prefix);
  EXPECT_THAT(pieces[0].sampled_rows, IsEmpty());
  EXPECT_EQ(pieces[1].sequences.size(), 1u);
}

}  // namespace
}  // namespace plimsoll::worker
