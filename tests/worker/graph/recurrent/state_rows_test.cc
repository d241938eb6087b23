// Which states a step's rows begin with and leave behind.
#include "worker/graph/recurrent/state_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "planner/layout/kv_cache_bytes.h"

namespace plimsoll::worker {
namespace {

using ::testing::ElementsAre;

constexpr int32_t kNone = kernels::kNoState;

SequenceRows Rows(int64_t slot, int64_t n_rows, int64_t first_position) {
  return {.slot = slot,
          .first_row = 0,
          .n_rows = n_rows,
          .first_position = first_position};
}

// Three slots with three drafts each, so that slot s has states from 4 s on.
class StateRowsTest : public ::testing::Test {
 protected:
  StateRowsTest() {
    shape_.n_layers = 1;
    shape_.recurrent = {.n_taps = 3, .n_channels = 4};
    shape_.layers.push_back({.n_kv_heads = 0,
                             .head_dim = 16,
                             .ffn_dim = 32,
                             .window = 0,
                             .kv_source = 0,
                             .mixer = planner::MixerKind::kShortConv});
    plan_.options.n_slots = 3;
    plan_.options.n_draft = 3;
    plan_.n_ctx = 64;
    plan_.kv = *planner::KvCacheBytes(
        shape_, {.n_ctx = 64, .n_slots = 3, .rules = {.n_draft = 3}});
    states_.resize(static_cast<size_t>(plan_.kv.all_state_bytes) / 4);
    const kernels::BufferView states = {
        reinterpret_cast<std::byte*>(states_.data()), plan_.kv.all_state_bytes};
    cache_.emplace(shape_, plan_,
                   KvRegions{.pages = {}, .rings = {}, .states = states});
  }

  // Lists the rows of sequences that follow each other.
  kernels::StepStates List(std::vector<SequenceRows> sequences) {
    StepBatch batch;
    for (SequenceRows& rows : sequences) {
      rows.first_row = std::ssize(batch.tokens);
      batch.tokens.resize(batch.tokens.size() +
                          static_cast<size_t>(rows.n_rows));
    }
    batch.sequences = sequences;
    n_rows_ = std::ssize(batch.tokens);
    rows_.List(batch, *cache_);
    return rows_.Of(cache_->States(0), /*offset=*/3);
  }
  std::vector<int32_t> Destinations(const kernels::StepStates& states) const {
    return {states.destinations, states.destinations + n_rows_};
  }

  planner::ModelShape shape_ = {};
  planner::MemoryPlan plan_ = {};
  std::vector<float> states_;
  std::optional<KvCache> cache_;
  StateRows rows_{16};
  int64_t n_rows_ = 0;
};

TEST_F(StateRowsTest, APromptBeginsWithZerosAndKeepsItsLastState) {
  const kernels::StepStates states = List({Rows(1, 3, 0), Rows(2, 2, 5)});
  ASSERT_EQ(states.n_segments, 2);
  EXPECT_EQ(states.segments[0].source, kNone);
  EXPECT_EQ(states.segments[1].source, 8);
  EXPECT_EQ(states.segments[1].first_row, 3);
  EXPECT_EQ(states.segments[1].n_rows, 2);
  EXPECT_THAT(Destinations(states), ElementsAre(kNone, kNone, 4, kNone, 8));
  EXPECT_EQ(states.data, states_.data() + 3);
  EXPECT_EQ(states.stride, 8);
  EXPECT_GE(states.n_states, 12);
}

TEST_F(StateRowsTest, EveryDraftHasAStateOfItsOwn) {
  std::vector<SequenceRows> decoding = {Rows(0, 4, 9), Rows(1, 1, 9)};
  decoding[0].n_draft = 3;
  EXPECT_THAT(Destinations(List(decoding)), ElementsAre(0, 1, 2, 3, 4));
  // Two of them were right: the next step begins after the second one.
  cache_->AcceptDrafts(0, 2);
  const kernels::StepStates states = List(decoding);
  EXPECT_EQ(states.segments[0].source, 2);
  EXPECT_THAT(Destinations(states), ElementsAre(2, 3, 0, 1, 4));
}

}  // namespace
}  // namespace plimsoll::worker
