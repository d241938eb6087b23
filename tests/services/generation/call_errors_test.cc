#include "services/generation/call_errors.h"

#include <gtest/gtest.h>

#include <optional>

#include "services/wire/errors.h"

namespace plimsoll::services {
namespace {

using Code = absl::StatusCode;

TEST(CallErrorsTest, ASessionsErrorsHaveReasons) {
  struct Case {
    Code code;
    v1::ErrorReason reason;
    std::optional<absl::Duration> retry_after;
  };
  for (const Case& c : {
           Case{Code::kNotFound, v1::ERROR_REASON_SESSION_NOT_FOUND, {}},
           Case{Code::kFailedPrecondition, v1::ERROR_REASON_SESSION_BUSY,
                absl::Seconds(1)},
           Case{Code::kAlreadyExists, v1::ERROR_REASON_SESSION_EXISTS, {}},
           Case{Code::kResourceExhausted, v1::ERROR_REASON_SESSION_LIMIT,
                absl::Seconds(30)},
           Case{Code::kUnavailable, v1::ERROR_REASON_MODEL_NOT_READY,
                absl::Seconds(1)},
       }) {
    const absl::Status status = SessionStatus(absl::Status(c.code, "m"));
    EXPECT_EQ(status.code(), c.code);
    EXPECT_EQ(status.message(), "m");
    EXPECT_EQ(DetailsOf(status).reason, c.reason) << status;
    EXPECT_EQ(DetailsOf(status).retry_after, c.retry_after) << status;
  }
  EXPECT_FALSE(HasDetails(SessionStatus(absl::InternalError("m"))));
}

TEST(CallErrorsTest, AnEndHasAReason) {
  const absl::Status full = EndStatus(absl::OutOfRangeError("m"));
  EXPECT_EQ(full.code(), Code::kOutOfRange);
  EXPECT_EQ(DetailsOf(full).reason, v1::ERROR_REASON_CONTEXT_FULL);
  const absl::Status gone = EndStatus(absl::NotFoundError("m"));
  EXPECT_EQ(DetailsOf(gone).reason, v1::ERROR_REASON_SESSION_NOT_FOUND);
  EXPECT_FALSE(HasDetails(EndStatus(absl::InternalError("m"))));
  EXPECT_TRUE(EndStatus(absl::OkStatus()).ok());
}

// A sequence that gave way to another tenant's may be asked for again.
TEST(CallErrorsTest, WhatGaveWayMayComeAgain) {
  const absl::Status status = EndStatus(absl::AbortedError("m"));
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_EQ(DetailsOf(status).reason, v1::ERROR_REASON_QUEUE_FULL);
  EXPECT_EQ(DetailsOf(status).retry_after, kQueueRetry);
}

TEST(CallErrorsTest, DetailsThatAreThereStay) {
  const absl::Status status = EndStatus(
      WithDetails(absl::NotFoundError("m"),
                  {v1::ERROR_REASON_MODEL_NOT_FOUND, {}, std::nullopt}));
  EXPECT_EQ(DetailsOf(status).reason, v1::ERROR_REASON_MODEL_NOT_FOUND);
}

}  // namespace
}  // namespace plimsoll::services
