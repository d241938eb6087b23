// Manifests of a small fixed plan, to the character.
#include "services/cli/views/pod_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace plimsoll::cli {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kPodMiB = 1 << 20;

planner::MemoryPlan PodPlan() {
  planner::MemoryPlan plan = {};
  plan.n_ctx = 2'048;
  plan.fits = true;
  plan.total_bytes = 400 * kPodMiB;
  plan.options.n_slots = 4;
  plan.options.n_parked = 1;
  return plan;
}

PodModel ModelOnDevice(const std::string& device) {
  return {.file = "tiny.gguf",
          .device = device,
          .n_threads = 2,
          .runtime_bytes = 28 * kPodMiB};
}

TEST(RenderPodTest, WritesAPatchOfTheWorkerForACpu) {
  const auto text = RenderPod(PodPlan(), ModelOnDevice("cpu"));
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(*text, R"(# tiny.gguf on cpu: a plan of 419,430,400 bytes,
# 4 slots of 2,048 tokens.
# Memory of the pod:
#       419430400 the plan
#        29360128 the process once more: it runs when it plans
#          876544 page tables
#          172032 up to a whole MiB
#       469762048 in the limit alone, for hostile frames of HTTP/2
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: plimsoll-worker
spec:
  template:
    metadata:
      annotations:
        plimsoll.dev/plan-bytes: "419430400"
    spec:
      containers:
        - name: worker
          args:
            - "--model=tiny=/models/tiny.gguf"
            - "--device=cpu"
            - "--threads=2"
            - "--n-ctx=2048"
            - "--slots=4"
            - "--n-ubatch=512"
            - "--kv-type=f16"
            - "--parked-slots=1"
            - "--draft-tokens=0"
          resources:
            requests:
              cpu: "2"
              memory: "449839104"
            limits:
              memory: "919601152"
)");
}

TEST(RenderPodTest, ClaimsThePlanInWholeMebibytesOfAGpu) {
  planner::MemoryPlan plan = PodPlan();
  plan.total_bytes += 1;
  plan.host_bytes = 100 * kPodMiB;
  const auto text = RenderPod(plan, ModelOnDevice("cuda:0"));
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text, HasSubstr(R"(
            - "--device=cuda:0"
)"));
  EXPECT_THAT(*text, HasSubstr(R"(
            - "--device-memory=420478976"
          resources:
)"));
  EXPECT_THAT(*text, HasSubstr(R"(
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata:
  name: plimsoll-gpu
spec:
  spec:
    devices:
      requests:
        - name: gpu
          exactly:
            deviceClassName: gpu.nvidia.com
            capacity:
              requests:
                memory: 401Mi
)"));
}

TEST(RenderPodTest, PassesEveryOptionThatThePlanDependsOn) {
  planner::MemoryPlan plan = PodPlan();
  plan.options.kv_tokens = 4'096;
  plan.options.mmap_weights = true;
  plan.options.k_type = DType::kQ8_0;
  plan.options.n_ubatch = 64;
  plan.options.n_idle_sessions = 5;
  plan.options.n_draft = 3;
  plan.options.draft_source = planner::DraftSource::kMtp;
  const auto text = RenderPod(plan, ModelOnDevice("cpu"));
  ASSERT_TRUE(text.ok()) << text.status();
  for (const char* arg :
       {"--kv-tokens=4096", "--mmap", "--kv-type=q8_0,f16", "--n-ubatch=64",
        "--draft-tokens=3", "--draft=mtp", "--idle-sessions=5"}) {
    EXPECT_THAT(*text, HasSubstr("- \"" + std::string(arg) + "\"\n"));
  }
}

TEST(PodMemoryTest, CountsTheHostAndTheDriverBesideAGpu) {
  planner::MemoryPlan plan = PodPlan();
  plan.host_bytes = 100 * kPodMiB;
  const auto memory = PodMemoryOf(plan, ModelOnDevice("cuda:0"));
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(memory->plan, 100 * kPodMiB);
  EXPECT_EQ(memory->runtime, 28 * kPodMiB);
  EXPECT_EQ(memory->driver, 1'024 * kPodMiB);
  EXPECT_EQ(memory->page_tables, 1'152 * kPodMiB / 512);
  EXPECT_EQ(memory->total, 1'155 * kPodMiB);  // 1,154.25 MiB
  EXPECT_EQ(memory->limit, (1'155 + 448) * kPodMiB);
}

TEST(PodMemoryTest, CountsPagesOfAMappedFile) {
  planner::MemoryPlan plan = PodPlan();
  plan.mapped_bytes = 50 * kPodMiB;
  const auto memory = PodMemoryOf(plan, ModelOnDevice("cpu"));
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(memory->plan, 450 * kPodMiB);
}

TEST(PodMemoryTest, RefusesASumThatDoesNotFit) {
  planner::MemoryPlan plan = PodPlan();
  plan.total_bytes = std::numeric_limits<int64_t>::max() - kPodMiB;
  EXPECT_EQ(PodMemoryOf(plan, ModelOnDevice("cpu")).status().code(),
            absl::StatusCode::kOutOfRange);
  plan.total_bytes = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(RenderPod(plan, ModelOnDevice("cuda:0")).status().code(),
            absl::StatusCode::kOutOfRange);
}

TEST(CheckPodFileTest, TakesPlainNamesOnly) {
  EXPECT_TRUE(CheckPodFile("a-B_1.Q4_1.gguf").ok());
  EXPECT_TRUE(CheckPodFile(std::string(115, 'a') + ".gguf").ok());
  EXPECT_FALSE(CheckPodFile(std::string(116, 'a') + ".gguf").ok());
  for (const char* name : {"", "a.bin", "a b.gguf", "a\".gguf", "$(X).gguf"}) {
    EXPECT_FALSE(CheckPodFile(name).ok()) << name;
  }
}

}  // namespace
}  // namespace plimsoll::cli
