// What an engine promises where copies of contexts fail, at named points
// (base/sync/fault.h): the stream of such a context ends or begins again, the
// others go on, and nothing is kept that was not copied.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "base/sync/fault.h"
#include "tests/worker/engine/engine_fixture.h"
#include "tests/worker/engine/engine_harness.h"
#include "worker/engine/engine.h"

namespace plimsoll::worker {
namespace {

using ::plimsoll::testing::CollectSink;
using ::plimsoll::testing::EngineSetup;
using ::plimsoll::testing::Generate;
using ::plimsoll::testing::Generated;
using ::plimsoll::testing::Greedy;
using ::plimsoll::testing::RandomIds;
using ::plimsoll::testing::SameBits;

class ContextFaultsTest : public plimsoll::testing::EngineFixture {
 protected:
  void SetUp() override {
    if (!kHasFaults) {
      GTEST_SKIP() << "this build has no fault points (PLIMSOLL_FAULTS)";
    }
  }

  // The reply of a stream that has rolled, and loses its one slot to another
  // request. The first pass of `point` fails. Expects the other request, and
  // another one afterwards, to be answered as always.
  Generated RollBesideAnother(const char* point) {
    Load("llama_f32", {.n_ctx = 256, .n_slots = 1, .n_parked = 1});
    const GenerateOptions short_one = Greedy(RandomIds(90, 7), 20);
    const Generated as_always = Generate(*engine_, short_one);
    GenerateOptions rolls = Greedy(RandomIds(60, 1), 900);
    rolls.roll.policy = ContextPolicy::kRoll;
    rolls.claim.tenant = "rolls";
    const auto stream = std::make_shared<CollectSink>();
    const auto other = std::make_shared<CollectSink>();
    stream->after_output = [&](int64_t n_tokens) {
      if (n_tokens != 500) return;
      EXPECT_TRUE(engine_->Submit(short_one, other).ok());
    };
    const ScopedFaults faults({.rules = {{.point = point, .pass = 1}}});
    EXPECT_TRUE(engine_->Submit(rolls, stream).ok());
    Generated got = stream->Await();
    EXPECT_TRUE(SameBits(other->Await(), as_always));
    EXPECT_EQ(faults.CountOf(point).fired, 1);
    EXPECT_TRUE(SameBits(Generate(*engine_, short_one), as_always));
    EXPECT_EQ(engine_->CurrentLoad().running, 0);
    return got;
  }
};

TEST_F(ContextFaultsTest, WhatCannotBeParkedIsComputedAgain) {
  const Generated got = RollBesideAnother("kv.park");
  EXPECT_TRUE(got.status.ok()) << got.status;
  EXPECT_EQ(got.info.n_generated, 900);
}

TEST_F(ContextFaultsTest, WhatCannotComeBackEndsItsStreamAlone) {
  const Generated got = RollBesideAnother("kv.restore");
  EXPECT_EQ(got.status.code(), absl::StatusCode::kUnavailable) << got.status;
}

TEST_F(ContextFaultsTest, ASnapshotThatIsNotCopiedIsNotShared) {
  const EngineSetup setup = {.n_ctx = 256, .n_idle_sessions = 2};
  Load("gemma_q5_0", setup);
  const GenerateOptions request = Greedy(RandomIds(200, 1), 5);
  const Generated alone = Generate(*engine_, request);
  Load("gemma_q5_0", setup);
  const ScopedFaults faults(
      {.rules = {{.point = "snapshot.copy", .probability = 1}}});
  for (int i = 0; i < 2; ++i) {
    const Generated got = Generate(*engine_, request);
    EXPECT_TRUE(SameBits(got, alone)) << i;
    EXPECT_EQ(got.info.n_cached, 0) << i;
  }
  EXPECT_GT(faults.CountOf("snapshot.copy").fired, 0);
}

}  // namespace
}  // namespace plimsoll::worker
