// Models with experts: the planned memory is what their steps use, and what a
// file says of its router counts.
#include "worker/graph/expert_ffn.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "kernels/experts.h"
#include "tests/worker/engine/engine_harness.h"
#include "tests/worker/random_model.h"
#include "worker/engine/engine.h"

namespace plimsoll::worker {
namespace {

using ::plimsoll::planner::StepBuffer;
using ::plimsoll::testing::FindRandomModel;
using ::plimsoll::testing::Generate;
using ::plimsoll::testing::Generated;
using ::plimsoll::testing::Greedy;
using ::plimsoll::testing::LoadEngine;
using ::plimsoll::testing::RandomIds;
using ::plimsoll::testing::RandomModel;
using ::plimsoll::testing::RandomModelBytes;
using ::plimsoll::testing::SameBits;
using ::plimsoll::testing::TemporaryFile;
using ::testing::HasSubstr;

absl::StatusOr<std::unique_ptr<Engine>> Load(const RandomModel& model) {
  const TemporaryFile file(RandomModelBytes(model));
  return LoadEngine(file.path(), {});
}

Generated GenerateWith(const RandomModel& model) {
  auto engine = Load(model);
  EXPECT_TRUE(engine.ok()) << engine.status();
  if (!engine.ok()) return {};
  GenerateOptions request = Greedy(RandomIds(30, 5), 4);
  request.prompt_logprobs = true;
  return Generate(**engine, request);
}

class ExpertModelTest : public ::testing::TestWithParam<const char*> {};

TEST_P(ExpertModelTest, AllocatesWhatWasPlanned) {
  const RandomModel model = FindRandomModel(GetParam());
  auto engine = Load(model);
  ASSERT_TRUE(engine.ok()) << engine.status();
  const planner::MemoryPlan& plan = (*engine)->plan();
  EXPECT_EQ((*engine)->Memory().allocated_bytes,
            (*engine)->Memory().planned_bytes);
  const auto& workspace = plan.workspace;
  EXPECT_EQ(workspace[StepBuffer::kRouting].bytes,
            kernels::ExpertRowsBytes(plan.n_rows, model.n_experts,
                                     model.n_experts_used));
}

TEST_P(ExpertModelTest, WhatAFileSaysOfItsRouterCounts) {
  RandomModel model = FindRandomModel(GetParam());
  const Generated plain = GenerateWith(model);
  model.expert_scale = 1;
  EXPECT_TRUE(SameBits(GenerateWith(model), plain));
  model.expert_scale = 2.5f;
  EXPECT_FALSE(SameBits(GenerateWith(model), plain));
  model.expert_scale = 0;
  // What the architecture has without the key: 3 is the softmax of the chosen.
  model.expert_gating = model.architecture == "gpt-oss" ? 3 : 1;
  EXPECT_TRUE(SameBits(GenerateWith(model), plain));
  model.expert_gating = 2;
  EXPECT_FALSE(SameBits(GenerateWith(model), plain));
}

TEST_P(ExpertModelTest, RoutersThatMakeNoSenseAreRefused) {
  RandomModel model = FindRandomModel(GetParam());
  const auto refusal = [&] {
    const absl::Status status = Load(model).status();
    EXPECT_FALSE(status.ok());
    return status;
  };
  model.expert_gating = 4;
  EXPECT_TRUE(absl::IsUnimplemented(refusal()));
  EXPECT_THAT(std::string(refusal().message()),
              HasSubstr("expert_gating_func"));
  model.expert_gating = 0;
  model.expert_scale = -1;
  EXPECT_TRUE(absl::IsInvalidArgument(refusal()));
  EXPECT_THAT(std::string(refusal().message()),
              HasSubstr("expert_weights_scale"));
}

INSTANTIATE_TEST_SUITE_P(All, ExpertModelTest,
                         ::testing::Values("qwen3moe_q4_0", "qwen2moe_q8_0",
                                           "gpt_oss_q4_0", "gemma4_experts"),
                         [](const auto& test) {
                           return std::string(test.param);
                         });

}  // namespace
}  // namespace plimsoll::worker
