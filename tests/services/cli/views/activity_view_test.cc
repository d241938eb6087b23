// Tables of what a worker does.
#include "services/cli/views/activity_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "absl/strings/str_split.h"
#include "services/cli/terminal/age.h"

namespace plimsoll::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::Not;

v1::GetLoadResponse Busy() {
  v1::GetLoadResponse load;
  v1::ModelActivity& model = *load.add_models();
  model.set_model("smollm2");
  model.set_state(v1::MODEL_STATE_READY);
  model.set_n_slots(4);
  model.set_running(1);
  model.set_max_waiting(64);
  model.set_kv_pages(1'024);
  model.set_kv_used_pages(3);
  model.set_sessions(2'345);
  model.set_prompt_tokens(1'234'567);
  model.set_cached_tokens(765'432);
  model.set_generated_tokens(9'876'543);
  v1::ActiveRequest& request = *model.add_requests();
  request.set_request_id("0123456789abcdef0123456789abcdef");
  request.set_state(v1::REQUEST_STATE_PARKED);
  request.set_prompt_tokens(17);
  request.set_generated_tokens(1'000);
  request.mutable_age()->set_seconds(7);
  return load;
}

TEST(RenderActivityTest, ShowsModelsAndRequestsIn80Columns) {
  const std::string out = RenderActivity(Busy().models(), std::nullopt, {});
  for (const char* cell :
       {"1/4", "0/64", "3/1,024", "2,345", "1,234,567", "765,432", "9,876,543",
        "smollm2", "parked", "17", "1,000", "7 s",
        "0123456789abcdef0123456789abcdef"}) {
    EXPECT_THAT(out, HasSubstr(cell));
  }
  EXPECT_THAT(out, Not(HasSubstr("more")));
  EXPECT_THAT(out, Not(HasSubstr("draining")));
  for (absl::string_view line : absl::StrSplit(out, '\n')) {
    EXPECT_THAT(Columns(line), Le(80)) << line;
  }
}

TEST(RenderActivityTest, ARequestThatIsNotListedIsCounted) {
  v1::GetLoadResponse load = Busy();
  load.mutable_models(0)->set_waiting(12);
  load.mutable_models(0)->set_state(v1::MODEL_STATE_DRAINING);
  const std::string out = RenderActivity(load.models(), std::nullopt, {});
  EXPECT_THAT(out, HasSubstr("and 12 more"));
  EXPECT_THAT(out, HasSubstr("(draining)"));
}

TEST(RenderActivityTest, WhatAServerNamesCannotMoveTheCursor) {
  v1::GetLoadResponse load = Busy();
  load.mutable_models(0)->set_model("a\033[2J");
  load.mutable_models(0)->mutable_requests(0)->set_request_id("b\rc");
  EXPECT_THAT(RenderActivity(load.models(), std::nullopt, {}),
              Not(HasSubstr("\033")));
  EXPECT_THAT(RenderActivity(load.models(), std::nullopt, {}),
              Not(HasSubstr("\r")));
}

TEST(RenderActivityTest, WithoutModelsThereIsNothingToShow) {
  EXPECT_EQ(RenderActivity({}, std::nullopt, {}), "");
}

TEST(RatesBetweenTest, CountsTheTokensOfASecond) {
  const v1::GetLoadResponse before = Busy();
  v1::GetLoadResponse after = Busy();
  v1::ModelActivity& model = *after.mutable_models(0);
  model.set_prompt_tokens(before.models(0).prompt_tokens() + 5'000);
  model.set_cached_tokens(before.models(0).cached_tokens() + 10);
  model.set_generated_tokens(before.models(0).generated_tokens() + 1'111);
  const TokenRates rates = RatesBetween(before, after, absl::Seconds(4));
  ASSERT_TRUE(rates.contains("smollm2"));
  EXPECT_EQ(rates.at("smollm2").prompt, 1'250);
  EXPECT_EQ(rates.at("smollm2").cached, 3);  // 2.5, rounded
  EXPECT_EQ(rates.at("smollm2").generated, 278);
  const std::string out = RenderActivity(after.models(), rates, {});
  for (const char* cell : {"prompt/s", "cached/s", "generated/s", "1,250"}) {
    EXPECT_THAT(out, HasSubstr(cell));
  }
  EXPECT_THAT(out, Not(HasSubstr("1,239,567")));
}

TEST(RatesBetweenTest, AModelThatIsNewOrWasLoadedAgainHasNone) {
  const v1::GetLoadResponse before = Busy();
  v1::GetLoadResponse after = Busy();
  after.mutable_models(0)->set_generated_tokens(0);
  *after.add_models() = before.models(0);
  after.mutable_models(1)->set_model("new");
  const TokenRates rates = RatesBetween(before, after, absl::Seconds(1));
  EXPECT_TRUE(rates.empty());
  const std::string out = RenderActivity(after.models(), rates, {});
  EXPECT_THAT(out, HasSubstr("generated/s"));
  EXPECT_THAT(out, Not(HasSubstr("1,234,567")));
}

TEST(CallsTextTest, CountsInWords) {
  EXPECT_EQ(CallsText(0), "no call is in flight");
  EXPECT_EQ(CallsText(1), "1 call is in flight");
  EXPECT_EQ(CallsText(1'234), "1,234 calls are in flight");
}

TEST(AgeTextTest, TakesTheLargestUnitThatSaysEnough) {
  const auto text = [](int64_t seconds) {
    google::protobuf::Duration age;
    age.set_seconds(seconds);
    return AgeText(age);
  };
  EXPECT_EQ(text(0), "0 s");
  EXPECT_EQ(text(119), "119 s");
  EXPECT_EQ(text(120), "2 min");
  EXPECT_EQ(text(7'199), "119 min");
  EXPECT_EQ(text(7'200), "2 h");
  EXPECT_EQ(text(172'800), "2 d");
}

}  // namespace
}  // namespace plimsoll::cli
