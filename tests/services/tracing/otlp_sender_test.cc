#include "services/tracing/otlp_sender.h"

#include <gtest/gtest.h>

#include <string>

namespace plimsoll::services {
namespace {

TEST(OtlpSenderTest, AnEndpointIsReadAsItIsMeant) {
  const auto plain = ParseOtlpEndpoint("http://localhost:4317");
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->target, "localhost:4317");
  EXPECT_FALSE(plain->is_tls);
  const auto tls = ParseOtlpEndpoint("https://[::1]:1/");
  ASSERT_TRUE(tls.ok());
  EXPECT_EQ(tls->target, "[::1]:1");
  EXPECT_TRUE(tls->is_tls);
  EXPECT_TRUE(ParseOtlpEndpoint("http://a:65535").ok());
}

TEST(OtlpSenderTest, OtherEndpointsAreRefused) {
  for (const char* text :
       {"", "localhost:4317", "grpc://a:1", "http://", "http://a",
        "http://a:", "http://:1", "http://a:0", "http://a:65536", "http://a:+1",
        "http://a:1/v1/traces", "http://user@a:1", "http://::1:1",
        "http://a b:1", "unix:/a"}) {
    EXPECT_FALSE(ParseOtlpEndpoint(text).ok()) << text;
  }
}

TEST(OtlpSenderTest, NobodyIsAnError) {
  const auto sender = NewOtlpSender({.target = "127.0.0.1:1"}, "test");
  EXPECT_FALSE(sender->Send({Span{}}, absl::Seconds(5)).ok());
}

TEST(OtlpSenderTest, ACancelledSenderSendsNothing) {
  const auto sender = NewOtlpSender({.target = "127.0.0.1:1"}, "test");
  sender->Cancel();
  EXPECT_EQ(sender->Send({Span{}}, absl::InfiniteDuration()).status().code(),
            absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace plimsoll::services
