// `plimsoll cert`: files that servers and clients take.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <string>

#include "services/cli/terminal/failure.h"
#include "services/server/tls_files.h"
#include "tests/read_file.h"
#include "tests/services/cli/run_cli.h"
#include "tests/services/temporary_folder.h"

namespace plimsoll::cli {
namespace {

using ::plimsoll::testing::ReadFile;

class CertTest : public ::testing::Test {
 protected:
  std::string File(const std::string& name) const {
    return folder_.File("tls/" + name);
  }

  const services::testing::TemporaryFolder folder_;
  const std::string tls_ = folder_.File("tls");
};

TEST_F(CertTest, MakesPairsThatServersAndClientsTake) {
  const CliResult made = RunCli({"cert", "dev", tls_});
  ASSERT_EQ(made.code, kExitOk) << made.err;
  EXPECT_THAT(made.out, ::testing::HasSubstr("--tls-cert"));
  EXPECT_TRUE(services::CheckServerTls(
                  {File("server.pem"), File("server-key.pem"), File("ca.pem")})
                  .ok());
  EXPECT_TRUE(services::CheckClientSecurity({.ca = File("ca.pem"),
                                             .cert = File("client.pem"),
                                             .key = File("client-key.pem")},
                                            "localhost:1")
                  .ok());
  for (const char* key : {"ca-key.pem", "server-key.pem", "client-key.pem"}) {
    struct stat now = {};
    ASSERT_EQ(stat(File(key).c_str(), &now), 0) << key;
    EXPECT_EQ(now.st_mode & 0777, 0600u) << key;
  }
}

TEST_F(CertTest, KeepsTheCaAndRenewsTheRest) {
  ASSERT_EQ(RunCli({"cert", "dev", tls_}).code, kExitOk);
  const std::string ca = ReadFile(File("ca.pem"));
  const std::string server = ReadFile(File("server.pem"));
  ASSERT_EQ(RunCli({"cert", "dev", tls_, "--host", "example.org"}).code,
            kExitOk);
  EXPECT_EQ(ReadFile(File("ca.pem")), ca);
  EXPECT_NE(ReadFile(File("server.pem")), server);
}

TEST_F(CertTest, MistakesLeaveTheServersPairAlone) {
  ASSERT_EQ(RunCli({"cert", "dev", tls_}).code, kExitOk);
  const std::string server = ReadFile(File("server.pem"));
  EXPECT_NE(RunCli({"cert", "dev", tls_, "--host", "a,DNS:b"}).code, kExitOk);
  std::ofstream(File("ca-key.pem")) << ReadFile(File("client-key.pem"));
  EXPECT_NE(RunCli({"cert", "dev", tls_}).code, kExitOk);
  EXPECT_EQ(ReadFile(File("server.pem")), server);
  EXPECT_EQ(RunCli({"cert"}).code, kExitUsage);
  EXPECT_EQ(RunCli({"cert", "dev"}).code, kExitUsage);
}

}  // namespace
}  // namespace plimsoll::cli
