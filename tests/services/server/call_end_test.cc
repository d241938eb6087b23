// What the log says of a call that has ended.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "services/host/log.h"
#include "services/server/call.h"
#include "services/wire/errors.h"
#include "tests/read_file.h"
#include "tests/services/temporary_folder.h"

namespace plimsoll::services {
namespace {

using ::plimsoll::testing::ReadFile;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// What is logged of a call that ends with `status`.
std::string LogOf(const absl::Status& status) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.File("log");
  const int fd = open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  EXPECT_GE(fd, 0);
  {
    const auto log = LogThread::Start({}, fd);
    EXPECT_TRUE(log.ok()) << log.status();
    EXPECT_EQ(EndOfCall(status, "id-7").error_code(),
              static_cast<grpc::StatusCode>(status.code()));
  }
  close(fd);
  return ReadFile(path);
}

TEST(CallEndTest, ARefusalHasTheIdAndTheReasonButNotTheText) {
  const absl::Status full =
      WithDetails(absl::ResourceExhaustedError("64 requests wait already"),
                  {v1::ERROR_REASON_QUEUE_FULL, {}, absl::Seconds(1)});
  EXPECT_THAT(LogOf(full),
              AllOf(HasSubstr("WARNING a request was refused"),
                    HasSubstr("request_id=id-7"),
                    HasSubstr("status=RESOURCE_EXHAUSTED"),
                    HasSubstr("QUEUE_FULL"), Not(HasSubstr("64 requests"))));
  for (const absl::Status& status :
       {absl::UnavailableError("draining"), absl::PermissionDeniedError("no"),
        absl::UnauthenticatedError("who")}) {
    EXPECT_THAT(LogOf(status), HasSubstr("request_id=id-7")) << status;
  }
}

TEST(CallEndTest, AFailureHasTheIdAndWhatFailed) {
  for (const absl::Status& status :
       {absl::InternalError("non-finite logits"),
        absl::DataLossError("the file was cut"), absl::UnknownError("what")}) {
    EXPECT_THAT(LogOf(status), AllOf(HasSubstr("ERROR a request has failed"),
                                     HasSubstr("request_id=id-7"),
                                     HasSubstr(std::string(status.message()))));
  }
}

TEST(CallEndTest, WhatIsNoFaultOfTheServerHasNoLine) {
  for (const absl::Status& status :
       {absl::OkStatus(), absl::InvalidArgumentError("secret"),
        absl::NotFoundError("secret"), absl::OutOfRangeError("secret"),
        absl::CancelledError("secret"),
        absl::DeadlineExceededError("secret")}) {
    EXPECT_THAT(LogOf(status), IsEmpty()) << status;
  }
}

}  // namespace
}  // namespace plimsoll::services
