// Models whose weights stay in their mapped files: the bits of packed weights,
// and no answer once a file was changed.
#include <fcntl.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/worker/engine/engine_fixture.h"

namespace plimsoll::testing {
namespace {

using ::plimsoll::worker::Precision;

class MappedEngineTest : public EngineFixture {
 protected:
  void ExpectTheBitsOfPackedWeights(const RandomModel& model) {
    for (const Precision precision : {Precision::kDefault, Precision::kExact}) {
      SCOPED_TRACE(absl::StrCat(model.name, ", precision ",
                                static_cast<int>(precision)));
      EngineSetup setup;
      setup.device = &worker::LocalCpu();
      setup.precision = precision;
      Load(model, setup);
      const Generated packed = Say();
      ASSERT_TRUE(packed.status.ok()) << packed.status;
      setup.mmap_weights = true;
      Load(model, setup);
      EXPECT_TRUE(SameBits(Say(), packed));
    }
  }

  void ExpectTheBitsOfTablesOn(const worker::ComputeDevice& device,
                               const char* model, int n_prompt) {
    SCOPED_TRACE(model);
    const worker::GenerateOptions request = Greedy(RandomIds(n_prompt, 3), 4);
    EngineSetup setup;
    setup.device = &device;
    setup.precision = Precision::kDefault;
    Load(model, setup);
    const Generated packed = Generate(*engine_, request);
    ASSERT_TRUE(packed.status.ok()) << packed.status;
    const int64_t arena_bytes = engine_->plan().arena_bytes;
    setup.host_tables = true;
    Load(model, setup);
    EXPECT_TRUE(SameBits(Generate(*engine_, request), packed));
    EXPECT_GT(engine_->plan().mapped_bytes, 0);
    EXPECT_LT(engine_->plan().arena_bytes, arena_bytes);
  }

  // A prompt of many rows, then steps of one.
  Generated Say() { return Generate(*engine_, Greedy(RandomIds(60, 3), 6)); }
};

TEST_F(MappedEngineTest, EveryModelHasTheBitsOfPackedWeights) {
  for (const RandomModel& model : RandomModels()) {
    ExpectTheBitsOfPackedWeights(model);
  }
  for (const RandomModel& model : FamilyModels()) {
    ExpectTheBitsOfPackedWeights(model);
  }
}

TEST_F(MappedEngineTest, TheArenaHasVectorsAlone) {
  EngineSetup setup;
  setup.device = &worker::LocalCpu();
  setup.mmap_weights = true;
  Load("llama_q4_1", setup);
  const planner::MemoryPlan& plan = engine_->plan();
  const auto file_bytes =
      static_cast<int64_t>(std::filesystem::file_size(file_->path()));
  EXPECT_LT(plan.FindRegion("weights")->bytes, file_bytes / 10);
  EXPECT_GT(plan.mapped_bytes, file_bytes / 2);
}

TEST_F(MappedEngineTest, TablesAloneMayStayInTheFile) {
  for (const char* const model : {"llama_half", "gemma3n_q5_0"}) {
    ExpectTheBitsOfTablesOn(worker::LocalCpu(), model, 60);
  }
}

TEST_F(MappedEngineTest, TablesOfADeviceMayStayInTheFile) {
  const auto device = OpenTestDevice(kEmulatedDevice, Precision::kDefault);
  if (absl::IsInvalidArgument(device.status())) {
    GTEST_SKIP() << "this build has no emulated CUDA";
  }
  ASSERT_TRUE(device.ok()) << device.status();
  for (const char* const model : {"llama_half", "gemma3n_q5_0"}) {
    ExpectTheBitsOfTablesOn(**device, model, 5);
  }
}

TEST_F(MappedEngineTest, NoRequestIsTakenOnceTheFileWasChanged) {
  EngineSetup setup;
  setup.device = &worker::LocalCpu();
  setup.mmap_weights = true;
  Load("llama_q4_1", setup);
  EXPECT_TRUE(Say().status.ok());
  const struct timespec times[2] = {{0, UTIME_OMIT}, {1, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, file_->path().c_str(), times, 0), 0);
  EXPECT_EQ(Say().status.code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace plimsoll::testing
