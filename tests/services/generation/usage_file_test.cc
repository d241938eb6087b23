// Files of receipts: what is in them after moves, failures and crashes.
#include "services/generation/usage_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/generation/quota_book.h"
#include "tests/services/temporary_folder.h"

namespace plimsoll::services {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> LinesOf(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

std::vector<UsageReceipt> ReceiptsOf(const std::string& path) {
  std::vector<UsageReceipt> receipts;
  for (const std::string& line : LinesOf(path)) {
    const auto receipt = ParseReceipt(line);
    EXPECT_TRUE(receipt.ok()) << line;
    if (receipt.ok()) receipts.push_back(*receipt);
  }
  return receipts;
}

UsageReceipt ReceiptOf(const std::string& request_id) {
  UsageReceipt receipt;
  receipt.request_id = request_id;
  receipt.tenant = "a";
  receipt.status = "OK";
  return receipt;
}

// Files of this process cannot be longer than so many bytes while it exists.
class FileLimit {
 public:
  explicit FileLimit(rlim_t n_bytes) {
    EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &before_), 0);
    const rlimit limit = {n_bytes, before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~FileLimit() {
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &before_), 0);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  void (*const handler_)(int) = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before_ = {};
};

class UsageFileTest : public ::testing::Test {
 protected:
  const testing::TemporaryFolder folder_;
  const std::string path_ = folder_.File("usage.jsonl");
};

using LineFileTest = UsageFileTest;

TEST_F(LineFileTest, LinesAreAppended) {
  for (const char* line : {"one", "two"}) {
    LineFile file(path_);
    ASSERT_TRUE(file.Open().ok());
    ASSERT_TRUE(file.Append(line).ok());
    EXPECT_TRUE(file.Sync().ok());
  }
  EXPECT_EQ(LinesOf(path_), (std::vector<std::string>{"one", "two"}));
  struct stat info = {};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0137, 0u);  // others may not read it
}

TEST_F(LineFileTest, ALineThatACrashCutOffIsEnded) {
  std::ofstream(path_) << "one\ntw";
  LineFile file(path_);
  ASSERT_TRUE(file.Open().ok());
  ASSERT_TRUE(file.Append("three").ok());
  EXPECT_EQ(LinesOf(path_), (std::vector<std::string>{"one", "tw", "three"}));
}

TEST_F(LineFileTest, AFileThatWasMovedAwayIsMadeAgain) {
  LineFile file(path_);
  ASSERT_TRUE(file.Open().ok());
  ASSERT_TRUE(file.Append("one").ok());
  fs::rename(path_, path_ + ".1");
  ASSERT_TRUE(file.Open().ok());
  ASSERT_TRUE(file.Append("two").ok());
  EXPECT_EQ(LinesOf(path_ + ".1"), std::vector<std::string>{"one"});
  EXPECT_EQ(LinesOf(path_), std::vector<std::string>{"two"});
}

