#include "services/wire/generation_to_proto.h"

#include <gtest/gtest.h>

#include "tests/services/wire/message_json.h"

namespace plimsoll::services {
namespace {

using testing::JsonOf;

TEST(GenerationToProtoTest, TokenZeroAndLogprobZeroAreVisible) {
  const worker::TokenOutput token = {
      .id = 0, .has_logprob = true, .logprob = 0, .candidates = {{0, 0}}};
  EXPECT_EQ(JsonOf(ToProto(token)),
            "{\"id\":0,\"logprob\":0,"
            "\"candidates\":[{\"id\":0,\"logprob\":0}],\"rank\":1}");
  EXPECT_EQ(JsonOf(ToProto(worker::TokenOutput{.id = 7, .candidates = {}})),
            "{\"id\":7}");
}

TEST(GenerationToProtoTest, AReportOfZeroesIsVisible) {
  EXPECT_EQ(JsonOf(ToProto(worker::MemoryReport{})),
            "{\"planned_bytes\":\"0\",\"allocated_bytes\":\"0\","
            "\"device_allocations_after_load\":0,\"peak_rss_bytes\":\"0\","
            "\"vocab_bytes\":\"0\"}");
}

TEST(GenerationToProtoTest, RatesAreOfTokensAfterTheFirst) {
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

TEST(GenerationToProtoTest, EveryFinishReasonHasAName) {
  using R = worker::FinishReason;
  EXPECT_EQ(ToProto(R::kEndToken), v1::FINISH_REASON_END_TOKEN);
  EXPECT_EQ(ToProto(R::kStopToken), v1::FINISH_REASON_STOP_TOKEN);
  EXPECT_EQ(ToProto(R::kStopString), v1::FINISH_REASON_STOP_STRING);
  EXPECT_EQ(ToProto(R::kMaxTokens), v1::FINISH_REASON_MAX_TOKENS);
  EXPECT_EQ(ToProto(R::kLength), v1::FINISH_REASON_LENGTH);
}

}  // namespace
}  // namespace plimsoll::services
