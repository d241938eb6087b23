// Values of flags.
#include "services/cli/flags/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "services/cli/backends/embedded.h"
#include "services/cli/flags/request.h"
#include "services/server/flags.h"

namespace plimsoll::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ParseCountTest, TakesBothEndsAndNothingBeyond) {
  EXPECT_EQ(*ParseCount("1", 1, 64), 1);
  EXPECT_EQ(*ParseCount("64", 1, 64), 64);
  for (const char* text : {"0", "65", "", "x", "1.5", "99999999999999999999"}) {
    EXPECT_THAT(std::string(ParseCount(text, 1, 64).status().message()),
                HasSubstr("not a whole number from 1 to 64"))
        << text;
  }
}

TEST(ParseContextTest, TakesTokensAutoAndMax) {
  EXPECT_EQ(ParseContext("512")->tokens, 512);
  EXPECT_EQ(ParseContext("auto")->kind, ContextFlag::Kind::kAuto);
  EXPECT_EQ(ParseContext("max")->kind, ContextFlag::Kind::kMax);
  EXPECT_FALSE(ParseContext("0").ok());
  EXPECT_FALSE(ParseContext("all").ok());
}

TEST(ParseCpuExpertsTest, TakesANumberAllAndAuto) {
  using services::ParseCpuExperts;
  constexpr int64_t kMost = planner::LoadOptions::kMaxCpuExperts;
  EXPECT_EQ(*ParseCpuExperts("auto"), std::nullopt);
  EXPECT_EQ(*ParseCpuExperts("all"), kMost);
  EXPECT_EQ(*ParseCpuExperts("0"), 0);
  EXPECT_EQ(*ParseCpuExperts("512"), kMost);
  for (const char* text : {"513", "-1", "", "some", "1.5"}) {
    EXPECT_THAT(std::string(ParseCpuExperts(text).status().message()),
                HasSubstr("write all, auto, or 0 to 512"))
        << text;
  }
}

TEST(SamplingFlagsTest, ValuesReachTheRequest) {
  CLI::App app;
  SamplingFlags flags;
  AddSamplingFlags(app, &flags);
  app.parse(std::vector<std::string>{
      "3", "--stop-token", "[x]", "--stop", "a,b", "--stop",
      "18446744073709551615", "--seed", "7", "--top-k", "0.5", "--top-p", "0",
      "--temperature", "64", "--top-logprobs"});
  EXPECT_EQ(flags.top_logprobs, 64);
  EXPECT_EQ(flags.sampling.temperature, 0);
  EXPECT_EQ(flags.sampling.top_p, 0.5f);
  EXPECT_EQ(flags.sampling.top_k, 7);
  EXPECT_EQ(flags.sampling.seed, 18'446'744'073'709'551'615u);
  EXPECT_THAT(flags.stop, ElementsAre("a,b", "[x]"));
  EXPECT_THAT(flags.stop_tokens, ElementsAre(3));
}

TEST(SamplingFlagsTest, BiasesAndPenaltiesReachTheRequest) {
  CLI::App app;
  SamplingFlags flags;
  AddSamplingFlags(app, &flags);
  app.parse(std::vector<std::string>{
      "0:1", "--logit-bias", "42:-1000", "--logit-bias", "128",
      "--penalty-last-tokens", "1.5", "--repetition-penalty", "-0.5",
      "--presence-penalty", "2", "--frequency-penalty", "0.9", "--typical-p"});
  const v1::StreamGenerateRequest request =
      ToRequest(flags, /*draft_tokens=*/7);
  EXPECT_EQ(request.sampling().draft_tokens(), 7u);
  const v1::SamplingOptions& sampling = request.sampling();
  EXPECT_EQ(sampling.typical_p(), 0.9f);
  EXPECT_EQ(sampling.repetition_penalty(), 1.5f);
  EXPECT_EQ(sampling.presence_penalty(), -0.5f);
  EXPECT_EQ(sampling.frequency_penalty(), 2.0f);
  EXPECT_EQ(sampling.penalty_last_tokens(), 128u);
  ASSERT_EQ(sampling.logit_bias_size(), 2);
  EXPECT_EQ(sampling.logit_bias(0).id(), 42u);
  EXPECT_EQ(sampling.logit_bias(0).bias(), -1000.0f);
}

TEST(ParseLogitBiasTest, TakesAnIdAndANumber) {
  EXPECT_EQ(ParseLogitBias("7:-2.5")->bias, -2.5f);
  EXPECT_EQ(ParseLogitBias("0:1000")->bias, 1000.0f);
  for (const char* bad : {"", "7", ":1", "7:", "x:1", "7:x", "-1:1", "7:1001",
                          "7:nan", "7:1:2", "2147483648:1"}) {
    EXPECT_FALSE(ParseLogitBias(bad).ok()) << bad;
  }
}

TEST(ToLoadOptionsTest, OmittedContextIsShortToLoadAndSolvedToPlan) {
  const LoadFlags flags;
  EXPECT_EQ(ToLoadOptions(flags, 8'192, ContextDefault::kShort).n_ctx, 4'096);
  EXPECT_EQ(ToLoadOptions(flags, 2'048, ContextDefault::kShort).n_ctx, 2'048);
  EXPECT_FALSE(ToLoadOptions(flags, 8'192, ContextDefault::kLongestThatFits)
                   .n_ctx.has_value());
}

TEST(ToLoadOptionsTest, AutoSolvesAndMaxIsTheTrainedContext) {
  LoadFlags flags;
  flags.n_ctx = *ParseContext("auto");
  EXPECT_FALSE(
      ToLoadOptions(flags, 8'192, ContextDefault::kShort).n_ctx.has_value());
  flags.n_ctx = *ParseContext("max");
  EXPECT_EQ(ToLoadOptions(flags, 8'192, ContextDefault::kShort).n_ctx, 8'192);
}

}  // namespace
}  // namespace plimsoll::cli
