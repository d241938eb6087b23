// A plan names no memory that is not used: the worker takes each region of a
// loaded model's plan from the arena, or holds it in a type that is named here.
#include "worker/engine/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "planner/layout/layer_split.h"
#include "tests/worker/device/hooked_device.h"
#include "tests/worker/random_model.h"
#include "worker/device/compute_device.h"
#include "worker/device/model_file.h"
#include "worker/sampling/row_sampler.h"

namespace plimsoll::worker {
namespace {

using ::plimsoll::testing::FarDevice;
using ::plimsoll::testing::FindRandomModel;
using ::plimsoll::testing::RandomModelBytes;
using ::plimsoll::testing::TemporaryFile;
using ::testing::ElementsAre;

// A region outside of the arena.
struct HostRegion {
  absl::string_view name;
  absl::string_view holder;  // the type that has its bytes
  // How many bytes the loaded engine has; null where it is not the engine that
  // holds them.
  std::function<int64_t(const EngineResources&)> held_bytes = nullptr;
};

int64_t CandidateBytes(const EngineResources& loaded) {
  return RowSampler(*loaded.model, loaded.backend(), loaded.shape.vocab_size,
                    loaded.parts.back().plan.n_sampled)
      .CandidateBytes();
}

int64_t ParkedBytes(const EngineResources& loaded) {
  int64_t bytes = 0;
  for (const Stage& stage : loaded.stages) bytes += stage.parked.view().bytes;
  return bytes;
}

const std::vector<HostRegion>& HostRegions() {
  static const auto* const regions = new std::vector<HostRegion>{
      {"tables", "KvCache",
       [](const auto& loaded) { return loaded.cache->TableBytes(); }},
      {"candidates", "RowSampler", CandidateBytes},
      {"vocab", "Tokenizer",
       [](const auto& loaded) { return loaded.tokenizer->MemoryBytes(); }},
      {"kv_parked", "Stage::parked", ParkedBytes},
      {"experts_host", "HostStage::arena",
       [](const auto& loaded) {
         return loaded.stages[0].host->plan.FindRegion("weights")->bytes;
       }},
      {"experts_workspace", "HostStage::arena",
       [](const auto& loaded) {
         const HostStage& host = *loaded.stages[0].host;
         return host.arena.bytes() - host.plan.FindRegion("weights")->bytes;
       }},
      {"runtime", "the process"},
      {"messages", "services::ByteBudget"},
      {"margin", "the allocator; what is left of it stays free"}};
  return *regions;
}

// A device of a process that has bytes for messages.
class ServingDevice final : public FarDevice {
 public:
  planner::DeviceProfile Profile() const override {
    planner::DeviceProfile profile = FarDevice::Profile();
    profile.message_bytes = 1 << 20;
    return profile;
  }
};

// Everything that gives a plan a region of its own.
planner::LoadOptions EveryFeature() {
  planner::LoadOptions load;
  load.n_ctx = 256;
  load.n_slots = 3;
  load.kv_tokens = 512;
  load.n_ubatch = 64;
  load.n_idle_sessions = 2;
  load.n_draft = 3;
  load.n_parked = 2;
  return load;
}

constexpr char kWithWindows[] = "gemma_q5_0";

class LoaderTest : public ::testing::Test {
 protected:
  // Loads a model whose second and later parts begin with the layers `cuts`.
  void Load(const ComputeDevice& device, std::vector<int64_t> cuts,
            const char* model) {
    file_.emplace(RandomModelBytes(FindRandomModel(model)));
    auto opened = ModelFile::Open(file_->path());
    ASSERT_TRUE(opened.ok()) << opened.status();
    opened_ = *std::move(opened);
    const planner::ModelShape& shape = opened_->shape();
    cuts.insert(cuts.begin(), 0);
    cuts.push_back(shape.n_layers);
    std::vector<EnginePart> parts;
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      const int64_t n_layers = cuts[i + 1] - cuts[i];
      const auto slice = planner::SliceLayers(shape, cuts[i], n_layers);
      ASSERT_TRUE(slice.ok()) << slice.status();
      const auto plan = planner::Layout(*slice, {features_}, device.Profile(),
                                        int64_t{1} << 40);
      ASSERT_TRUE(plan.ok()) << plan.status();
      parts.push_back({&device, cuts[i], n_layers, *plan});
    }
    options_.n_threads = 2;
    options_.clock = absl::Now;
    const LoadFence fence = [](const LoadProgress&) {
      return absl::OkStatus();
    };
    auto loaded =
        EngineLoader(*opened_, options_, fence).Load(std::move(parts));
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    loaded_.emplace(*std::move(loaded));
  }

