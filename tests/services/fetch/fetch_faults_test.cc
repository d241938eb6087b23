// Downloads by the real transport while named points fail (base/sync/fault.h).
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/sync/fault.h"
#include "services/fetch/digest.h"
#include "services/fetch/download.h"
#include "tests/services/http/echo_server.h"
#include "tests/services/storm.h"
#include "tests/services/temporary_folder.h"

namespace plimsoll::fetch {
namespace {

class FetchFaultsTest : public services::StormTest {
 protected:
  // Fetches the server's file, as a run of the command does.
  absl::Status Fetch() {
    auto transport = Transport::Create({});
    if (!transport.ok()) return transport.status();
    FetchSession session(*std::move(transport), /*allows_plain_http=*/true);
    RemoteFile file = {.name = "m.gguf",
                       .url = *ParseUrl(absl::StrCat(
                           "http://", server_.server->address(), "/m.gguf")),
                       .sha256 = TextDigest(whole_)};
    const auto go_on = [] { return absl::OkStatus(); };
    auto part =
        PartialFile::Open(std::filesystem::path(folder_.File("")).parent_path(),
                          file.name, go_on);
    if (!part.ok()) return part.status();
    const FetchHooks hooks = {
        .check = go_on,
        .progress = [](const std::string&, int64_t, int64_t, int64_t) {},
        .note = [](const std::string&) {},
        .first_pause = absl::ZeroDuration()};
    absl::Status status = Download(session, file, **part, hooks);
    return status.ok() ? CheckDigest(file, **part, hooks) : status;
  }
  // The status of a download in which one pass of `point` fails.
  absl::Status FailAt(const char* point, int64_t pass) {
    const ScopedFaults faults({.rules = {{.point = point, .pass = pass}}});
    absl::Status status = Fetch();
    EXPECT_EQ(faults.CountOf(point).fired, 1) << point;
    return status;
  }

  const std::string whole_ = "GGUF" + std::string(100'000, 'x');
  services::testing::TemporaryFolder folder_;
  services::EchoServer server_{
      {.handler = [this](services::HttpRequest,
                         std::shared_ptr<services::HttpReply> reply) {
        reply->Send({.body = whole_});
      }}};
};

TEST_F(FetchFaultsTest, ATransferThatBreaksIsTakenUpAgain) {
  const absl::Status status = FailAt("fetch.read", 2);
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(FetchFaultsTest, AServerThatIsNotReachedIsAnErrorAndTheNextRunWorks) {
  EXPECT_EQ(FailAt("fetch.connect", 1).code(), absl::StatusCode::kUnavailable);
  const absl::Status status = Fetch();
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(FetchFaultsTest, AFullDiskIsAnErrorAndTheNextRunWorks) {
  EXPECT_EQ(FailAt("fetch.write", 2).code(),
            absl::StatusCode::kResourceExhausted);
  const absl::Status status = Fetch();
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace plimsoll::fetch
