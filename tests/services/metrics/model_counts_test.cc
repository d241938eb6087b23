// What is counted of steps and of requests.
#include "services/metrics/model_counts.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "worker/sampling/non_finite.h"

namespace plimsoll::services {
namespace {

worker::RequestRecord RecordOf(const absl::Status& status,
                               worker::FinishReason reason) {
  worker::RequestRecord record;
  record.status = status;
  record.info.reason = reason;
  return record;
}

absl::string_view WordFor(const absl::Status& status,
                          worker::FinishReason reason) {
  return kResults.at(ResultOf(RecordOf(status, reason)));
}

TEST(ModelCountsTest, ARequestHasTheWordOfItsEnd) {
  using Reason = worker::FinishReason;
  EXPECT_EQ(WordFor(absl::OkStatus(), Reason::kEndToken), "end_token");
  EXPECT_EQ(WordFor(absl::OkStatus(), Reason::kStopToken), "stop_token");
  EXPECT_EQ(WordFor(absl::OkStatus(), Reason::kStopString), "stop_string");
  EXPECT_EQ(WordFor(absl::OkStatus(), Reason::kMaxTokens), "max_tokens");
  EXPECT_EQ(WordFor(absl::OkStatus(), Reason::kLength), "length");
  EXPECT_EQ(WordFor(absl::OkStatus(), Reason::kUnknown), "other");
  EXPECT_EQ(WordFor(absl::CancelledError(""), Reason::kEndToken), "cancelled");
  EXPECT_EQ(WordFor(absl::AbortedError(""), Reason::kUnknown), "aborted");
  EXPECT_EQ(WordFor(absl::OutOfRangeError(""), Reason::kLength),
            "context_full");
  EXPECT_EQ(WordFor(absl::InternalError(""), Reason::kUnknown), "other");
  EXPECT_EQ(WordFor(worker::NonFiniteLogits("here"), Reason::kUnknown),
            "non_finite");
}

TEST(ModelCountsTest, EveryCodeHasAWordOfTheList) {
  for (int code = 1; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "");
    EXPECT_LT(ResultOf(RecordOf(status, worker::FinishReason::kUnknown)),
              kResults.size())
        << code;
  }
}

TEST(ModelCountsTest, ARequestIsAdmittedOrRefusedWithAReason) {
  ModelCounts counts;
  counts.AddSubmit(absl::OkStatus());
  counts.AddSubmit(absl::ResourceExhaustedError(""));
  counts.AddSubmit(absl::ResourceExhaustedError(""));
  EXPECT_EQ(counts.admitted, 1);
  const size_t full = RefusalOf(absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(std::string(kRefusals.at(full)), "queue_full");
  EXPECT_EQ(counts.refused.at(full), 2);
  for (int code = 1; code <= 16; ++code) {
    EXPECT_LT(RefusalOf(static_cast<absl::StatusCode>(code)), kRefusals.size());
  }
}

TEST(ModelCountsTest, OnlyStepsThatGenerateCountBetweenTokens) {
  ModelCounts counts;
  counts.Add({.time = absl::Milliseconds(20), .n_prompt_rows = 64});
  counts.Add({.time = absl::Milliseconds(40), .n_decode_rows = 2});
  EXPECT_EQ(counts.step.Read().total(), 2u);
  EXPECT_EQ(counts.computed_tokens, 64);
  EXPECT_EQ(counts.inter_token.Read().total(), 1u);
  EXPECT_EQ(counts.inter_token.Read().sum, 0.04);
}

TEST(ModelCountsTest, ARequestCountsItsTimesAndTokens) {
  ModelCounts counts;
  worker::RequestRecord record =
      RecordOf(absl::OkStatus(), worker::FinishReason::kMaxTokens);
  record.info.n_prompt = 7;
  record.info.n_cached = 3;
  record.info.n_generated = 5;
  record.info.n_evictions = 2;
  record.info.n_evicted = 128;
  record.info.queued = absl::Milliseconds(250);
  record.info.first_token = absl::Milliseconds(500);
  record.info.decode = absl::Milliseconds(2'000);
  counts.Add(record);
  EXPECT_EQ(counts.queued.Read().sum, 0.25);
  EXPECT_EQ(counts.first_token.Read().sum, 0.5);
  EXPECT_EQ(counts.per_token.Read().sum, 0.5);
  EXPECT_EQ(counts.request.Read().sum, 2.5);
  EXPECT_EQ(counts.prompt_tokens.Read().sum, 7.0);
  EXPECT_EQ(counts.generated_tokens.Read().sum, 5.0);
  EXPECT_EQ(counts.cached_tokens, 3);
  EXPECT_EQ(counts.evictions, 2);
  EXPECT_EQ(counts.evicted_tokens, 128);
}

TEST(ModelCountsTest, ARequestWithoutATokenHasNoTimeToIt) {
  ModelCounts counts;
  counts.Add(
      RecordOf(absl::CancelledError(""), worker::FinishReason::kUnknown));
  EXPECT_EQ(counts.first_token.Read().total(), 0u);
  EXPECT_EQ(counts.per_token.Read().total(), 0u);
  EXPECT_EQ(counts.request.Read().total(), 1u);
}

}  // namespace
}  // namespace plimsoll::services
