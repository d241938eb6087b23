// The step's buffers: what lives together never overlaps, and sizes are exact.
#include "planner/layout/workspace_layout.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <string>

#include "tests/planner/shapes.h"

namespace plimsoll::planner {
namespace {

struct StepOptions {
  int64_t n_rows;
  bool has_rings = false;
  int64_t n_sampled = 16;
  DeviceProfile profile = CommittedCpuProfile();
};

absl::StatusOr<WorkspacePlan> LayoutOf(const ModelShape& shape,
                                       const StepOptions& step) {
  const auto widths = WidthsOf(shape, DType::kF16, DType::kF32);
  if (!widths.ok()) return widths.status();
  return WorkspaceLayout(shape, *widths,
                         {.n_rows = step.n_rows,
                          .n_sampled = step.n_sampled,
                          .has_rings = step.has_rings},
                         step.profile);
}

// The last layers read the keys of an earlier one, and every layer has
// embeddings.
ModelShape SharingShape() {
  ModelShape shape = Gemma270m();
  for (size_t il = 12; il < shape.layers.size(); ++il) {
    shape.layers[il].kv_source = shape.layers[il].window > 0 ? 10 : 11;
  }
  shape.ple_dim = 256;
  return shape;
}

// Several residual streams, and a branch beside attention.
ModelShape StreamsShape() {
  ModelShape shape = SharingShape();
  shape.n_streams = 4;
  shape.branch_rank = 64;
  return shape;
}

TEST(WorkspaceLayoutTest, BuffersThatLiveTogetherNeverOverlap) {
  for (const ModelShape& shape :
       {Gemma270m(), Smollm2(), SharingShape(), StreamsShape()}) {
    for (int64_t n_rows : {1, 7, 16, 512, 2048}) {
      const auto plan = LayoutOf(shape, {.n_rows = n_rows, .has_rings = true});
      ASSERT_TRUE(plan.ok()) << plan.status();
      for (size_t i = 0; i < plan->buffers.size(); ++i) {
        const WorkspaceBuffer& a = plan->buffers[i];
        EXPECT_EQ(a.offset % 64, 0);
        EXPECT_LE(a.offset + a.bytes, plan->bytes);
        EXPECT_LE(a.first_stage, a.last_stage);
        for (size_t j = 0; j < i; ++j) {
          const WorkspaceBuffer& b = plan->buffers[j];
          const bool live_together =
              a.first_stage <= b.last_stage && b.first_stage <= a.last_stage;
          const bool overlap =
              a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
          EXPECT_FALSE(live_together && overlap)
              << StepBufferName(static_cast<StepBuffer>(i)) << " and "
              << StepBufferName(static_cast<StepBuffer>(j));
        }
      }
    }
  }
}

TEST(WorkspaceLayoutTest, SizesFollowTheModel) {
  const auto plan = LayoutOf(Gemma270m(), {.n_rows = 512, .has_rings = true});
  ASSERT_TRUE(plan.ok());
  const auto bytes = [&](StepBuffer b) { return (*plan)[b].bytes; };
  EXPECT_EQ(bytes(StepBuffer::kResidual), 512 * 640 * 4);
  EXPECT_EQ(bytes(StepBuffer::kActivations), 512 * 2048 / 32 * 80);
  EXPECT_EQ(bytes(StepBuffer::kAngles), 512 * 2 * 128 * 2 * 4);
  EXPECT_EQ(bytes(StepBuffer::kPrefixAngles), bytes(StepBuffer::kAngles));
  EXPECT_EQ(bytes(StepBuffer::kQuery), 512 * 4 * 256 * 4);
  EXPECT_EQ(bytes(StepBuffer::kKey), 512 * 256 * 4);
  EXPECT_EQ(bytes(StepBuffer::kChunkKey), 512 * 256 * 2);
  EXPECT_EQ(bytes(StepBuffer::kChunkValue), 512 * 256 * 4);
  EXPECT_EQ(bytes(StepBuffer::kGate), 512 * 2048 * 4);
  EXPECT_EQ(bytes(StepBuffer::kSampled), 16 * 640 * 4);
  EXPECT_EQ(bytes(StepBuffer::kSampledActivations), 16 * 640 / 32 * 80);
}

TEST(WorkspaceLayoutTest, AChunkThatLaterLayersReadOutlivesItsLayer) {
  ModelShape shape = SharingShape();
  shape.ple_dim = 0;
  const auto alone = LayoutOf(Gemma270m(), {.n_rows = 64, .has_rings = true});
  const auto shared = LayoutOf(shape, {.n_rows = 64, .has_rings = true});
  ASSERT_TRUE(alone.ok() && shared.ok());
  EXPECT_GT(shared->bytes, alone->bytes);
  for (const StepBuffer chunk :
       {StepBuffer::kChunkKey, StepBuffer::kChunkValue}) {
    EXPECT_EQ((*shared)[chunk].bytes, (*alone)[chunk].bytes);
    for (const StepBuffer other :
         {StepBuffer::kNormed, StepBuffer::kActivations, StepBuffer::kKey,
          StepBuffer::kValue, StepBuffer::kGate, StepBuffer::kUp}) {
      const WorkspaceBuffer& a = (*shared)[chunk];
      const WorkspaceBuffer& b = (*shared)[other];
      EXPECT_TRUE(a.offset + a.bytes <= b.offset ||
                  b.offset + b.bytes <= a.offset)
          << StepBufferName(other);
    }
  }
  // Without rings there is no chunk.
  EXPECT_EQ(LayoutOf(shape, {.n_rows = 64})->bytes,
            LayoutOf(Gemma270m(), {.n_rows = 64})->bytes);
}

TEST(WorkspaceLayoutTest, InputsOfAllLayersAreThereForTheWholeStep) {
  const ModelShape shape = SharingShape();
  const auto plan = LayoutOf(shape, {.n_rows = 64, .has_rings = true});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ((*plan)[StepBuffer::kPerLayer].bytes, 64 * 18 * 256 * 4);
  // A gate as narrow as these embeddings has room in any case.
  ModelShape narrow = shape;
  for (LayerShape& layer : narrow.layers) layer.ffn_dim = 64;
  EXPECT_EQ((*LayoutOf(narrow, {.n_rows = 64}))[StepBuffer::kGate].bytes,
            64 * 256 * 4);
}

TEST(WorkspaceLayoutTest, StreamsHaveRoomBesideWhatALayerWorksOn) {
  const auto plan = LayoutOf(StreamsShape(), {.n_rows = 64});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ((*plan)[StepBuffer::kResidual].bytes, 5 * 64 * 640 * 4);
  EXPECT_EQ((*plan)[StepBuffer::kSampled].bytes, 5 * 16 * 640 * 4);
  EXPECT_EQ((*plan)[StepBuffer::kMixing].bytes, 64 * (4 + 4 * 4) * 4);
  EXPECT_EQ((*plan)[StepBuffer::kBranch].bytes, 64 * 64 * 4);
  // The branch may be the widest input of a product.
  ModelShape narrow = Smollm2();
  narrow.branch_rank = 4'096;
  EXPECT_EQ((*LayoutOf(narrow, {.n_rows = 64}))[StepBuffer::kActivations].bytes,
            64 * 4'096 / 32 * 80);
}

TEST(WorkspaceLayoutTest, OneStreamHasNothingBesideIt) {
  const auto plan = LayoutOf(SharingShape(), {.n_rows = 64});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ((*plan)[StepBuffer::kResidual].bytes, 64 * 640 * 4);
  EXPECT_EQ((*plan)[StepBuffer::kMixing].bytes, 0);
  EXPECT_EQ((*plan)[StepBuffer::kBranch].bytes, 0);
}

TEST(WorkspaceLayoutTest, WithoutRingsOrWindowsNothingIsReservedForThem) {
  const auto plan = LayoutOf(Smollm2(), {.n_rows = 512});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ((*plan)[StepBuffer::kChunkKey].bytes, 0);
  EXPECT_EQ((*plan)[StepBuffer::kChunkValue].bytes, 0);
  EXPECT_EQ((*plan)[StepBuffer::kAngles].bytes, 512 * 64 * 4);
}

TEST(WorkspaceLayoutTest, ExpertsHaveBuffersOfTheirOwn) {
  ModelShape shape = Smollm2();
  shape.n_experts = 60;
  shape.n_experts_used = 4;
  for (LayerShape& layer : shape.layers) {
    layer.ffn_dim = 0;
    layer.expert_ffn_dim = 704;
  }
  const auto bytes = [&](StepBuffer b) {
    const auto plan = LayoutOf(shape, {.n_rows = 512});
    EXPECT_TRUE(plan.ok()) << plan.status();
    return (*plan)[b].bytes;
  };
  EXPECT_EQ(bytes(StepBuffer::kRouter), 512 * 60 * 4);
  EXPECT_EQ(bytes(StepBuffer::kRouting), 512 * 4 * 16 + 61 * 4);
  EXPECT_EQ(bytes(StepBuffer::kExpertRows), 512 * 4 * 576 * 4);
  EXPECT_EQ(bytes(StepBuffer::kGate), 512 * 4 * 704 * 4);
  EXPECT_EQ(bytes(StepBuffer::kActivations), 512 * 4 * 704 / 32 * 80);
  // An expert that all rows have may be wider than those of a row together.
  for (LayerShape& layer : shape.layers) layer.shared_ffn_dim = 5'632;
  EXPECT_EQ(bytes(StepBuffer::kGate), 512 * 5'632 * 4);
  EXPECT_EQ(bytes(StepBuffer::kActivations), 512 * 5'632 / 32 * 80);
  EXPECT_EQ(bytes(StepBuffer::kRouting), 512 * 4 * 16 + 61 * 4);
}

TEST(WorkspaceLayoutTest, WithoutExpertsNothingIsReservedForThem) {
  const auto plan = LayoutOf(Smollm2(), {.n_rows = 512});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ((*plan)[StepBuffer::kRouter].bytes, 0);
  EXPECT_EQ((*plan)[StepBuffer::kRouting].bytes, 0);
  EXPECT_EQ((*plan)[StepBuffer::kExpertRows].bytes, 0);
}

TEST(WorkspaceLayoutTest, BuffersOfDifferentPhasesShareMemory) {
  const auto plan = LayoutOf(Gemma270m(), {.n_rows = 512, .has_rings = true});
  ASSERT_TRUE(plan.ok());
  int64_t sum = 0;
  for (const WorkspaceBuffer& buffer : plan->buffers) sum += buffer.bytes;
  EXPECT_LT(plan->bytes, sum * 3 / 4);
}

TEST(WorkspaceLayoutTest, ScratchIsTheProfiles) {
  DeviceProfile profile = CommittedCpuProfile();
  profile.workspace.kernel_scratch_bytes = 12'345;
  const auto plan = LayoutOf(Smollm2(), {.n_rows = 16, .profile = profile});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ((*plan)[StepBuffer::kScratch].bytes, 12'345);
}

TEST(WorkspaceLayoutTest, RejectsCountsThatAreNotPositive) {
  for (int64_t bad : {int64_t{0}, int64_t{-1}}) {
    EXPECT_TRUE(
        absl::IsInvalidArgument(LayoutOf(Smollm2(), {.n_rows = bad}).status()));
    EXPECT_TRUE(absl::IsInvalidArgument(
        LayoutOf(Smollm2(), {.n_rows = 1, .n_sampled = bad}).status()));
  }
}

TEST(WorkspaceLayoutTest, ReportsOverflow) {
  EXPECT_TRUE(absl::IsOutOfRange(
      LayoutOf(Smollm2(), {.n_rows = std::numeric_limits<int64_t>::max()})
          .status()));
  EXPECT_TRUE(absl::IsOutOfRange(
      LayoutOf(Smollm2(), {.n_rows = int64_t{1} << 50}).status()));
}

TEST(WorkspaceLayoutTest, EveryBufferHasItsOwnName) {
  std::set<std::string> names;
  for (int i = 0; i < kNumStepBuffers; ++i) {
    names.insert(StepBufferName(static_cast<StepBuffer>(i)));
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(kNumStepBuffers));
}

}  // namespace
}  // namespace plimsoll::planner