  // Every region has a reader, and there is no other.
  void ExpectEachRegionHasAReader() {
    for (const Stage& stage : loaded_->stages) {
      std::set<std::string> in_arena;
      for (const planner::Region& region : stage.plan->regions) {
        if (region.offset >= 0) in_arena.emplace(region.name);
      }
      EXPECT_THAT(stage.arena.Asked(), ::testing::ElementsAreArray(in_arena));
    }
    for (const planner::Region& region : OutsideRegions()) {
      SCOPED_TRACE(region.name);
      const auto found =
          std::ranges::find(HostRegions(), region.name, &HostRegion::name);
      ASSERT_NE(found, HostRegions().end()) << "nobody holds it";
      if (found->held_bytes == nullptr) continue;
      const int64_t held = found->held_bytes(*loaded_);
      EXPECT_GT(held, 0) << found->holder;
      EXPECT_LE(held, region.bytes) << found->holder;
    }
  }

  // The margin is what the allocator adds to the arena's regions.
  void ExpectArenaAsPlanned() {
    const planner::MemoryPlan& plan = loaded_->plan();
    EXPECT_EQ(loaded_->stages[0].arena.bytes(),
              plan.arena_bytes + plan.FindRegion("margin")->bytes);
  }

  // The regions outside of the arenas, each with the bytes of all parts.
  std::vector<planner::Region> OutsideRegions() const {
    std::vector<planner::Region> all;
    for (const EnginePart& part : loaded_->parts) {
      for (const planner::Region& region : part.plan.regions) {
        if (region.offset >= 0) continue;
        const auto found =
            std::ranges::find(all, region.name, &planner::Region::name);
        if (found == all.end()) {
          all.push_back(region);
        } else {
          found->bytes += region.bytes;
        }
      }
    }
    return all;
  }

  std::vector<std::string> HostRegionNames() const {
    std::vector<std::string> names;
    for (const planner::Region& region : loaded_->plan().regions) {
      if (region.on_host) names.emplace_back(region.name);
    }
    return names;
  }

