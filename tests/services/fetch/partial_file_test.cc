#include "services/fetch/partial_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "tests/read_file.h"
#include "tests/services/temporary_folder.h"

namespace plimsoll::fetch {
namespace {

namespace fs = std::filesystem;
using ::plimsoll::testing::ReadFile;
using services::testing::TemporaryFolder;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

absl::Status Fine() { return absl::OkStatus(); }
absl::Status NotNow() { return absl::CancelledError("waits"); }

class PartialFileTest : public ::testing::Test {
 protected:
  std::unique_ptr<PartialFile> Open() {
    auto part = PartialFile::Open(fs::path(folder_.File("")).parent_path(),
                                  "m.gguf", Fine);
    EXPECT_TRUE(part.ok()) << part.status();
    return part.ok() ? *std::move(part) : nullptr;
  }

  TemporaryFolder folder_;
};

TEST_F(PartialFileTest, AWholeFileGetsItsName) {
  {
    const auto part = Open();
    ASSERT_TRUE(part->Reserve(1'000).ok());
    ASSERT_TRUE(part->Append("abc").ok());
    EXPECT_FALSE(fs::exists(folder_.File("m.gguf")));
    ASSERT_TRUE(part->Commit(false).ok());
  }
  EXPECT_EQ(ReadFile(folder_.File("m.gguf")), "abc");
  EXPECT_THAT(folder_.Names("part"), IsEmpty());
}

TEST_F(PartialFileTest, ALaterRunHasTheBytesAndTheirOrigin) {
  const PartialOrigin origin = {"https://a.example/m", "\"v1\"",
                                std::string(64, 'a'), 6};
  {
    const auto part = Open();
    ASSERT_TRUE(part->SetOrigin(origin).ok());
    ASSERT_TRUE(part->Append("abc").ok());
  }
  const auto part = Open();
  EXPECT_EQ(part->size(), 3);
  EXPECT_EQ(part->origin(), origin);
  ASSERT_TRUE(part->Append("def").ok());
  // This is the digest of "abcdef".
  EXPECT_EQ(*part->Digest(Fine),
            "bef57ec7f53a6d40beb640a780a639c83bc29ac8a9816f1fc6c5c6dcd93c4721");
}

TEST_F(PartialFileTest, DigestsForgetWhatARestartForgot) {
  const auto part = Open();
  ASSERT_TRUE(part->Append("xyz").ok());
  ASSERT_TRUE(part->Restart().ok());
  ASSERT_TRUE(part->Append("abcdef").ok());
  EXPECT_EQ(*part->Digest(Fine),
            "bef57ec7f53a6d40beb640a780a639c83bc29ac8a9816f1fc6c5c6dcd93c4721");
}

TEST_F(PartialFileTest, AnOriginThatIsNoneIsNotBelieved) {
  { ASSERT_TRUE(Open()->Append("abc").ok()); }
  for (const char* text :
       {"", "[", "7", "{\"etag\": 7, \"sha256\": \"x\", \"bytes\": \"y\"}",
        "{\"etag\": \"a\\r\\nHost: b\"}"}) {
    std::ofstream(folder_.File(".m.gguf.part.json")) << text;
    EXPECT_EQ(Open()->origin(), PartialOrigin()) << text;
  }
}

TEST_F(PartialFileTest, AnEmptyPartIsRemovedAndADiscardedOne) {
  { Open(); }
  EXPECT_THAT(folder_.Names("part"), IsEmpty());
  {
    const auto part = Open();
    ASSERT_TRUE(part->SetOrigin({"", "\"v1\"", "", 1}).ok());
    ASSERT_TRUE(part->Append("abc").ok());
    part->Discard();
  }
  EXPECT_THAT(folder_.Names("part"), IsEmpty());
}

TEST_F(PartialFileTest, ASecondProcessWaitsForTheLock) {
  const auto part = Open();
  const std::string folder = fs::path(folder_.File("")).parent_path();
  const auto other = PartialFile::Open(folder, "m.gguf", NotNow);
  EXPECT_EQ(other.status(), NotNow());
}

TEST_F(PartialFileTest, WhoWaitedForAFinishedFileGetsANewPart) {
  auto part = Open();
  ASSERT_TRUE(part->Append("abc").ok());
  const std::string folder = fs::path(folder_.File("")).parent_path();
  int n_waits = 0;
  const auto other = PartialFile::Open(folder, "m.gguf", [&] {
    if (++n_waits == 1) {
      EXPECT_TRUE(part->Commit(false).ok());
      part.reset();
    }
    return absl::OkStatus();
  });
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(n_waits, 1);
  EXPECT_EQ((*other)->size(), 0);
  EXPECT_EQ(ReadFile(folder_.File("m.gguf")), "abc");
}

TEST_F(PartialFileTest, ATakenNameIsKeptUnlessOverwritten) {
  std::ofstream(folder_.File("m.gguf")) << "old";
  const auto part = Open();
  ASSERT_TRUE(part->Append("new").ok());
  EXPECT_TRUE(absl::IsAlreadyExists(part->Commit(false)));
  EXPECT_EQ(ReadFile(folder_.File("m.gguf")), "old");
  ASSERT_TRUE(part->Commit(true).ok());
  EXPECT_EQ(ReadFile(folder_.File("m.gguf")), "new");
}

TEST_F(PartialFileTest, LinksAreNotFollowed) {
  std::ofstream(folder_.File("victim")) << "safe";
  ASSERT_EQ(symlink(folder_.File("victim").c_str(),
                    folder_.File(".m.gguf.part").c_str()),
            0);
  const std::string folder = fs::path(folder_.File("")).parent_path();
  EXPECT_TRUE(absl::IsFailedPrecondition(
      PartialFile::Open(folder, "m.gguf", Fine).status()));
  fs::remove(folder_.File(".m.gguf.part"));
  ASSERT_EQ(symlink(folder_.File("victim").c_str(),
                    folder_.File(".m.gguf.part.json").c_str()),
            0);
  ASSERT_EQ(
      symlink(folder_.File("victim").c_str(), folder_.File("m.gguf").c_str()),
      0);
  const auto part = Open();
  ASSERT_TRUE(part->SetOrigin({"", "\"v1\"", "", 3}).ok());
  ASSERT_TRUE(part->Append("new").ok());
  ASSERT_TRUE(part->Commit(true).ok());
  EXPECT_EQ(ReadFile(folder_.File("victim")), "safe");
  EXPECT_FALSE(fs::is_symlink(folder_.File("m.gguf")));
}

TEST_F(PartialFileTest, MoreThanTheDiskHasIsNoRoom) {
  const absl::Status status = Open()->Reserve(int64_t{1} << 60);
  if (status.ok()) GTEST_SKIP() << "the file system reserves nothing";
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("no room"));
}

}  // namespace
}  // namespace plimsoll::fetch
