#include "services/server/tls_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "services/cli/backends/dev_certificates.h"
#include "tests/services/temporary_folder.h"

namespace plimsoll::services {
namespace {

using ::testing::HasSubstr;

class TlsFilesTest : public ::testing::Test {
 protected:
  TlsFilesTest() {
    const cli::CertificatePair ca = *cli::NewDevCa();
    Write("ca.pem", ca.certificate);
    const cli::CertificatePair one = *cli::NewDevServer(ca, {"localhost"});
    Write("one.pem", one.certificate);
    Write("one-key.pem", one.key);
    Write("other-key.pem", cli::NewDevServer(ca, {"localhost"})->key);
    Write("nonsense", "nonsense");
    Write("token", "secret\n");
  }

  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_.File(name)) << text;
  }
  std::string File(const std::string& name) const {
    return name.empty() ? "" : folder_.File(name);
  }
  // The check of the files of these names.
  absl::Status Server(const ServerTls& names) const {
    return CheckServerTls(
        {File(names.cert), File(names.key), File(names.client_ca)});
  }
  static std::string Refusal(const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  }

  const testing::TemporaryFolder folder_;
};

TEST_F(TlsFilesTest, APairIsGood) {
  EXPECT_TRUE(Server({}).ok());
  EXPECT_TRUE(Server({.cert = "one.pem", .key = "one-key.pem"}).ok());
  EXPECT_TRUE(
      Server({.cert = "one.pem", .key = "one-key.pem", .client_ca = "ca.pem"})
          .ok());
}

TEST_F(TlsFilesTest, SaysWhatAServerLacks) {
  EXPECT_THAT(Refusal(Server({.cert = "one.pem"})), HasSubstr("--tls-key"));
  EXPECT_THAT(Refusal(Server({.key = "one-key.pem"})), HasSubstr("--tls-cert"));
  EXPECT_THAT(Refusal(Server({.client_ca = "ca.pem"})),
              HasSubstr("--tls-cert"));
  EXPECT_THAT(Refusal(Server({.cert = "one.pem", .key = "other-key.pem"})),
              HasSubstr("is not the key of"));
  EXPECT_THAT(Refusal(Server({.cert = "nonsense", .key = "one-key.pem"})),
              HasSubstr("no certificate"));
  EXPECT_THAT(Refusal(Server({.cert = "one.pem", .key = "nonsense"})),
              HasSubstr("no private key"));
  EXPECT_THAT(
      Refusal(Server(
          {.cert = "one.pem", .key = "one-key.pem", .client_ca = "nonsense"})),
      HasSubstr("no certificate"));
  EXPECT_THAT(Refusal(Server({.cert = "absent", .key = "one-key.pem"})),
              HasSubstr("absent"));
}

TEST_F(TlsFilesTest, SaysWhatAClientLacks) {
  const std::string address = "example.org:1";
  const auto check = [&](const ClientSecurity& security) {
    return CheckClientSecurity(security, address);
  };
  EXPECT_TRUE(check({}).ok());
  EXPECT_TRUE(check({.ca = ClientSecurity::kSystem}).ok());
  EXPECT_TRUE(check({.ca = File("ca.pem"),
                     .cert = File("one.pem"),
                     .key = File("one-key.pem")})
                  .ok());
  EXPECT_THAT(Refusal(check({.ca = File("nonsense")})),
              HasSubstr("no certificate"));
  EXPECT_THAT(Refusal(check({.ca = File("ca.pem"), .cert = File("one.pem")})),
              HasSubstr("--tls-client-key"));
  EXPECT_THAT(
      Refusal(check({.cert = File("one.pem"), .key = File("one-key.pem")})),
      HasSubstr("--tls-ca"));
}

TEST_F(TlsFilesTest, ATokenIsNotSentWithoutTlsBeyondLoopback) {
  for (const char* address : {"127.0.0.1:1", "localhost:1", "[::1]:1"}) {
    EXPECT_TRUE(CheckClientSecurity({.token = "x"}, address).ok()) << address;
  }
  for (const char* address :
       {"10.0.0.1:1", "example.org:1", "dns:///localhost.example.org:1"}) {
    EXPECT_THAT(Refusal(CheckClientSecurity({.token = "x"}, address)),
                HasSubstr("without TLS"))
        << address;
    EXPECT_TRUE(
        CheckClientSecurity({.ca = File("ca.pem"), .token = "x"}, address)
            .ok());
  }
  EXPECT_TRUE(
      CheckClientSecurity({.token_file = File("token")}, "localhost:1").ok());
  EXPECT_THAT(Refusal(CheckClientSecurity({.token_file = File("absent")},
                                          "localhost:1")),
              HasSubstr("absent"));
}

}  // namespace
}  // namespace plimsoll::services
