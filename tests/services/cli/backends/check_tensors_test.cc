// What is said of tensors that are damaged in known places.
#include "services/cli/backends/check_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "tests/worker/random_model.h"

namespace plimsoll::cli {
namespace {

using ::plimsoll::testing::FindRandomModel;
using ::plimsoll::testing::RandomModelBytes;
using ::plimsoll::testing::Spoil;
using ::plimsoll::testing::SpoiledModelBytes;
using ::plimsoll::testing::TemporaryFile;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

absl::Status NoByteFence(int64_t, int64_t) { return absl::OkStatus(); }

Check CheckOf(const char* model, const Spoil& spoil) {
  const TemporaryFile on_disk(SpoiledModelBytes(FindRandomModel(model), spoil));
  const auto file = worker::ModelFile::Open(on_disk.path());
  EXPECT_TRUE(file.ok()) << file.status();
  auto check = CheckTensors(**file, 2, NoByteFence);
  EXPECT_TRUE(check.ok()) << check.status();
  return check.ok() ? *std::move(check) : Check();
}

// Makes all of the tensor zero.
Spoil Zero(const std::string& name) {
  return [=](const std::string& tensor, std::vector<std::byte>& bytes) {
    if (tensor == name) std::fill(bytes.begin(), bytes.end(), std::byte{0});
  };
}

// Makes `n` bytes of the tensor zero from byte `begin` on.
Spoil ZeroBytes(const std::string& name, std::ptrdiff_t begin,
                std::ptrdiff_t n) {
  return [=](const std::string& tensor, std::vector<std::byte>& bytes) {
    if (tensor == name) std::fill_n(bytes.begin() + begin, n, std::byte{0});
  };
}

// Stores a float in the tensor's place `i`.
Spoil StoreFloat(const std::string& name, size_t i, float value) {
  return [=](const std::string& tensor, std::vector<std::byte>& bytes) {
    if (tensor == name) std::memcpy(&bytes[4 * i], &value, sizeof(value));
  };
}

TEST(CheckTensorsTest, ASoundModelHasNoFindings) {
  for (const char* model : {"llama_f32", "gemma_k", "qwen3moe_q4_0"}) {
    const Check check = CheckOf(model, /*spoil=*/nullptr);
    EXPECT_EQ(check.name, "tensors");
    EXPECT_EQ(check.state, CheckState::kOk) << model;
    EXPECT_THAT(check.findings, IsEmpty());
    EXPECT_THAT(check.text, HasSubstr("all finite"));
    EXPECT_GT(std::get<double>(check.figures.at("values")), 10'000);
  }
}

TEST(CheckTensorsTest, NamesTensorExpertRowAndColumnOfWhatIsNotFinite) {
  const Check check =
      CheckOf("qwen3moe_q4_0", [](const std::string& tensor, auto& bytes) {
        if (tensor != "blk.2.ffn_gate_exps.weight") return;
        const uint16_t nan = 0x7E00;
        const size_t row_bytes = 3 * 18;
        std::memcpy(&bytes[(4 * 64 + 5) * row_bytes + 18], &nan, sizeof(nan));
      });
  EXPECT_EQ(check.state, CheckState::kFailed);
  EXPECT_THAT(check.findings,
              ElementsAre("blk.2.ffn_gate_exps.weight: 32 of 55,296 values are "
                          "not finite, first in matrix 4, row 5, column 32"));
  EXPECT_THAT(check.text, HasSubstr("damaged"));
}

TEST(CheckTensorsTest, AWeightBeyondF16FailsButAFactorOfARotationMayBe) {
  const Check norm =
      CheckOf("llama_f32", StoreFloat("blk.0.attn_norm.weight", 3, -7e4f));
  EXPECT_EQ(norm.state, CheckState::kFailed);
  EXPECT_THAT(norm.findings,
              ElementsAre("blk.0.attn_norm.weight: 1 of 64 values are larger "
                          "than 65,504 (infinite in F16), first in column 3"));
  const Check factor =
      CheckOf("llama_f32", StoreFloat("rope_freqs.weight", 3, 1e30f));
  EXPECT_EQ(factor.state, CheckState::kOk);
  const Check nan =
      CheckOf("llama_f32", StoreFloat("rope_freqs.weight", 3,
                                      std::numeric_limits<float>::infinity()));
  EXPECT_EQ(nan.state, CheckState::kFailed);
}

TEST(CheckTensorsTest, AMatrixOfZerosFailsAndABiasOfZerosIsANote) {
  const Check matrix = CheckOf("qwen2_q8_0", Zero("blk.1.attn_output.weight"));
  EXPECT_EQ(matrix.state, CheckState::kFailed);
  EXPECT_THAT(matrix.findings,
              ElementsAre("blk.1.attn_output.weight: all values are zero"));
  const Check bias = CheckOf("qwen2_q8_0", Zero("blk.1.attn_k.bias"));
  EXPECT_EQ(bias.state, CheckState::kNote);
  EXPECT_THAT(bias.findings,
              ElementsAre("blk.1.attn_k.bias: all values are zero"));
  const Check expert =
      CheckOf("qwen3moe_q4_0",
              ZeroBytes("blk.0.ffn_up_exps.weight", 2 * 64 * 54, 64 * 54));
  EXPECT_EQ(expert.state, CheckState::kNote);
  EXPECT_THAT(expert.findings,
              ElementsAre("blk.0.ffn_up_exps.weight: 1 of 9 matrices are all "
                          "zero, first matrix 2"));
}

TEST(CheckTensorsTest, ListsSoManyFindingsAndCountsTheRest) {
  const Check check =
      CheckOf("gemma_q5_0", [](const std::string& tensor, auto& bytes) {
        if (!absl::StrContains(tensor, "attn_norm") &&
            !absl::StrContains(tensor, "ffn_norm")) {
          return;
        }
        std::fill(bytes.begin(), bytes.end(), std::byte{0});
      });
  EXPECT_EQ(check.state, CheckState::kFailed);
  ASSERT_THAT(check.findings, SizeIs(kMaxFindings + 1));
  EXPECT_EQ(check.findings.back(), "and 4 more");
  EXPECT_EQ(std::get<double>(check.figures.at("findings_count")), 14);
}

TEST(CheckTensorsTest, TheFenceSeesAllBytesAndEndsTheCheck) {
  const TemporaryFile on_disk(RandomModelBytes(FindRandomModel("llama_f32")));
  const auto file = worker::ModelFile::Open(on_disk.path());
  ASSERT_TRUE(file.ok()) << file.status();
  int64_t last = -1;
  int64_t all = 0;
  ASSERT_TRUE(
      CheckTensors(**file, 1, [&](int64_t bytes_done, int64_t bytes_total) {
        EXPECT_GE(bytes_done, last);
        last = bytes_done;
        all = bytes_total;
        return absl::OkStatus();
      }).ok());
  EXPECT_EQ(last, all);
  EXPECT_GT(all, 0);
  const auto stopped = CheckTensors(**file, 1, [](int64_t, int64_t) {
    return absl::CancelledError("enough");
  });
  EXPECT_EQ(stopped.status().code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace plimsoll::cli
