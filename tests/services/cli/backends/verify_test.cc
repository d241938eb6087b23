// All checks of a model in their order, and what is left out when.
#include "services/cli/backends/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include "tests/worker/random_model.h"

namespace plimsoll::cli {
namespace {

using ::plimsoll::testing::FindRandomModel;
using ::plimsoll::testing::Spoil;
using ::plimsoll::testing::SpoiledModelBytes;
using ::plimsoll::testing::TemporaryFile;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class VerifyTest : public ::testing::Test {
 protected:
  std::vector<Check> Checks(const VerifyOptions& options, const Spoil& spoil) {
    const TemporaryFile on_disk(
        SpoiledModelBytes(FindRandomModel("llama_q4_1"), spoil));
    Streams streams{in_, out_, err_, {}, {}};
    auto checks = Verify(on_disk.path(), options, streams);
    EXPECT_TRUE(checks.ok()) << checks.status();
    return checks.ok() ? *std::move(checks) : std::vector<Check>();
  }

  static std::vector<std::string> NamesOf(const std::vector<Check>& checks) {
    std::vector<std::string> names;
    for (const Check& check : checks) names.push_back(check.name);
    return names;
  }

  std::istringstream in_;
  std::ostringstream out_;
  std::ostringstream err_;
};

TEST_F(VerifyTest, ChecksComeInTheirOrderWithProgress) {
  const std::vector<Check> checks = Checks({.n_threads = 2}, /*spoil=*/nullptr);
  EXPECT_THAT(NamesOf(checks),
              ElementsAre("header", "tensors", "tokenizer", "forward exact",
                          "forward default", "sanity"));
  EXPECT_THAT(checks[0].text,
              AllOf(HasSubstr("llama, 3 layers"), HasSubstr("vocabulary 323")));
  EXPECT_THAT(err_.str(), AllOf(HasSubstr("checking "), HasSubstr("100 %"),
                                HasSubstr("reference kernels, about 1 s")));
  EXPECT_EQ(out_.str(), "");
}

TEST_F(VerifyTest, ForwardPassesAreLeftOutWhereNobodyWantsThem) {
  const std::vector<Check> checks =
      Checks({.has_forward = false}, /*spoil=*/nullptr);
  ASSERT_EQ(checks.size(), 6u);
  EXPECT_EQ(checks[2].state, CheckState::kOk);
  for (size_t i = 3; i < 6; ++i) {
    EXPECT_EQ(checks[i].state, CheckState::kNote);
    EXPECT_EQ(checks[i].text, "left out: --no-forward");
  }
  EXPECT_THAT(err_.str(), Not(HasSubstr("forward pass")));
}

TEST_F(VerifyTest, NothingIsComputedFromDamagedTensors) {
  const std::vector<Check> checks =
      Checks({}, [](const std::string& tensor, auto& bytes) {
        const uint16_t nan = 0x7E00;
        if (tensor == "blk.0.ffn_up.weight") {
          std::memcpy(bytes.data(), &nan, sizeof(nan));
        }
      });
  ASSERT_EQ(checks.size(), 6u);
  EXPECT_EQ(checks[1].state, CheckState::kFailed);
  EXPECT_EQ(checks[2].state, CheckState::kOk);
  EXPECT_EQ(checks[5].text, "left out: tensors are damaged");
}

}  // namespace
}  // namespace plimsoll::cli
