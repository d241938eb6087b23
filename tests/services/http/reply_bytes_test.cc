#include "services/http/reply_bytes.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "absl/status/status.h"
#include "services/http/http_errors.h"

namespace plimsoll::services {
namespace {

std::string StatusLine(int status) {
  const std::string head = HeadBytes(status, "text/plain", "", true);
  return head.substr(0, head.find("\r\n"));
}

// A status without a phrase of its own would get that of 500.
TEST(HeadBytesTest, EveryStatusOfAnErrorHasItsPhrase) {
  std::map<std::string, int> statuses;  // by phrase
  for (int code = 1; code <= 16; ++code) {
    const int status =
        HttpStatusOf(absl::Status(static_cast<absl::StatusCode>(code), ""));
    const std::string number = std::to_string(status);
    const std::string line = StatusLine(status);
    const std::string before = "HTTP/1.1 " + number + " ";
    ASSERT_EQ(line.substr(0, before.size()), before);
    const std::string phrase = line.substr(before.size());
    EXPECT_EQ(statuses.try_emplace(phrase, status).first->second, status)
        << line;
  }
  EXPECT_EQ(StatusLine(401), "HTTP/1.1 401 Unauthorized");
}

}  // namespace
}  // namespace plimsoll::services
