// What a multimodal projector takes beside its model.
#include "planner/layout/projector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/layout/layer_split.h"
#include "planner/layout/model_set.h"
#include "tests/planner/known_models.h"
#include "tests/planner/shapes.h"
#include "tests/planner/units.h"

namespace plimsoll::planner {
namespace {

using ::testing::HasSubstr;

GgufHeader WithFlags(const std::map<std::string, bool>& flags,
                     const std::map<std::string, int64_t>& numbers) {
  GgufHeader header = {};
  header.metadata["general.architecture"] = {GgufType::kString,
                                             std::string("clip")};
  for (const auto& [key, value] : numbers) {
    header.metadata["clip." + key] = {GgufType::kU64,
                                      static_cast<uint64_t>(value)};
  }
  for (const auto& [key, value] : flags) {
    header.metadata["clip." + key] = {GgufType::kBool,
                                      static_cast<uint64_t>(value)};
  }
  header.tensors.push_back({"v.a", DType::kF16, 1, {8, 1, 1, 1}, 0, 16});
  header.tensors.push_back({"mm.b", DType::kF32, 1, {8, 1, 1, 1}, 32, 32});
  return header;
}

GgufHeader HeaderOf(const std::map<std::string, int64_t>& numbers) {
  return WithFlags({}, numbers);
}

// 4 tokens of width 8, 2 heads, an FFN of width 16.
std::map<std::string, int64_t> Small() {
  return {{"vision.image_size", 28},
          {"vision.patch_size", 14},
          {"vision.embedding_length", 8},
          {"vision.feed_forward_length", 16},
          {"vision.attention.head_count", 2}};
}

TEST(ProjectorTest, HasItsTensorsAndTheActivationsOfAnImage) {
  const auto bytes = ProjectorFromGguf(HeaderOf(Small()));
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(bytes->weights, 48);
  EXPECT_EQ(bytes->workspace, 4 * 4 * (2 * 8 + (3 * 8 + 2 * 4)));
  auto wide = Small();
  wide["vision.feed_forward_length"] = 1'000;
  EXPECT_EQ(ProjectorFromGguf(HeaderOf(wide))->workspace,
            4 * 4 * (2 * 8 + 1'000));
}

TEST(ProjectorTest, HasTheLargerOfImageAndSound) {
  auto numbers = Small();
  numbers["audio.embedding_length"] = 8;
  numbers["audio.feed_forward_length"] = 16;
  numbers["audio.attention.head_count"] = 2;
  const int64_t sound = 4 * 1'500 * (2 * 8 + (3 * 8 + 2 * 1'500));
  EXPECT_EQ(ProjectorFromGguf(WithFlags({{"has_audio_encoder", true}}, numbers))
                ->workspace,
            sound);
  EXPECT_LT(
      ProjectorFromGguf(WithFlags({{"has_audio_encoder", false}}, numbers))
          ->workspace,
      sound);
  // Sound alone needs no numbers of images.
  for (const char* key : {"image_size", "patch_size"}) {
    numbers.erase(std::string("vision.") + key);
  }
  EXPECT_EQ(ProjectorFromGguf(WithFlags({{"has_audio_encoder", true},
                                         {"has_vision_encoder", false}},
                                        numbers))
                ->workspace,
            sound);
}

TEST(ProjectorTest, ErrorsNameTheKey) {
  for (const auto& [key, value] : Small()) {
    auto numbers = Small();
    numbers.erase(key);
    EXPECT_THAT(
        std::string(ProjectorFromGguf(HeaderOf(numbers)).status().message()),
        HasSubstr("clip." + key));
    numbers[key] = 0;
    EXPECT_THAT(
        std::string(ProjectorFromGguf(HeaderOf(numbers)).status().message()),
        HasSubstr("clip." + key));
  }
  GgufHeader header = HeaderOf(Small());
  for (const char* key :
       {"clip.has_vision_encoder", "clip.has_audio_encoder"}) {
    header = HeaderOf(Small());
    header.metadata[key] = {GgufType::kString, std::string("yes")};
    EXPECT_THAT(std::string(ProjectorFromGguf(header).status().message()),
                HasSubstr(key));
  }
  auto sound = Small();
  EXPECT_THAT(std::string(ProjectorFromGguf(
                              WithFlags({{"has_audio_encoder", true}}, sound))
                              .status()
                              .message()),
              HasSubstr("clip.audio.embedding_length"));
}

TEST(ProjectorTest, BytesThatOverflowAreRefused) {
  auto numbers = Small();
  numbers["vision.image_size"] = 1 << 16;
  numbers["vision.patch_size"] = 1;
  EXPECT_TRUE(
      ProjectorFromGguf(HeaderOf(numbers)).ok() ||
      absl::IsOutOfRange(ProjectorFromGguf(HeaderOf(numbers)).status()));
  numbers["vision.attention.head_count"] = ModelShape::kMaxDim;
  EXPECT_TRUE(
      absl::IsOutOfRange(ProjectorFromGguf(HeaderOf(numbers)).status()));
  numbers["vision.image_size"] = (1 << 16) + 1;
  EXPECT_TRUE(
      absl::IsInvalidArgument(ProjectorFromGguf(HeaderOf(numbers)).status()));
  GgufHeader header = HeaderOf(Small());
  header.tensors[0].bytes = kMax;
  EXPECT_FALSE(ProjectorFromGguf(header).ok());
  header.tensors.clear();
  EXPECT_FALSE(ProjectorFromGguf(header).ok());
}

TEST(ProjectorTest, AModelIsNone) {
  GgufHeader header = HeaderOf(Small());
  header.metadata["general.architecture"] = {GgufType::kString,
                                             std::string("llama")};
  EXPECT_FALSE(IsProjector(header));
  EXPECT_THAT(std::string(ProjectorFromGguf(header).status().message()),
              HasSubstr("no projector"));
  header.metadata.clear();
  EXPECT_FALSE(IsProjector(header));
}

PlanOptions WithProjector() {
  PlanOptions options;
  options.n_ctx = 1'024;
  options.engine.projector = ProjectorBytes{800'000'000, 200'000'000};
  return options;
}

TEST(ProjectorTest, IsInEveryPlan) {
  PlanOptions options = WithProjector();
  for (const ReservePolicy policy :
       {ReservePolicy::kExact, ReservePolicy::kDense}) {
    options.engine.policy = policy;
    PlanOptions without = options;
    without.engine.projector.reset();
    const auto plan =
        Layout(Smollm2(), options, CommittedCpuProfile(), 8 * kGiB);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(plan->FindRegion("projector")->bytes, 800'000'000);
    EXPECT_EQ(plan->FindRegion("projector_workspace")->bytes, 200'000'000);
    EXPECT_EQ(plan->FindRegion("projector_workspace")->basis,
              Basis::kEstimated);
    EXPECT_EQ(plan->total_bytes,
              Layout(Smollm2(), without, CommittedCpuProfile(), 8 * kGiB)
                      ->total_bytes +
                  1'000'000'000);
  }
  options.engine.projector->workspace = -1;
  EXPECT_THAT(
      std::string(Layout(Smollm2(), options, CommittedCpuProfile(), kGiB)
                      .status()
                      .message()),
      HasSubstr("projector.workspace"));
}

TEST(ProjectorTest, IsWithTheFirstPartOfASplit) {
  const std::vector<SplitDevice> devices(2, {CommittedCpuProfile(), 6 * kGiB});
  const auto split = SplitLayers(Gemma4(), WithProjector(), devices);
  ASSERT_TRUE(split.ok()) << split.status();
  ASSERT_EQ(split->parts.size(), 2u);
  EXPECT_NE(split->parts[0].plan.FindRegion("projector"), nullptr);
  EXPECT_EQ(split->parts[1].plan.FindRegion("projector"), nullptr);
}

}  // namespace
}  // namespace plimsoll::planner
