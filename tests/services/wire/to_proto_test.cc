#include "services/wire/to_proto.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace plimsoll::services {
namespace {

using ::testing::HasSubstr;

std::string Json(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string json;
  EXPECT_TRUE(
      google::protobuf::util::MessageToJsonString(message, &json, options)
          .ok());
  return json;
}

TEST(ToProtoTest, CountsAreCutToWhatFits) {
  EXPECT_EQ(ToUint32(-1), 0u);
  EXPECT_EQ(ToUint32(int64_t{1} << 40), std::numeric_limits<uint32_t>::max());
  EXPECT_EQ(ToUint64(-5), 0u);
}

TEST(ToProtoTest, ZeroAndFalseOfAPlanAreVisible) {
  planner::MemoryPlan plan = {};
  plan.regions.push_back({.name = "kv_full",
                          .offset = 0,
                          .bytes = 0,
                          .alignment = 64,
                          .basis = planner::Basis::kDerived,
                          .formula = "0"});
  plan.regions.push_back({.name = "runtime",
                          .offset = -1,
                          .bytes = 5,
                          .alignment = 0,
                          .basis = planner::Basis::kEstimated,
                          .formula = "5"});
  const v1::MemoryPlan message = ToProto(plan);
  const std::string json = Json(message);
  for (const char* field :
       {"\"n_ctx\":0", "\"fits\":false", "\"total_bytes\":\"0\"",
        "\"budget_bytes\":\"0\"", "\"arena_bytes\":\"0\"",
        "\"missing_bytes\":\"0\"", "\"bytes\":\"0\"", "\"offset\":\"0\"",
        "\"basis\":\"BASIS_DERIVED\""}) {
    EXPECT_THAT(json, HasSubstr(field));
  }
  EXPECT_FALSE(message.regions(1).has_offset());
}

TEST(ToProtoTest, TokenZeroAndLogprobZeroAreVisible) {
  const worker::TokenOutput token = {
      .id = 0, .has_logprob = true, .logprob = 0, .candidates = {{0, 0}}};
  EXPECT_EQ(Json(ToProto(token)),
            "{\"id\":0,\"logprob\":0,"
            "\"candidates\":[{\"id\":0,\"logprob\":0}],\"rank\":1}");
  EXPECT_EQ(Json(ToProto(worker::TokenOutput{.id = 7, .candidates = {}})),
            "{\"id\":7}");
}

TEST(ToProtoTest, AReportOfZeroesIsVisible) {
  EXPECT_EQ(Json(ToProto(worker::MemoryReport{})),
            "{\"planned_bytes\":\"0\",\"allocated_bytes\":\"0\","
            "\"device_allocations_after_load\":0,\"peak_rss_bytes\":\"0\","
            "\"vocab_bytes\":\"0\"}");
}

TEST(ToProtoTest, RatesAreOfTokensAfterTheFirst) {
  worker::FinishInfo info;
  info.n_prompt = 10;
  info.n_generated = 5;
  info.prefill = absl::Seconds(2);
  info.decode = absl::Seconds(2);
  const v1::GenerationTiming timing = TimingToProto(info, absl::Seconds(4));
  EXPECT_EQ(timing.prefill_tokens_per_s(), 5);
  EXPECT_EQ(timing.decode_tokens_per_s(), 2);
  EXPECT_EQ(timing.total().seconds(), 4);
  info.n_generated = 1;
  EXPECT_FALSE(TimingToProto(info, {}).has_decode_tokens_per_s());
}

TEST(ToProtoTest, ADurationsPartsHaveOneSign) {
  const auto message = ToProto(-absl::Milliseconds(1500));
  EXPECT_EQ(message.seconds(), -1);
  EXPECT_EQ(message.nanos(), -500'000'000);
}

TEST(ToProtoTest, EveryFinishReasonHasAName) {
  using R = worker::FinishReason;
  EXPECT_EQ(ToProto(R::kEndToken), v1::FINISH_REASON_END_TOKEN);
  EXPECT_EQ(ToProto(R::kStopToken), v1::FINISH_REASON_STOP_TOKEN);
  EXPECT_EQ(ToProto(R::kStopString), v1::FINISH_REASON_STOP_STRING);
  EXPECT_EQ(ToProto(R::kMaxTokens), v1::FINISH_REASON_MAX_TOKENS);
  EXPECT_EQ(ToProto(R::kLength), v1::FINISH_REASON_LENGTH);
}

}  // namespace
}  // namespace plimsoll::services
