// Values of tensors that are damaged in known places.
#include "worker/device/tensor_values.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tests/worker/random_model.h"

namespace plimsoll::worker {
namespace {

using ::plimsoll::testing::FindRandomModel;
using ::plimsoll::testing::kRandomVocab;
using ::plimsoll::testing::RandomModel;
using ::plimsoll::testing::RandomModelBytes;
using ::plimsoll::testing::Spoil;
using ::plimsoll::testing::SpoiledModelBytes;
using ::plimsoll::testing::TemporaryFile;

constexpr uint16_t kHalfNan = 0x7E00;

absl::Status NoFence(int64_t) { return absl::OkStatus(); }

// Puts `value` at a byte of tensor `name`.
template <class T>
Spoil Put(const std::string& name, size_t at, T value) {
  return [name, at, value](const std::string& tensor,
                           std::vector<std::byte>& bytes) {
    if (tensor == name) std::memcpy(bytes.data() + at, &value, sizeof(value));
  };
}

// How a test reads values.
struct Reading {
  Spoil spoil = nullptr;
  TensorFence fence = NoFence;
  int n_threads = 2;
};

absl::StatusOr<TensorValues> ValuesOf(const RandomModel& model,
                                      const std::string& tensor,
                                      const Reading& reading) {
  const TemporaryFile on_disk(SpoiledModelBytes(model, reading.spoil));
  auto file = ModelFile::Open(on_disk.path());
  if (!file.ok()) return file.status();
  const planner::GgufTensor* found = (*file)->header().FindTensor(tensor);
  if (found == nullptr) return absl::NotFoundError(tensor);
  kernels::ThreadPool pool(reading.n_threads, kernels::WorkerCpus::kAny);
  return ReadTensorValues(**file, *found, pool, reading.fence);
}

TEST(TensorValuesTest, ASoundTensorHasOnlyFiniteValuesOfALikelySize) {
  for (const char* name : {"llama_f32", "llama_half", "llama_q4_1",
                           "gemma_q5_0", "gemma_k", "llama_mixed"}) {
    SCOPED_TRACE(name);
    const RandomModel& model = FindRandomModel(name);
    const auto values = ValuesOf(model, "token_embd.weight", {});
    ASSERT_TRUE(values.ok()) << values.status();
    EXPECT_EQ(values->n_values, int64_t{kRandomVocab} * model.dim);
    EXPECT_EQ(values->n_not_finite, 0);
    EXPECT_EQ(values->first_not_finite, -1);
    EXPECT_EQ(values->n_too_large, 0);
    EXPECT_EQ(values->n_matrices, 1);
    EXPECT_EQ(values->n_zero_matrices, 0);
    EXPECT_GT(values->largest, 0);
    EXPECT_LT(values->largest, 100);
  }
}

TEST(TensorValuesTest, AScaleThatIsNotANumberSpoilsItsBlock) {
  // Rows of 96 values are three blocks of 20 bytes.
  const auto values =
      ValuesOf(FindRandomModel("llama_q4_1"), "blk.1.ffn_up.weight",
               {.spoil = Put("blk.1.ffn_up.weight", 7 * 60 + 20, kHalfNan)});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ(values->n_not_finite, 32);
  EXPECT_EQ(values->first_not_finite, 7 * 96 + 32);
  EXPECT_EQ(values->n_too_large, 0);
  EXPECT_LT(values->largest, 100);
}

TEST(TensorValuesTest, AnExpertsDamageIsWhereItLies) {
  // Nine experts of 64 rows of 96 values, in blocks of 18 bytes.
  const char* const name = "blk.2.ffn_gate_exps.weight";
  const size_t expert_bytes = 64 * 3 * 18;
  const auto values =
      ValuesOf(FindRandomModel("qwen3moe_q4_0"), name,
               {.spoil = Put(name, 4 * expert_bytes + 5 * 54, kHalfNan)});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ(values->n_matrices, 9);
  EXPECT_EQ(values->n_not_finite, 32);
  EXPECT_EQ(values->first_not_finite, (4 * 64 + 5) * 96);
  const auto zero = ValuesOf(
      FindRandomModel("qwen3moe_q4_0"), name,
      {.spoil = [&](const std::string& tensor, std::vector<std::byte>& bytes) {
        if (tensor == name) std::memset(&bytes[expert_bytes], 0, expert_bytes);
      }});
  ASSERT_TRUE(zero.ok()) << zero.status();
  EXPECT_EQ(zero->n_zero_matrices, 1);
  EXPECT_EQ(zero->first_zero_matrix, 1);
}

TEST(TensorValuesTest, TheBoundIsTheLargestHalfFloat) {
  const RandomModel& model = FindRandomModel("llama_f32");
  const char* const name = "blk.0.attn_norm.weight";
  const auto at =
      ValuesOf(model, name, {.spoil = Put(name, 4 * 9, -kLargestWeight)});
  ASSERT_TRUE(at.ok()) << at.status();
  EXPECT_EQ(at->n_too_large, 0);
  EXPECT_EQ(at->largest, kLargestWeight);
  const float past = std::nextafter(kLargestWeight, 1e9f);
  const auto beyond = ValuesOf(model, name, {.spoil = Put(name, 4 * 9, past)});
  ASSERT_TRUE(beyond.ok()) << beyond.status();
  EXPECT_EQ(beyond->n_too_large, 1);
  EXPECT_EQ(beyond->first_too_large, 9);
  EXPECT_EQ(beyond->largest, past);
  const auto infinite = ValuesOf(
      model, name,
      {.spoil = Put(name, 4 * 9, -std::numeric_limits<float>::infinity())});
  ASSERT_TRUE(infinite.ok()) << infinite.status();
  EXPECT_EQ(infinite->n_too_large, 0);
  EXPECT_EQ(infinite->n_not_finite, 1);
  EXPECT_EQ(infinite->first_not_finite, 9);
}

TEST(TensorValuesTest, ValuesOfSeveralChunksAreCountedWhateverTheThreads) {
  // Matrices of 8 MiB are two chunks.
  RandomModel model = FindRandomModel("llama_f32");
  model.dim = 1'024;
  model.ffn_dim = 2'048;
  model.n_layers = 1;
  const char* const name = "blk.0.ffn_up.weight";
  const int64_t n = int64_t{1'024} * 2'048;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto spoil = [&](const std::string& tensor,
                         std::vector<std::byte>& bytes) {
    if (tensor != name) return;
    const float large = 1e6f;
    std::memcpy(bytes.data() + 4 * (n / 2), &nan, sizeof(nan));
    std::memcpy(bytes.data() + 4 * (n - 1), &nan, sizeof(nan));
    std::memcpy(bytes.data() + 4 * (n - 2), &large, sizeof(large));
  };
  for (const int n_threads : {1, 3}) {
    std::vector<int64_t> fenced;
    const auto values = ValuesOf(model, name,
                                 {.spoil = spoil,
                                  .fence =
                                      [&](int64_t bytes_done) {
                                        fenced.push_back(bytes_done);
                                        return absl::OkStatus();
                                      },
                                  .n_threads = n_threads});
    ASSERT_TRUE(values.ok()) << values.status();
    EXPECT_EQ(values->n_not_finite, 2);
    EXPECT_EQ(values->first_not_finite, n / 2);
    EXPECT_EQ(values->n_too_large, 1);
    EXPECT_EQ(values->first_too_large, n - 2);
    EXPECT_EQ(fenced, (std::vector<int64_t>{0, int64_t{4} << 20}));
  }
}

TEST(TensorValuesTest, TheFenceEndsTheReading) {
  const auto values = ValuesOf(
      FindRandomModel("llama_f32"), "token_embd.weight",
      {.fence = [](int64_t) { return absl::CancelledError("enough"); }});
  EXPECT_EQ(values.status().code(), absl::StatusCode::kCancelled);
}

TEST(TensorValuesTest, ATypeThatIsNoWeightsIsRefused) {
  const TemporaryFile on_disk(RandomModelBytes(FindRandomModel("llama_f32")));
  const auto file = ModelFile::Open(on_disk.path());
  ASSERT_TRUE(file.ok()) << file.status();
  planner::GgufTensor tensor = (*file)->header().tensors.front();
  tensor.dtype = DType::kI32;
  kernels::ThreadPool pool(1, kernels::WorkerCpus::kAny);
  EXPECT_EQ(ReadTensorValues(**file, tensor, pool, NoFence).status().code(),
            absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace plimsoll::worker
