// How keys and values come into rings: copied from a chunk whose rows still
// read what they replace, at once where none does.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/worker/device/hooked_device.h"
#include "tests/worker/engine/engine_fixture.h"
#include "tests/worker/engine/engine_harness.h"

namespace plimsoll::worker {
namespace {

using ::plimsoll::testing::Generate;
using ::plimsoll::testing::Generated;
using ::plimsoll::testing::Greedy;
using ::plimsoll::testing::HookedDevice;
using ::plimsoll::testing::RandomIds;

// Tokens that the prompt has twice, and of the reply: beyond the windows of 16.
constexpr int64_t kRepeatedTokens = 10;
constexpr int64_t kReplyTokens = 40;

class RingStepTest : public plimsoll::testing::EngineFixture {
 protected:
  // The reply to a prompt that repeats itself, with up to `n_draft` guesses a
  // step. Fills copies_.
  std::vector<int32_t> Reply(const char* model, int64_t n_draft) {
    const HookedDevice device(
        {.begun = [this](int64_t) { copies_.push_back(0); },
         .copying =
             [this] {
               if (!copies_.empty()) ++copies_.back();
             }});
    Load(model, {.n_slots = 2, .n_draft = n_draft, .device = &device});
    copies_.clear();  // forget the load's copies
    const std::vector<int32_t> half = RandomIds(kRepeatedTokens, 1);
    std::vector<int32_t> prompt = half;
    prompt.insert(prompt.end(), half.begin(), half.end());
    GenerateOptions options = Greedy(prompt, kReplyTokens);
    options.draft_tokens = n_draft;
    const Generated reply = Generate(*engine_, options);
    EXPECT_EQ(reply.status, absl::OkStatus());
    EXPECT_EQ(std::ssize(reply.tokens), kReplyTokens);
    engine_.reset();
    return reply.ids();
  }

  std::vector<int64_t> copies_;  // copies of each step that only decodes
};

TEST_F(RingStepTest, AStepOfOneRowASequenceCopiesNoKeys) {
  for (const char* model : {"gemma_q5_0", "gemma4_shared", "llama_f32"}) {
    SCOPED_TRACE(model);
    (void)Reply(model, 0);
    EXPECT_GE(std::ssize(copies_), kReplyTokens - 1);
    // The sampled row.
    EXPECT_EQ(std::ranges::count(copies_, 1), std::ssize(copies_));
  }
}

TEST_F(RingStepTest, RowsThatMayBeTakenBackAreCopied) {
  for (const char* model : {"gemma_q5_0", "gemma4_shared"}) {
    SCOPED_TRACE(model);
    const std::vector<int32_t> alone = Reply(model, 0);
    EXPECT_EQ(Reply(model, 4), alone);
    EXPECT_GT(std::ranges::count_if(copies_, [](int64_t n) { return n > 1; }),
              0);
  }
}

}  // namespace
}  // namespace plimsoll::worker
