// Passes over a text, and how two of them are compared.
#include "services/cli/backends/forward_pass.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/worker/random_model.h"

namespace plimsoll::cli {
namespace {

using ::plimsoll::testing::FindRandomModel;
using ::plimsoll::testing::RandomIds;
using ::plimsoll::testing::RandomModelBytes;
using ::plimsoll::testing::TemporaryFile;

TEST(ForwardPassTest, GivesALogprobForEveryTokenButTheFirst) {
  const TemporaryFile on_disk(RandomModelBytes(FindRandomModel("llama_q4_1")));
  const auto file = worker::ModelFile::Open(on_disk.path());
  ASSERT_TRUE(file.ok()) << file.status();
  const auto engine =
      LoadForPass(**file, {.device = &worker::LocalCpu(),
                           .precision = worker::Precision::kExact,
                           .kv_type = DType::kF32,
                           .n_threads = 1});
  ASSERT_TRUE(engine.ok()) << engine.status();
  EXPECT_EQ((*engine)->n_ctx(), kPassContext);
  const auto result = RunPass(**engine, RandomIds(20, 1));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->logprobs.size(), 19u);
  ASSERT_EQ(result->candidates.size(), 10u);
  EXPECT_GE(result->candidates[0].logprob, result->candidates[9].logprob);
  EXPECT_GT(result->Perplexity(), 1);
  EXPECT_EQ(Compare(*result, *result).n_compared, 29);
  EXPECT_EQ(Compare(*result, *result).largest, 0);
  EXPECT_TRUE(Compare(*result, *result).same_greedy);
  EXPECT_EQ(RunPass(**engine, RandomIds(kPassContext + 1, 1)).status().code(),
            absl::StatusCode::kOutOfRange);
}

TEST(ForwardPassTest, AModelThatDoesNotFitSaysTheBytes) {
  class Full final : public worker::ComputeDevice {
   public:
    absl::StatusOr<std::unique_ptr<kernels::Backend>> NewBackend(
        kernels::ThreadPool& pool) const override {
      return kernels::NewCpuBackend(pool);
    }
    planner::DeviceProfile Profile() const override {
      planner::DeviceProfile profile = worker::LocalCpu().Profile();
      profile.free_bytes = int64_t{1} << 20;
      return profile;
    }
    bool is_host() const override { return true; }
  };
  const TemporaryFile on_disk(RandomModelBytes(FindRandomModel("llama_q4_1")));
  const auto file = worker::ModelFile::Open(on_disk.path());
  ASSERT_TRUE(file.ok()) << file.status();
  const Full device;
  const auto engine =
      LoadForPass(**file, {.device = &device,
                           .precision = worker::Precision::kExact,
                           .kv_type = DType::kF32,
                           .n_threads = 1});
  EXPECT_EQ(engine.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(engine.status().message().find("there are 1.0 MiB"),
            absl::string_view::npos)
      << engine.status();
}

TEST(ForwardPassTest, ComparesTextAndTheCandidatesThatBothHave) {
  const PassResult a{.logprobs = {-1, -2},
                     .candidates = {{7, -0.5f}, {8, -1.0f}, {9, -3}}};
  PassResult b{.logprobs = {-1.25f, -2},
               .candidates = {{8, -0.5f}, {7, -0.5f}, {10, -4}}};
  const PassDifference found = Compare(a, b);
  EXPECT_EQ(found.n_compared, 4);
  EXPECT_EQ(found.largest, 0.5);
  EXPECT_FALSE(found.same_greedy);
  b.logprobs[0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(Compare(a, b).largest));
  EXPECT_FALSE(Compare({}, {}).same_greedy);
}

TEST(ForwardPassTest, PerplexityIsThatOfTheMean) {
  EXPECT_NEAR(PassResult({.logprobs = {-1, -3}, .candidates = {}}).Perplexity(),
              std::exp(2.0), 1e-9);
}

}  // namespace
}  // namespace plimsoll::cli