  planner::LoadOptions features_ = EveryFeature();
  std::optional<TemporaryFile> file_;
  std::unique_ptr<ModelFile> opened_;
  EngineOptions options_;
  std::optional<EngineResources> loaded_;
};

TEST_F(LoaderTest, EachRegionOfAPlanHasAReader) {
  Load(LocalCpu(), {}, kWithWindows);
  ExpectEachRegionHasAReader();
  // With every feature no region of the arena is empty.
  for (const planner::Region& region : loaded_->plan().regions) {
    if (region.offset < 0) continue;
    EXPECT_GT(region.bytes, 0) << region.name;
  }
  EXPECT_THAT(loaded_->stages[0].arena.Asked(),
              ElementsAre("kv_draft", "kv_full", "kv_parked", "kv_window",
                          "logits", "weights", "workspace"));
}

TEST_F(LoaderTest, EachRegionOfADevicesPlanHasAReader) {
  const ServingDevice device;
  Load(device, {}, kWithWindows);
  ExpectEachRegionHasAReader();
  EXPECT_THAT(HostRegionNames(), ElementsAre("tables", "candidates", "vocab",
                                             "kv_parked", "messages"));
}

TEST_F(LoaderTest, ExpertsOfTheCpuHaveAReader) {
  const ServingDevice device;
  features_.n_cpu_experts = 2;
  Load(device, {}, "qwen3moe_q4_0");
  ExpectEachRegionHasAReader();
  EXPECT_THAT(HostRegionNames(),
              ElementsAre("tables", "candidates", "vocab", "experts_host",
                          "experts_workspace", "kv_parked", "messages"));
  EXPECT_THAT(loaded_->stages[0].host->arena.Asked(),
              ElementsAre("weights", "workspace"));
}

TEST_F(LoaderTest, AnMtpHeadHasItsRegions) {
  features_.draft_source = planner::DraftSource::kMtp;
  Load(LocalCpu(), {}, "qwen35_mtp");
  ExpectEachRegionHasAReader();
  EXPECT_THAT(
      loaded_->stages[0].arena.Asked(),
      ElementsAre("kv_draft", "kv_full", "kv_mtp", "kv_parked", "kv_window",
                  "logits", "mtp", "state", "weights", "workspace"));
  // The first steps on a device run the head, too.
  const ServingDevice device;
  Load(device, {}, "qwen35_mtp");
  ExpectEachRegionHasAReader();
  EXPECT_EQ(loaded_->cache->free_pages(), loaded_->cache->n_pages());
}

TEST_F(LoaderTest, EachRegionOfAPartsPlanHasAReader) {
  Load(LocalCpu(), {1, 3}, kWithWindows);
  ExpectEachRegionHasAReader();
  // What the whole model has once is in one part's plan.
  for (const char* name : {"tables", "vocab"}) {
    EXPECT_GT(loaded_->parts[0].plan.FindRegion(name)->bytes, 0) << name;
    EXPECT_EQ(loaded_->parts[1].plan.FindRegion(name)->bytes, 0) << name;
  }
  for (const char* name : {"logits", "candidates"}) {
    EXPECT_EQ(loaded_->parts[1].plan.FindRegion(name)->bytes, 0) << name;
    EXPECT_GT(loaded_->parts[2].plan.FindRegion(name)->bytes, 0) << name;
  }
}

TEST_F(LoaderTest, BytesOfIdleSessionsAreAllocated) {
  features_.n_idle_sessions = 0;
  for (const char* model : {"lfm2_q8_0", "qwen35_q8_0", "gemma_q5_0"}) {
    SCOPED_TRACE(model);
    features_.idle_session_bytes = 1 << 20;
    Load(LocalCpu(), {}, model);
    ExpectEachRegionHasAReader();
    const planner::MemoryPlan& plan = loaded_->plan();
    const int64_t place_bytes = plan.kv.PlaceBytes();
    EXPECT_EQ(plan.options.n_idle_sessions, (1 << 20) / place_bytes);
    ExpectArenaAsPlanned();
    EXPECT_TRUE(loaded_->cache->KeepsSnapshots());
    const int64_t with_bytes = plan.arena_bytes;
    features_.idle_session_bytes = plan.IdleSessionBytes() - 1;
    Load(LocalCpu(), {}, model);
    const int64_t less = with_bytes - loaded_->plan().arena_bytes;
    EXPECT_GE(less, place_bytes);
    EXPECT_LT(less, place_bytes + 2 * LocalCpu().Profile().alignment);
    ExpectArenaAsPlanned();
  }
}

TEST_F(LoaderTest, StatesHaveAReaderInEveryPart) {
  Load(LocalCpu(), {1, 2}, "lfm2_q8_0");
  ExpectEachRegionHasAReader();
  // The middle one of three layers attends.
  for (const size_t part : {0u, 1u, 2u}) {
    SCOPED_TRACE(part);
    const planner::MemoryPlan& plan = loaded_->parts[part].plan;
    EXPECT_EQ(plan.FindRegion("state") != nullptr, part != 1);
    EXPECT_EQ(plan.FindRegion("kv_full")->bytes > 0, part == 1);
  }
}

}  // namespace
}  // namespace plimsoll::worker
