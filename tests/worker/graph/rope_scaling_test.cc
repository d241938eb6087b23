// How the angles of a rotation are scaled, by a file's keys.
#include "worker/graph/rope_scaling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>

#include "planner/gguf/header_numbers.h"
#include "planner/model/architectures.h"

namespace plimsoll::worker {
namespace {

using ::plimsoll::planner::GgufType;
using ::plimsoll::planner::GgufValue;
using ::testing::HasSubstr;

// The keys of a header of the architecture llama.
class ScalingKeys {
 public:
  ScalingKeys() : numbers_("llama") { numbers_.Int("context_length", 4'096); }

  ScalingKeys& Float(const std::string& suffix, double value) {
    return Set(suffix, {GgufType::kF32, value});
  }
  ScalingKeys& Text(const std::string& suffix, const std::string& value) {
    return Set(suffix, {GgufType::kString, value});
  }
  ScalingKeys& Int(const std::string& suffix, uint64_t value) {
    numbers_.Int("rope.scaling." + suffix, value);
    return *this;
  }

  planner::GgufHeader& header() { return numbers_.header(); }

  absl::Status ReadTo(RopeParameters& rope) {
    return ReadRopeScaling(*planner::FindArchitecture("llama"), header(), rope);
  }
  RopeParameters Read() {
    RopeParameters rope = Unscaled();
    EXPECT_TRUE(ReadTo(rope).ok()) << ReadTo(rope);
    return rope;
  }

  static RopeParameters Unscaled() {
    return {.base = 10'000,
            .scale = 1,
            .n_rot = 64,
            .style = kernels::RopeStyle::kNorm};
  }

 private:
  ScalingKeys& Set(const std::string& suffix, GgufValue value) {
    header().metadata["llama.rope.scaling." + suffix] = std::move(value);
    return *this;
  }

  planner::HeaderNumbers numbers_;
};

ScalingKeys YarnKeys() {
  return ScalingKeys().Text("type", "yarn").Float("factor", 8);
}

void ExpectScalingRefused(ScalingKeys keys, absl::StatusCode code,
                          const std::string& words) {
  RopeParameters rope = ScalingKeys::Unscaled();
  const absl::Status status = keys.ReadTo(rope);
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(words));
}

TEST(RopeScalingTest, NoneAndLinearHaveNoRamp) {
  for (const auto& [keys, scale] :
       {std::pair(ScalingKeys(), 1.0),
        std::pair(ScalingKeys().Float("factor", 4), 0.25),
        std::pair(ScalingKeys().Text("type", "linear").Float("factor", 4),
                  0.25),
        std::pair(ScalingKeys().Text("type", "longrope").Float("factor", 4),
                  1.0),
        std::pair(ScalingKeys().Text("type", "none").Float("factor", 4),
                  1.0)}) {
    const RopeParameters rope = ScalingKeys(keys).Read();
    EXPECT_EQ(rope.scale, scale);
    EXPECT_EQ(rope.magnitude, 1.0f);
    EXPECT_EQ(rope.ramp.ScaleOf(0, rope.scale), scale);
  }
}

// With 64 rotated dimensions and a base of 10,000, a pair p turns n_ctx /
// (2 pi 10,000^(p / 32)) times.
TEST(RopeScalingTest, YarnKeepsPairsThatTurnOften) {
  const RopeParameters rope = YarnKeys().Read();
  EXPECT_EQ(rope.scale, 0.125);
  EXPECT_EQ(rope.ramp.begin, 10);  // 36.6 and 27.5 times: pairs 10 and 11
  EXPECT_EQ(rope.ramp.end, 23);    // 1.16 and 0.87 times: pairs 22 and 23
  EXPECT_FLOAT_EQ(rope.magnitude, 1 + 0.1f * std::log(8.0f));
}

TEST(RopeScalingTest, YarnReadsItsKeys) {
  const RopeParameters rope = YarnKeys()
                                  .Int("original_context_length", 256)
                                  .Float("yarn_beta_fast", 4)
                                  .Float("yarn_beta_slow", 2)
                                  .Read();
  EXPECT_EQ(rope.ramp.begin, 8);  // 4.07 and 3.06 times: pairs 8 and 9
  EXPECT_EQ(rope.ramp.end, 11);   // 2.29 and 1.72 times: pairs 10 and 11
}

TEST(RopeScalingTest, ARampStaysWithinThePairs) {
  const RopeParameters all =
      YarnKeys().Int("original_context_length", 6).Read();
  EXPECT_EQ(all.ramp.begin, 0);
  EXPECT_EQ(all.ramp.end, 0);
  const RopeParameters none =
      YarnKeys().Int("original_context_length", uint64_t{1} << 40).Read();
  EXPECT_LE(none.ramp.begin, none.ramp.end);
  EXPECT_EQ(none.ramp.ScaleOf(31, none.scale), 1);
  const RopeParameters reversed =
      YarnKeys().Float("yarn_beta_fast", 1).Float("yarn_beta_slow", 32).Read();
  EXPECT_LE(reversed.ramp.begin, reversed.ramp.end);
}

TEST(RopeScalingTest, MagnitudesMultiply) {
  EXPECT_FLOAT_EQ(YarnKeys().Float("yarn_log_multiplier", 1).Read().magnitude,
                  1);
  EXPECT_FLOAT_EQ(YarnKeys().Float("yarn_log_multiplier", 0).Read().magnitude,
                  1 + 0.1f * std::log(8.0f));
  EXPECT_FLOAT_EQ(YarnKeys().Float("attn_factor", 0.5).Read().magnitude,
                  0.5f + 0.05f * std::log(8.0f));
  EXPECT_FLOAT_EQ(ScalingKeys().Float("attn_factor", 1.25).Read().magnitude,
                  1.25f);
}

TEST(RopeScalingTest, AMagnitudeMayBeAFactorOfScores) {
  planner::Architecture architecture = *planner::FindArchitecture("llama");
  ScalingKeys yarn = YarnKeys().Float("yarn_log_multiplier", 0.1);
  EXPECT_EQ(*ReadScoreFactor(architecture, yarn.header()), 1);
  architecture.yarn_scales_scores = true;
  const double magnitude = 1 + 0.1 * std::log(8.0);
  EXPECT_NEAR(*ReadScoreFactor(architecture, yarn.header()),
              magnitude * magnitude, 1e-6);
  RopeParameters rope = ScalingKeys::Unscaled();
  ASSERT_TRUE(ReadRopeScaling(architecture, yarn.header(), rope).ok());
  EXPECT_EQ(rope.magnitude, 1.0f);
  EXPECT_EQ(rope.scale, 0.125);
  // Files without a multiplier, and without YaRN, have no such factor.
  EXPECT_EQ(*ReadScoreFactor(architecture, YarnKeys().header()), 1);
  ScalingKeys linear = ScalingKeys().Float("yarn_log_multiplier", 0.1);
  EXPECT_EQ(*ReadScoreFactor(architecture, linear.header()), 1);
  ScalingKeys bad = YarnKeys().Float("yarn_log_multiplier", -1);
  EXPECT_TRUE(absl::IsInvalidArgument(
      ReadScoreFactor(architecture, bad.header()).status()));
}

TEST(RopeScalingTest, FactorsUpToTheirLimitsAndNotPastThem) {
  const auto invalid = absl::StatusCode::kInvalidArgument;
  RopeParameters rope = ScalingKeys::Unscaled();
  for (const double factor : {1.0, 1e6}) {
    EXPECT_TRUE(YarnKeys().Float("factor", factor).ReadTo(rope).ok()) << factor;
  }
  for (const double factor : {0.99, 1.1e6, 0.0, -2.0, std::nan("")}) {
    ExpectScalingRefused(YarnKeys().Float("factor", factor), invalid,
                         "scaling.factor");
  }
  for (const double factor : {0.9e-6, 1.1e6}) {
    ExpectScalingRefused(ScalingKeys().Float("attn_factor", factor), invalid,
                         "attn_factor");
  }
  for (const double value : {-1.0, 1.1e6, std::nan("")}) {
    ExpectScalingRefused(YarnKeys().Float("yarn_log_multiplier", value),
                         invalid, "yarn_log_multiplier");
  }
  for (const char* key : {"yarn_beta_fast", "yarn_beta_slow"}) {
    ExpectScalingRefused(YarnKeys().Float(key, 0), invalid, key);
  }
  ExpectScalingRefused(YarnKeys().Int("original_context_length", 0), invalid,
                       "original_context_length");
  rope.base = 1;
  EXPECT_EQ(YarnKeys().ReadTo(rope).code(), invalid);
}

TEST(RopeScalingTest, WhatCannotBeRunIsNamed) {
  const auto unimplemented = absl::StatusCode::kUnimplemented;
  ExpectScalingRefused(ScalingKeys().Text("type", "spiral"), unimplemented,
                       "spiral");
  ExpectScalingRefused(YarnKeys().Float("yarn_ext_factor", 0.5), unimplemented,
                       "yarn_ext_factor");
}

TEST(RopeScalingTest, AContextWithoutItsFactorsIsRefused) {
  const planner::Architecture& phi3 = *planner::FindArchitecture("phi3");
  planner::HeaderNumbers numbers("phi3");
  numbers.Int("context_length", 64);
  planner::ModelShape shape = {};
  shape.weights.push_back({.name = "rope_factors_short.weight",
                           .dtype = DType::kF32,
                           .cols = 16,
                           .rows = 1,
                           .is_vector = true,
                           .file_offset = 0,
                           .file_bytes = 64});
  planner::MemoryPlan plan = {};
  plan.n_ctx = 65;
  GraphInputs inputs = {};
  inputs.shape = &shape;
  inputs.plan = &plan;
  const auto factors = FindFreqFactors(phi3, numbers.header(), inputs);
  EXPECT_TRUE(absl::IsInvalidArgument(factors.status())) << factors.status();
  EXPECT_THAT(std::string(factors.status().message()),
              HasSubstr("rope_factors_long.weight"));
}

TEST(RopeScalingTest, AFileWithoutFactorsHasNone) {
  const planner::ModelShape shape = {};
  GraphInputs inputs = {};
  inputs.shape = &shape;
  const auto factors = FindFreqFactors(*planner::FindArchitecture("llama"),
                                       ScalingKeys().header(), inputs);
  ASSERT_TRUE(factors.ok()) << factors.status();
  EXPECT_EQ(*factors, nullptr);
}

}  // namespace
}  // namespace plimsoll::worker
