#include "services/tracing/otlp_sender.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace plimsoll::services {
namespace {

TEST(OtlpSenderTest, AnEndpointIsReadAsItIsMeant) {
  const auto plain = ParseOtlpEndpoint("http://localhost:4317");
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->target, "dns:///localhost:4317");
  EXPECT_FALSE(plain->is_tls);
  const auto tls = ParseOtlpEndpoint("https://[::1]:1/");
  ASSERT_TRUE(tls.ok());
  EXPECT_EQ(tls->target, "[::1]:1");
  EXPECT_TRUE(tls->is_tls);
  EXPECT_TRUE(ParseOtlpEndpoint("http://a:65535").ok());
  // It is no Unix socket.
  EXPECT_EQ(ParseOtlpEndpoint("http://unix:1")->target, "dns:///unix:1");
}

TEST(OtlpSenderTest, OtherEndpointsAreRefused) {
  for (const char* text :
       {"", "localhost:4317", "grpc://a:1", "http://", "http://a",
        "http://a:", "http://:1", "http://a:0", "http://a:65536", "http://a:+1",
        "http://a:1/v1/traces", "http://user@a:1", "http://::1:1",
        "http://a b:1", "http://[::1:1", "http://[]:1", "http://a%41:1",
        "unix:/a"}) {
    EXPECT_FALSE(ParseOtlpEndpoint(text).ok()) << text;
  }
}

TEST(OtlpSenderTest, NobodyIsAnError) {
  const auto sender = NewOtlpSender({.target = "127.0.0.1:1"}, "", "test");
  ASSERT_TRUE(sender.ok());
  EXPECT_EQ((*sender)->Send({Span{}}, absl::Minutes(1)).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST(OtlpSenderTest, ASilentCollectorEndsWithThePatience) {
  // The system takes connections for it, and nobody reads.
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(bind(listener, any, size), 0);
  ASSERT_EQ(listen(listener, 1), 0);
  ASSERT_EQ(getsockname(listener, any, &size), 0);
  const std::string target =
      absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
  const auto sender = NewOtlpSender({.target = target}, "", "test");
  ASSERT_TRUE(sender.ok());
  EXPECT_EQ((*sender)->Send({Span{}}, absl::Milliseconds(100)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  close(listener);
}

TEST(OtlpSenderTest, ACancelledSenderSendsNothing) {
  const auto sender = NewOtlpSender({.target = "127.0.0.1:1"}, "", "test");
  ASSERT_TRUE(sender.ok());
  (*sender)->Cancel();
  EXPECT_EQ((*sender)->Send({Span{}}, absl::Minutes(1)).status().code(),
            absl::StatusCode::kCancelled);
}

TEST(OtlpSenderTest, AuthoritiesMustBeThereAndNeedTls) {
  const OtlpEndpoint plain = {.target = "a:1"};
  EXPECT_EQ(NewOtlpSender(plain, "ca.pem", "test").status().code(),
            absl::StatusCode::kInvalidArgument);
  const OtlpEndpoint tls = {.target = "a:1", .is_tls = true};
  EXPECT_EQ(NewOtlpSender(tls, "/no/such/file", "test").status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(NewOtlpSender(tls, "", "test").ok());
}

}  // namespace
}  // namespace plimsoll::services
