#include "services/wire/errors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace plimsoll::services {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

TEST(ErrorsTest, DetailsSurviveTheWayOverTheWire) {
  const absl::Status sent = WithDetails(
      absl::ResourceExhaustedError("too much"),
      {v1::ERROR_REASON_QUEUE_FULL, {{"queued", "64"}}, absl::Seconds(3)});
  const absl::Status received = FromGrpc(ToGrpc(sent, "request-1"));
  const ErrorDetails details = DetailsOf(received);
  EXPECT_EQ(received.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(received.message(), "too much");
  EXPECT_EQ(details.reason, v1::ERROR_REASON_QUEUE_FULL);
  EXPECT_THAT(details.metadata, Contains(Pair("queued", "64")));
  EXPECT_THAT(details.metadata, Contains(Pair("request_id", "request-1")));
  EXPECT_EQ(details.retry_after, absl::Seconds(3));
}

TEST(ErrorsTest, EveryErrorHasAReasonInOurDomain) {
  const grpc::Status sent = ToGrpc(absl::InvalidArgumentError("n_ctx"), "");
  google::rpc::Status wire;
  ASSERT_TRUE(wire.ParseFromString(sent.error_details()));
  ASSERT_EQ(wire.details_size(), 1);
  google::rpc::ErrorInfo info;
  ASSERT_TRUE(wire.details(0).UnpackTo(&info));
  EXPECT_EQ(info.reason(), "INVALID_FIELD");
  EXPECT_EQ(info.domain(), "plimsoll.dev");
}

TEST(ErrorsTest, OkStaysOk) {
  EXPECT_TRUE(ToGrpc(absl::OkStatus(), "id").ok());
  EXPECT_TRUE(FromGrpc(grpc::Status::OK).ok());
  EXPECT_TRUE(
      WithDetails(absl::OkStatus(), {v1::ERROR_REASON_QUEUE_FULL, {}, {}})
          .ok());
}

TEST(ErrorsTest, ForeignDetailsAreNoError) {
  const absl::Status received = FromGrpc(
      grpc::Status(grpc::StatusCode::INTERNAL, "broken", "not a message"));
  EXPECT_EQ(received.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(DetailsOf(received).reason, v1::ERROR_REASON_INTERNAL);
}

TEST(ErrorsTest, PathsAndAddressesStayHere) {
  for (const char* secret :
       {"/etc/models/a.gguf: no such file", "cannot open \"/srv/m.gguf\"",
        "file=/srv/m.gguf,", "~/m.gguf", "../m.gguf", "at 0x7ffe1234abcd"}) {
    const std::string shown = WithoutSecrets(secret);
    EXPECT_THAT(shown, Not(HasSubstr("gguf"))) << secret;
    EXPECT_THAT(shown, Not(HasSubstr("7ffe"))) << secret;
  }
  EXPECT_EQ(WithoutSecrets("/a/b: no such file"), "<path>: no such file");
}

TEST(ErrorsTest, OrdinaryTextIsLeftAlone) {
  const std::string text =
      "needs 5 bytes/token, 3/4 of \"blk.0.attn_q.weight\"; 0x is short";
  EXPECT_EQ(WithoutSecrets(text), text);
}

}  // namespace
}  // namespace plimsoll::services
