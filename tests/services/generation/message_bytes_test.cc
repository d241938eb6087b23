// What calls take for their messages, and where replies end.
#include "services/generation/message_bytes.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "plimsoll/v1/generation.pb.h"
#include "plimsoll/v1/tokenizer.pb.h"
#include "services/wire/chat_tools.h"
#include "services/wire/errors.h"
#include "services/wire/generation_to_proto.h"
#include "services/wire/to_proto.h"

namespace plimsoll::services {
namespace {

TEST(MessageBytesTest, IdsAreCountedAsTheyAreSent) {
  const std::vector<int32_t> ids = {0,      127,       128,      16'383,
                                    16'384, 2'097'151, 2'097'152};
  v1::TokenizeResponse reply;
  for (const int32_t id : ids) reply.add_ids(ToUint32(id));
  // Less the tag and the length.
  EXPECT_EQ(WireBytes(ids), static_cast<int64_t>(reply.ByteSizeLong()) - 2);
}

TEST(MessageBytesTest, AStepIsCountedAsMoreThanItIs) {
  worker::StepOutput output;
  output.text = "abc";
  for (int i = 0; i < 3; ++i) {
    worker::TokenOutput token = {.id = (1 << 24) - 1,
                                 .has_logprob = true,
                                 .logprob = -1,
                                 .rank = 1 << 24,
                                 .candidates = {}};
    for (int k = 0; k < 64; ++k)
      token.candidates.push_back({(1 << 24) - 1, -2});
    output.tokens.push_back(std::move(token));
    output.evictions.push_back({int64_t{1} << 40, 1 << 20, 1 << 20, 1 << 20,
                                worker::RollMethod::kShift});
    output.prompt_scores.push_back({-3, true});
  }
  v1::GenerateResponse reply;
  reply.set_text(output.text);
  AppendOutput(output, reply);
  const auto exact = static_cast<int64_t>(reply.ByteSizeLong());
  EXPECT_GE(WireBytes(output), exact);
  EXPECT_LE(WireBytes(output), exact * 5 / 4);
  // What it takes in memory is covered, too.
  EXPECT_GE(WireBytes(output) * kReplyPerByte,
            static_cast<int64_t>(reply.SpaceUsedLong()) + exact);
}

TEST(MessageBytesTest, PiecesOfCallsAreCovered) {
  worker::StepOutput output;
  output.text = "x";
  v1::StreamGenerateResponse reply;
  AddDelta({.index = worker::kMaxToolCalls, .name = {}, .arguments = "x"},
           *reply.mutable_tool_call_deltas());
  EXPECT_GE(WireBytes(output), static_cast<int64_t>(reply.ByteSizeLong()));
}

TEST(MessageBytesTest, TokensWithoutCandidatesAreCoveredInMemory) {
  worker::StepOutput output;
  for (int i = 0; i < 1'000; ++i)
    output.tokens.push_back({.id = i, .candidates = {}});
  v1::GenerateResponse reply;
  reply.set_text(output.text);
  AppendOutput(output, reply);
  EXPECT_GE(WireBytes(output) * kReplyPerByte,
            static_cast<int64_t>(reply.SpaceUsedLong() + reply.ByteSizeLong()));
}

TEST(MessageBytesTest, AReplyEndsAtItsLimit) {
  EXPECT_TRUE(CheckReplyBytes(kMaxReplyBytes, "do less").ok());
  const absl::Status refused = CheckReplyBytes(kMaxReplyBytes + 1, "do less");
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_NE(refused.message().find("4194305"), std::string::npos) << refused;
  EXPECT_NE(refused.message().find("do less"), std::string::npos) << refused;
}

TEST(ReplyMeterTest, TakesWhatAReplyNeedsAndEndsAtItsLimit) {
  ByteBudget budget(kMessageBytes);
  {
    auto share = budget.Take("a", 1'000);
    ASSERT_TRUE(share.ok());
    ReplyMeter meter(*std::move(share));
    EXPECT_EQ(budget.traffic().held_bytes, 1'000);
    int64_t sent = 0;
    for (; sent + 4'096 <= kMaxReplyBytes; sent += 4'096) {
      ASSERT_TRUE(meter.Add(4'096).ok());
      EXPECT_GE(budget.traffic().held_bytes,
                1'000 + kReplyPerByte * (sent + 4'096));
    }
    EXPECT_EQ(sent, kMaxReplyBytes);
    const absl::Status refused = meter.Add(1);
    EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
    EXPECT_FALSE(DetailsOf(refused).retry_after.has_value());
  }
  EXPECT_EQ(budget.traffic().held_bytes, 0);
}

TEST(ReplyMeterTest, WhatIsHeldAlreadyIsCountedOnce) {
  ByteBudget budget(kMessageBytes);
  ReplyMeter meter(*budget.Take("a", 100'000), /*reply_bytes=*/4'000'000);
  EXPECT_TRUE(meter.Add(1'000).ok());
  EXPECT_LT(budget.traffic().held_bytes, 200'000);
  EXPECT_FALSE(meter.Add(kMaxReplyBytes - 4'000'999).ok());
  meter.SetFinalBytes(5'000);
  EXPECT_EQ(budget.traffic().held_bytes, 5'000);
}

TEST(ReplyMeterTest, WithoutMemoryTheReplyIsToBeAskedForAgain) {
  ByteBudget budget(1 << 20);
  auto share = budget.Take("a", 1'000);
  const auto other = budget.Take("b", (1 << 20) - 200'000);
  ASSERT_TRUE(share.ok() && other.ok());
  ReplyMeter meter(*std::move(share));
  EXPECT_TRUE(meter.Add(10'000).ok());
  const absl::Status refused = meter.Add(20'000);
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_TRUE(DetailsOf(refused).retry_after.has_value());
}

TEST(MessageBytesTest, OneCallMayBeAsLargeAsItsMessage) {
  ByteBudget budget(kMessageBytes);
  v1::TokenizeRequest request;
  request.set_raw_text(
      std::string(static_cast<size_t>(kMaxMessageBytes) - 5, 'x'));
  ASSERT_EQ(static_cast<int64_t>(request.ByteSizeLong()), kMaxMessageBytes);
  EXPECT_TRUE(budget.Take("a", WorkBytes(request)).ok());
  // The most ids that Detokenize takes, and the longest text.
  EXPECT_TRUE(budget.Take("a", DetokenizeBytes(1 << 20, kMaxReplyBytes)).ok());
  // Ids of one byte each are what takes most.
  const std::vector<int32_t> ids(static_cast<size_t>(kMaxMessageBytes), 5);
  EXPECT_LT(HeldBytes(v1::TokenizeRequest(), ids), WorkBytes(request));
}

}  // namespace
}  // namespace plimsoll::services
