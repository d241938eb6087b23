#include "services/cli/backends/dev_certificates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace plimsoll::cli {
namespace {

TEST(DevCertificatesTest, AreNewEachTime) {
  const auto ca = NewDevCa();
  ASSERT_TRUE(ca.ok()) << ca.status();
  const auto one = NewDevServer(*ca, {"localhost", "127.0.0.1", "::1"});
  const auto two = NewDevServer(*ca, {"localhost", "127.0.0.1", "::1"});
  ASSERT_TRUE(one.ok() && two.ok()) << one.status() << two.status();
  EXPECT_NE(one->certificate, two->certificate);
  EXPECT_NE(one->key, two->key);
  EXPECT_THAT(one->certificate,
              ::testing::StartsWith("-----BEGIN CERTIFICATE-----"));
  EXPECT_THAT(one->key, ::testing::StartsWith("-----BEGIN PRIVATE KEY-----"));
}

TEST(DevCertificatesTest, RefuseAHostThatSaysMore) {
  const CertificatePair ca = *NewDevCa();
  for (const char* host : {"", "a,DNS:b", "a b", "*.example.org", "a\n"}) {
    EXPECT_EQ(NewDevServer(ca, {host}).status().code(),
              absl::StatusCode::kInvalidArgument)
        << host;
  }
}

TEST(DevCertificatesTest, OnlyACaSigns) {
  const CertificatePair ca = *NewDevCa();
  const CertificatePair client = *NewDevClient(ca, "client");
  EXPECT_FALSE(NewDevClient(client, "next").ok());
  EXPECT_FALSE(NewDevClient({ca.certificate, client.key}, "next").ok());
  EXPECT_FALSE(NewDevClient({"", ""}, "next").ok());
}

}  // namespace
}  // namespace plimsoll::cli
