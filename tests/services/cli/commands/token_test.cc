// `plimsoll token`: what it prints, and what its file has then.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/time/clock.h"
#include "services/cli/terminal/failure.h"
#include "services/server/access/token_list.h"
#include "tests/read_file.h"
#include "tests/services/cli/run_cli.h"
#include "tests/services/temporary_folder.h"

namespace plimsoll::cli {
namespace {

using ::plimsoll::testing::ReadFile;
using services::TokenEntry;
using ::testing::HasSubstr;

class TokenTest : public ::testing::Test {
 protected:
  CliResult Run(std::vector<std::string> args) const {
    args.insert(args.begin(), "token");
    args.insert(args.end(), {"--tokens", file_});
    return RunCli(args);
  }
  std::string Text() const { return ReadFile(file_); }
  std::vector<TokenEntry> Tokens() const {
    auto tokens = services::ParseTokenList(Text());
    EXPECT_TRUE(tokens.ok()) << tokens.status();
    return *std::move(tokens);
  }

  const services::testing::TemporaryFolder folder_;
  const std::string file_ = folder_.File("tokens.json");
};

TEST_F(TokenTest, ANewOneIsPrintedAndItsHashKept) {
  const CliResult made =
      Run({"new", "--name", "ada", "--tenant", "t", "--role", "user"});
  ASSERT_EQ(made.code, kExitOk) << made.err;
  const std::string token(absl::StripAsciiWhitespace(made.out));
  EXPECT_THAT(Text(), ::testing::Not(HasSubstr(token)));
  const std::vector<TokenEntry> tokens = Tokens();
  ASSERT_EQ(tokens.size(), 1u);
  EXPECT_EQ(tokens[0].hash, services::HashToken(token));
  EXPECT_EQ(tokens[0].name, "ada");
  EXPECT_EQ(tokens[0].tenant, "t");
  EXPECT_EQ(tokens[0].expires, absl::InfiniteFuture());
  struct stat now = {};
  ASSERT_EQ(stat(file_.c_str(), &now), 0);
  EXPECT_EQ(now.st_mode & 0777, 0600u);
}

TEST_F(TokenTest, OneMayExpire) {
  ASSERT_EQ(
      Run({"new", "--name", "w", "--role", "worker", "--expires", "90d"}).code,
      kExitOk);
  const absl::Duration life = Tokens().at(0).expires - absl::Now();
  EXPECT_GT(life, absl::Hours(24 * 90 - 1));
  EXPECT_LE(life, absl::Hours(24 * 90));
}

TEST_F(TokenTest, OneIsRevokedAndTheOthersStay) {
  for (const char* name : {"one", "two"}) {
    ASSERT_EQ(Run({"new", "--name", name, "--role", "admin"}).code, kExitOk);
  }
  ASSERT_EQ(Run({"revoke", "one"}).code, kExitOk);
  EXPECT_EQ(Tokens().at(0).name, "two");
  const CliResult again = Run({"revoke", "one"});
  EXPECT_EQ(again.code, kExitError);
  EXPECT_THAT(again.err, HasSubstr("no token of this name"));
}

TEST_F(TokenTest, TheListHasNoHashes) {
  ASSERT_EQ(
      Run({"new", "--name", "ada", "--tenant", "t", "--role", "user"}).code,
      kExitOk);
  const CliResult list = Run({"list"});
  EXPECT_EQ(list.code, kExitOk);
  EXPECT_THAT(list.out, HasSubstr("ada"));
  EXPECT_THAT(list.out, HasSubstr("never"));
  EXPECT_THAT(list.out, ::testing::Not(HasSubstr("sha256")));
  EXPECT_EQ(list.out.find("plimsoll_"), std::string::npos);
}

TEST_F(TokenTest, MistakesAreUsageErrors) {
  ASSERT_EQ(Run({"new", "--name", "ada", "--role", "admin"}).code, kExitOk);
  const std::string before = Text();
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"new", "--name", "ada", "--role", "admin"},
        {"new", "--name", "x", "--role", "root"},
        {"new", "--name", "x", "--role", "user"},
        {"new", "--name", "a b", "--role", "admin"},
        {"new", "--role", "admin"},
        {"new", "--name", "x"},
        {"new", "--name", "x", "--role", "admin", "--expires", "0d"},
        {"new", "--name", "x", "--role", "admin", "--expires", "d"},
        {"new", "--name", "x", "--role", "admin", "--expires", "90"},
        {"new", "--name", "x", "--role", "admin", "--expires", "36501d"},
        {"revoke"},
        {}}) {
    EXPECT_EQ(Run(args).code, kExitUsage) << ::testing::PrintToString(args);
  }
  EXPECT_EQ(Text(), before);
}

TEST_F(TokenTest, ABadFileStaysAsItIs) {
  std::ofstream(file_) << "nonsense";
  EXPECT_NE(Run({"new", "--name", "x", "--role", "admin"}).code, kExitOk);
  EXPECT_EQ(Text(), "nonsense");
}

}  // namespace
}  // namespace plimsoll::cli
