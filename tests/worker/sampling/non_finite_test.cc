// What damaged numbers are called, and where they are.
#include "worker/sampling/non_finite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/worker/engine/engine_fixture.h"
#include "tests/worker/engine/engine_harness.h"
#include "tests/worker/random_model.h"

namespace plimsoll::worker {
namespace {

using ::plimsoll::testing::FindRandomModel;
using ::plimsoll::testing::Generate;
using ::plimsoll::testing::Generated;
using ::plimsoll::testing::Greedy;
using ::plimsoll::testing::kPrompt;
using ::plimsoll::testing::kRandomVocab;
using ::plimsoll::testing::SpoiledModelBytes;
using ::testing::HasSubstr;

constexpr int32_t kBadToken = 77;

std::string MessageOf(const absl::Status& status) {
  return std::string(status.message());
}

TEST(NonFiniteTest, IsKnownAgainWithItsPlace) {
  const absl::Status error = NonFiniteLogits("of the prompt");
  EXPECT_EQ(error.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(MessageOf(error), HasSubstr("non-finite logits of the prompt"));
  const absl::Status placed = AtStep(error, {.step = 3, .position = 41});
  EXPECT_TRUE(IsNonFiniteLogits(placed));
  EXPECT_EQ(placed.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(MessageOf(placed), HasSubstr(MessageOf(error)));
  EXPECT_THAT(MessageOf(placed), HasSubstr("step 3 since the load, position "
                                           "41 of the context"));
}

TEST(NonFiniteTest, OtherErrorsStayAsTheyAre) {
  for (const absl::Status& other :
       {absl::OkStatus(), absl::InternalError("non-finite logits")}) {
    EXPECT_FALSE(IsNonFiniteLogits(other));
    EXPECT_EQ(AtStep(other, {.step = 1, .position = 1}), other);
  }
}

using NonFiniteEngineTest = testing::EngineFixture;

// Makes the embedding of kBadToken, of f16, NaN.
void Damage(const std::string& tensor, std::vector<std::byte>& bytes) {
  if (tensor != "token_embd.weight") return;
  const size_t row = bytes.size() / kRandomVocab;
  std::memset(bytes.data() + static_cast<size_t>(kBadToken) * row, 0xff, row);
}

TEST_F(NonFiniteEngineTest, ErrorsOfDamagedNumbersNameTheirStepAndPosition) {
  LoadBytes(SpoiledModelBytes(FindRandomModel("llama_half"), Damage),
            {.n_ubatch = 8});
  ASSERT_TRUE(Generate(*engine_, Greedy(kPrompt, 3)).status.ok());
  const int64_t n_steps = engine_->CurrentLoad().steps;
  const auto place = [n_steps](int64_t step, int64_t position) {
    return absl::StrCat("(step ", n_steps + step, " since the load, position ",
                        position, " of the context)");
  };
  const Generated drawn =
      Generate(*engine_, Greedy({10, 20, 30, kBadToken}, 5));
  EXPECT_THAT(MessageOf(drawn.status), HasSubstr(place(1, 3)));
  // A prompt's own logits are looked at if its scores are asked for: here in
  // the first of two steps, which draws nothing.
  GenerateOptions scored =
      Greedy({10, 20, kBadToken, 30, 40, 50, 60, 70, 80, 90}, 5);
  scored.prompt_logprobs = true;
  const Generated got = Generate(*engine_, scored);
  EXPECT_TRUE(IsNonFiniteLogits(got.status)) << got.status;
  EXPECT_THAT(MessageOf(got.status), HasSubstr(place(2, 2)));
}

}  // namespace
}  // namespace plimsoll::worker
