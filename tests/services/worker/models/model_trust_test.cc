#include "services/worker/models/model_trust.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "services/fetch/digest.h"
#include "tests/services/temporary_folder.h"
#include "tests/services/worker/worker_fixture.h"

namespace plimsoll::services {
namespace {

using ::plimsoll::testing::FindRandomModel;
using ::plimsoll::testing::RandomModelBytes;
using ::plimsoll::testing::TemporaryFile;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

absl::Status GoOn(const worker::LoadProgress&) { return absl::OkStatus(); }

class CheckDigestTest : public ::testing::Test {
 protected:
  CheckDigestTest()
      : bytes_(RandomModelBytes(FindRandomModel("llama_f32"))),
        on_disk_(bytes_) {
    file_ = *worker::ModelFile::Open(on_disk_.path());
    flag_ = {"a", on_disk_.path(),
             fetch::TextDigest({reinterpret_cast<const char*>(bytes_.data()),
                                bytes_.size()})};
  }

  const std::vector<std::byte> bytes_;
  const TemporaryFile on_disk_;
  std::unique_ptr<worker::ModelFile> file_;
  ModelFlag flag_;
};

TEST_F(CheckDigestTest, TheFilesOwnDigestIsTakenAfterAllItsBytesWereRead) {
  int64_t done = -1;
  const auto on_progress = [&](const worker::LoadProgress& at) {
    EXPECT_EQ(at.phase, "verify");
    EXPECT_EQ(at.bytes_total, static_cast<int64_t>(bytes_.size()));
    EXPECT_GT(at.bytes_done, done);
    done = at.bytes_done;
    return absl::OkStatus();
  };
  EXPECT_TRUE(CheckDigest(*file_, flag_, on_progress).ok());
  EXPECT_EQ(done, (static_cast<int64_t>(bytes_.size()) - 1) /
                      worker::ModelFile::kReadBytes *
                      worker::ModelFile::kReadBytes);
}

TEST_F(CheckDigestTest, AnotherDigestIsAnErrorWithBoth) {
  const std::string right = std::exchange(flag_.sha256, std::string(64, '0'));
  const absl::Status status = CheckDigest(*file_, flag_, GoOn);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("model a has"));
  EXPECT_THAT(std::string(status.message()), HasSubstr(right));
  EXPECT_THAT(std::string(status.message()), HasSubstr(flag_.sha256));
}

TEST_F(CheckDigestTest, WithoutADigestNothingIsRead) {
  flag_.sha256.clear();
  const auto on_progress = [](const worker::LoadProgress&) {
    return absl::InternalError("somebody reads");
  };
  EXPECT_TRUE(CheckDigest(*file_, flag_, on_progress).ok());
}

TEST_F(CheckDigestTest, WhoEndsALoadEndsItsCheck) {
  const auto on_progress = [](const worker::LoadProgress&) {
    return absl::CancelledError("unloaded");
  };
  EXPECT_TRUE(absl::IsCancelled(CheckDigest(*file_, flag_, on_progress)));
}

TEST_F(CheckDigestTest, AModelWithAnotherDigestIsNotLoaded) {
  TestPlanner planner;
  TestWorker worker({.planner = &planner, .change = [](WorkerOptions& options) {
                       options.models[1].sha256 = std::string(64, '0');
                     }});
  const grpc::Status status = worker.Load("b");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DATA_LOSS);
  EXPECT_THAT(status.error_message(), HasSubstr("SHA-256"));
  EXPECT_EQ(worker.Describe("b").last_error(), status.error_message());
  EXPECT_TRUE(planner.Leases().empty());
  EXPECT_TRUE(worker.Load("a").ok());
}

class ChangeableByOthersTest : public ::testing::Test {
 protected:
  ChangeableByOthersTest() {
    Mode(FolderPath(), 0755);
    Make("m.gguf");
  }

  void Make(const std::string& name) {
    std::ofstream(folder_.File(name)) << "x";
    Mode(folder_.File(name), 0644);
  }
  static void Mode(const std::string& path, mode_t mode) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
  }
  static std::string FolderPath(const testing::TemporaryFolder& folder) {
    return std::filesystem::path(folder.File("x")).parent_path().string();
  }
  std::string FolderPath() const { return FolderPath(folder_); }
  static std::string NameOf(const std::string& path) {
    return std::filesystem::path(path).filename().string();
  }

  const testing::TemporaryFolder folder_;
};

TEST_F(ChangeableByOthersTest, WhatOnlyItsOwnerWritesIsLeftOut) {
  EXPECT_THAT(ChangeableByOthers(folder_.File("m.gguf")), IsEmpty());
  EXPECT_THAT(ChangeableByOthers(folder_.File("none.gguf")), IsEmpty());
}

TEST_F(ChangeableByOthersTest, AFileThatItsGroupOrAllWriteIsNamed) {
  for (const mode_t mode : {mode_t{0664}, mode_t{0646}}) {
    Mode(folder_.File("m.gguf"), mode);
    EXPECT_THAT(ChangeableByOthers(folder_.File("m.gguf")),
                ElementsAre("m.gguf"));
  }
}

TEST_F(ChangeableByOthersTest, AFolderCountsUnlessItsFilesAreSafeThere) {
  Mode(FolderPath(), 0777);
  EXPECT_THAT(ChangeableByOthers(folder_.File("m.gguf")),
              ElementsAre(NameOf(FolderPath())));
  Mode(FolderPath(), 01777);
  EXPECT_THAT(ChangeableByOthers(folder_.File("m.gguf")), IsEmpty());
}

TEST_F(ChangeableByOthersTest, AllFilesOfAModelCount) {
  Make("m-00001-of-00002.gguf");
  Make("m-00002-of-00002.gguf");
  Mode(folder_.File("m-00002-of-00002.gguf"), 0666);
  EXPECT_THAT(ChangeableByOthers(folder_.File("m-00001-of-00002.gguf")),
              ElementsAre("m-00002-of-00002.gguf"));
}

TEST_F(ChangeableByOthersTest, ALinkCountsAndSoDoesWhatItNames) {
  const testing::TemporaryFolder other;
  Mode(FolderPath(other), 0775);
  const std::string link = other.File("link.gguf");
  std::filesystem::create_symlink(folder_.File("m.gguf"), link);
  Mode(folder_.File("m.gguf"), 0666);
  EXPECT_THAT(
      ChangeableByOthers(link),
      UnorderedElementsAre("link.gguf", NameOf(FolderPath(other)), "m.gguf"));
}

}  // namespace
}  // namespace plimsoll::services
