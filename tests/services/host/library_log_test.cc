#include "services/host/library_log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <grpc/support/log.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <string>

#include "plimsoll/v1/plan.pb.h"
#include "services/host/log.h"

namespace plimsoll::services {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(LibraryLogTest, ErrorsOfLibrariesAreLines) {
  // Nobody has told gRPC what to pass on.
  gpr_set_log_verbosity(GPR_LOG_SEVERITY_INFO);
  std::array<int, 2> ends;
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK), 0);
  {
    const auto log = LogThread::Start({.format = LogFormat::kJson}, ends[1]);
    ASSERT_TRUE(log.ok()) << log.status();
    v1::PlanRequest request;
    // The field "purpose" with bytes that are no UTF-8.
    EXPECT_FALSE(request.ParseFromString("\x7a\x03\xff\xfe\xfd"));
    gpr_log(GPR_ERROR, "number %d", 7);
    gpr_log(GPR_INFO, "number %d", 8);
  }
  std::string text(4'096, ' ');
  const ssize_t n = read(ends[0], text.data(), text.size());
  ASSERT_GT(n, 0);
  text.resize(static_cast<size_t>(n));
  EXPECT_THAT(text, HasSubstr(R"("error":"number 7")"));
  EXPECT_THAT(text, HasSubstr("PlanRequest.purpose"));
  EXPECT_THAT(text, Not(HasSubstr("number 8")));
  EXPECT_THAT(text, Not(HasSubstr("libprotobuf")));
  for (const int end : ends) close(end);
  gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR);
}

}  // namespace
}  // namespace plimsoll::services
