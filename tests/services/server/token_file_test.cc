#include "services/server/token_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "services/server/small_file.h"
#include "tests/services/temporary_folder.h"

namespace plimsoll::services {
namespace {

class TokenFileTest : public ::testing::Test {
 protected:
  void Write(const std::string& text) const {
    // The file is replaced by a new one, so that its inode differs.
    std::ofstream(path_ + ".new") << text;
    ASSERT_EQ(std::rename((path_ + ".new").c_str(), path_.c_str()), 0);
  }
  void Write(const std::vector<TokenEntry>& tokens) const {
    Write(FormatTokenList(tokens));
  }
  std::shared_ptr<TokenFile> Open() {
    auto file = TokenFile::Open(path_, [this] { return now_; });
    EXPECT_TRUE(file.ok()) << file.status();
    return *file;
  }

  testing::TemporaryFolder folder_;
  const std::string path_ = folder_.File("tokens.json");
  absl::Time now_ = absl::FromUnixSeconds(1'800'000'000);
};

TEST_F(TokenFileTest, SaysWhoseTokenItIs) {
  Write({{"ada", HashToken("secret"), "t", Role::kUser}});
  const auto identity = Open()->Find("Bearer secret");
  ASSERT_TRUE(identity.has_value());
  EXPECT_EQ(identity->name, "ada");
  EXPECT_EQ(identity->tenant, "t");
  EXPECT_EQ(identity->role, Role::kUser);
}

TEST_F(TokenFileTest, OnlyAWorkersTokenOwnsLeases) {
  Write({{"gpu1", HashToken("one"), "", Role::kWorker},
         {"ada", HashToken("two"), "t", Role::kUser},
         {"ops", HashToken("three"), "", Role::kAdmin}});
  const auto file = Open();
  EXPECT_EQ(file->Find("Bearer one")->lease_owner, "token:gpu1");
  EXPECT_EQ(file->Find("Bearer two")->lease_owner, "");
  EXPECT_EQ(file->Find("Bearer three")->lease_owner, "");
}

TEST_F(TokenFileTest, TheSchemeIsBearerInAnyCase) {
  Write({{"ada", HashToken("secret"), "t", Role::kUser}});
  const auto file = Open();
  EXPECT_TRUE(file->Find("bearer secret").has_value());
  EXPECT_TRUE(file->Find("BEARER  secret ").has_value());
  for (const char* bad : {"", "secret", "Bearer", "Bearer ", "Bearersecret",
                          "Basic secret", "Bearer secre", "Bearer se cret"}) {
    EXPECT_FALSE(file->Find(bad).has_value()) << bad;
  }
}

TEST_F(TokenFileTest, ATokenIsValidUntilItExpires) {
  Write({{"ada", HashToken("secret"), "t", Role::kUser,
          now_ + absl::Seconds(60)}});
  const auto file = Open();
  now_ += absl::Seconds(59);
  EXPECT_TRUE(file->Find("Bearer secret").has_value());
  now_ += absl::Seconds(1);
  EXPECT_FALSE(file->Find("Bearer secret").has_value());
}

TEST_F(TokenFileTest, ReadsAChangedFileAgain) {
  Write({{"ada", HashToken("one"), "t", Role::kUser}});
  const auto file = Open();
  Write({{"bob", HashToken("two"), "t", Role::kUser}});
  EXPECT_TRUE(file->Find("Bearer one").has_value());
  now_ += PollTimer::kInterval;
  EXPECT_FALSE(file->Find("Bearer one").has_value());
  EXPECT_TRUE(file->Find("Bearer two").has_value());
}

TEST_F(TokenFileTest, AClockThatIsSetBackDoesNotStopIt) {
  Write({{"ada", HashToken("one"), "t", Role::kUser}});
  const auto file = Open();
  now_ -= absl::Hours(24);
  Write({{"bob", HashToken("two"), "t", Role::kUser}});
  EXPECT_FALSE(file->Find("Bearer one").has_value());
}

TEST_F(TokenFileTest, ABadFileLeavesTheTokensAsTheyWere) {
  Write({{"ada", HashToken("one"), "t", Role::kUser}});
  const auto file = Open();
  Write("{\"tokens\": [");
  now_ += PollTimer::kInterval;
  EXPECT_TRUE(file->Find("Bearer one").has_value());
  std::remove(path_.c_str());
  now_ += PollTimer::kInterval;
  EXPECT_TRUE(file->Find("Bearer one").has_value());
  Write(FormatTokenList({}));
  now_ += PollTimer::kInterval;
  EXPECT_FALSE(file->Find("Bearer one").has_value());
}

TEST_F(TokenFileTest, OpensNothingThatIsBad) {
  const auto clock = [this] { return now_; };
  EXPECT_EQ(TokenFile::Open(path_, clock).status().code(),
            absl::StatusCode::kInvalidArgument);
  Write("nonsense");
  const absl::Status status = TokenFile::Open(path_, clock).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(path_));
}

TEST_F(TokenFileTest, OnlyAnAdministratorWithoutTenantMayChooseOne) {
  EXPECT_EQ(TenantOf({"a", "t", Role::kUser}, "other"), "t");
  EXPECT_EQ(TenantOf({"a", "", Role::kViewer}, "other"), "");
  EXPECT_EQ(TenantOf({"a", "t", Role::kAdmin}, "other"), "t");
  EXPECT_EQ(TenantOf({"a", "", Role::kAdmin}, "other"), "other");
}

TEST_F(TokenFileTest, SmallFilesHaveALimit) {
  Write(std::string(10, 'x'));
  EXPECT_EQ(ReadSmallFile(path_, 10)->size(), 10u);
  EXPECT_FALSE(ReadSmallFile(path_, 9).ok());
  EXPECT_FALSE(ReadSmallFile(folder_.File("none"), 9).ok());
}

}  // namespace
}  // namespace plimsoll::services