TEST_F(LineFileTest, AFullDiskCutsALineThatIsWrittenAgain) {
  LineFile file(path_);
  ASSERT_TRUE(file.Open().ok());
  ASSERT_TRUE(file.Append("one").ok());
  {
    const FileLimit limit(6);
    EXPECT_EQ(file.Append("twotwo").code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(file.Append("twotwo").code(), absl::StatusCode::kUnavailable);
  }
  ASSERT_TRUE(file.Append("twotwo").ok());
  EXPECT_EQ(LinesOf(path_), (std::vector<std::string>{"one", "tw", "twotwo"}));
}

TEST_F(LineFileTest, ALineThatLacksItsEndOnlyIsNotWrittenTwice) {
  LineFile file(path_);
  ASSERT_TRUE(file.Open().ok());
  {
    const FileLimit limit(3);
    EXPECT_TRUE(file.Append("one").ok());
  }
  ASSERT_TRUE(file.Append("two").ok());
  EXPECT_EQ(LinesOf(path_), (std::vector<std::string>{"one", "two"}));
}

TEST_F(UsageFileTest, WhatIsNoFileIsRefused) {
  EXPECT_EQ(UsageFile::Open(folder_.File("")).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(UsageFile::Open("/dev/null").status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(UsageFile::Open(folder_.File("no/file")).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(UsageFileTest, AllReceiptsAreInTheFileAfterTheEnd) {
  {
    const auto file = UsageFile::Open(path_);
    ASSERT_TRUE(file.ok()) << file.status();
    for (int i = 0; i < 100; ++i) (*file)->Add(ReceiptOf(absl::StrCat(i)));
    (*file)->AddRefused("b");
    (*file)->AddRefused("b");
  }
  int64_t n_refused = 0;
  std::vector<std::string> ids;
  for (const UsageReceipt& receipt : ReceiptsOf(path_)) {
    n_refused += receipt.refused;
    if (!receipt.status.empty()) ids.push_back(receipt.request_id);
  }
  EXPECT_EQ(n_refused, 2);
  ASSERT_EQ(ids.size(), 100u);
  EXPECT_EQ(ids.front(), "0");
  EXPECT_EQ(ids.back(), "99");
}

TEST_F(UsageFileTest, WhatCannotBeWrittenWaitsAndIsThenLostAndCounted) {
  const std::string folder = folder_.File("logs");
  const std::string path = folder + "/usage.jsonl";
  fs::create_directory(folder);
  {
    const auto file = UsageFile::Open(path);
    ASSERT_TRUE(file.ok()) << file.status();
    fs::remove_all(folder);
    for (size_t i = 0; i < UsageFile::kMaxWaiting; ++i) {
      (*file)->Add(ReceiptOf(absl::StrCat(i)));
    }
    EXPECT_EQ((*file)->n_lost(), 0);
    (*file)->Add(ReceiptOf("one too many"));
    EXPECT_EQ((*file)->n_lost(), 1);
    fs::create_directory(folder);
  }
  int64_t n_lost = 0;
  size_t n_requests = 0;
  for (const UsageReceipt& receipt : ReceiptsOf(path)) {
    n_lost += receipt.lost;
    if (!receipt.status.empty()) ++n_requests;
  }
  EXPECT_EQ(n_lost, 1);
  EXPECT_EQ(n_requests, UsageFile::kMaxWaiting);
}

TEST_F(UsageFileTest, TenantsThatAreRefusedAreBounded) {
  {
    const auto file = UsageFile::Open(path_);
    ASSERT_TRUE(file.ok()) << file.status();
    for (size_t i = 0; i < UsageFile::kMaxRefusedTenants + 2; ++i) {
      (*file)->AddRefused(absl::StrCat(i));
    }
    (*file)->AddRefused("0");
  }
  int64_t n_others = 0;
  int64_t n_first = 0;
  for (const UsageReceipt& receipt : ReceiptsOf(path_)) {
    if (receipt.tenant == QuotaBook::kOtherTenants) n_others += receipt.refused;
    if (receipt.tenant == "0") n_first += receipt.refused;
  }
  EXPECT_EQ(n_others, 2);
  EXPECT_EQ(n_first, 2);
}

TEST_F(UsageFileTest, ABookWithoutQuotasCountsAndOneWithThemSaysWhomItRefused) {
  {
    const auto file = UsageFile::Open(path_);
    ASSERT_TRUE(file.ok()) << file.status();
    const auto clock = [] { return absl::UnixEpoch(); };
    const auto book = QuotaBook::Open("", clock, file->get());
    ASSERT_TRUE(book.ok()) << book.status();
    EXPECT_EQ((*book)->QuotaOf("a"), Quota());
    EXPECT_TRUE((*book)->Admit({.tenant = "a", .n_reply = 1'000'000}).ok());
    EXPECT_EQ((*book)->Usage().at("a").requests, 1);
    const std::string quotas = folder_.File("quotas.json");
    std::ofstream(quotas) << R"({"default": {"kv_bytes": 1}})";
    const auto strict = QuotaBook::Open(quotas, clock, file->get());
    ASSERT_TRUE(strict.ok()) << strict.status();
    EXPECT_FALSE((*strict)->Admit({.tenant = "b", .kv_bytes = 2}).ok());
  }
  const std::vector<UsageReceipt> receipts = ReceiptsOf(path_);
  ASSERT_EQ(receipts.size(), 1u);
  EXPECT_EQ(receipts[0].tenant, "b");
  EXPECT_EQ(receipts[0].refused, 1);
}

}  // namespace
}  // namespace plimsoll::services
