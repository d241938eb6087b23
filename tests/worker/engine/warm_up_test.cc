// What a load runs on a device, so that nothing is set aside there later.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "tests/worker/device/hooked_device.h"
#include "tests/worker/engine/engine_fixture.h"
#include "tests/worker/engine/engine_harness.h"

namespace plimsoll::worker {
namespace {

using ::plimsoll::testing::HookedDevice;

using WarmUpTest = plimsoll::testing::EngineFixture;

TEST_F(WarmUpTest, ALoadRunsAPromptAndSequencesThatDecode) {
  for (const int64_t n_ubatch : {40, 128, 200}) {
    int64_t most_prompt_rows = 0;
    int64_t most_others = 0;
    const HookedDevice device(
        {.attending = [&](const kernels::AttentionArgs& args) {
          int64_t n_others = 0;
          for (const kernels::AttentionSegment& segment : args.segments) {
            if (segment.is_prompt) {
              most_prompt_rows = std::max(most_prompt_rows, segment.n_rows);
            } else {
              ++n_others;
            }
          }
          most_others = std::max(most_others, n_others);
        }});
    Load("gemma_q5_0",
         {.n_ctx = 256, .n_slots = 3, .n_ubatch = n_ubatch, .device = &device});
    EXPECT_EQ(most_prompt_rows, std::min<int64_t>(n_ubatch, 128));
    EXPECT_EQ(most_others, 3);
    engine_.reset();
  }
}

}  // namespace
}  // namespace plimsoll::worker
