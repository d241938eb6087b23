// Receipts while named points fail (base/sync/fault.h): none is lost, and none
// is written twice.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/sync/fault.h"
#include "services/generation/usage_file.h"
#include "tests/services/storm.h"
#include "tests/services/temporary_folder.h"

namespace plimsoll::services {
namespace {

class UsageFaultsTest : public StormTest {
 protected:
  static void Add(UsageFile& file, const std::string& request_id) {
    UsageReceipt receipt;
    receipt.request_id = request_id;
    receipt.status = "OK";
    file.Add(std::move(receipt));
  }
  std::vector<std::string> Written() const {
    std::vector<std::string> ids;
    std::ifstream file(path_);
    for (std::string line; std::getline(file, line);) {
      const auto receipt = ParseReceipt(line);
      if (receipt.ok()) ids.push_back(receipt->request_id);
    }
    return ids;
  }

  const testing::TemporaryFolder folder_;
  const std::string path_ = folder_.File("usage");
};

TEST_F(UsageFaultsTest, WhatCannotBeWrittenIsWrittenLaterAndOnce) {
  const auto file = UsageFile::Open(path_);
  ASSERT_TRUE(file.ok()) << file.status();
  std::filesystem::rename(path_, path_ + ".1");  // so that it is made again
  const ScopedFaults faults({.rules = {{.point = "receipt.open", .pass = 1},
                                       {.point = "receipt.write", .pass = 2}}});
  const std::vector<std::string> ids = {"0", "1", "2"};
  for (const std::string& id : ids) Add(**file, id);
  ExpectSoon([&] { return Written().size() == ids.size(); }, "all receipts");
  EXPECT_EQ(Written(), ids);
  EXPECT_EQ(faults.CountOf("receipt.open").fired, 1);
  EXPECT_EQ(faults.CountOf("receipt.write").fired, 1);
  EXPECT_EQ((*file)->n_lost(), 0);
}

TEST_F(UsageFaultsTest, WhatTheDiskDoesNotConfirmIsAskedForAgain) {
  const auto file = UsageFile::Open(path_);
  ASSERT_TRUE(file.ok()) << file.status();
  const ScopedFaults faults({.rules = {{.point = "receipt.sync", .pass = 1}}});
  Add(**file, "0");
  ExpectSoon([&] { return faults.CountOf("receipt.sync").passes >= 2; },
             "another sync");
  EXPECT_EQ(Written(), std::vector<std::string>{"0"});
}

TEST_F(UsageFaultsTest, AFileThatCannotBeOpenedIsAnError) {
  const ScopedFaults faults({.rules = {{.point = "receipt.open", .pass = 1}}});
  const absl::Status status = UsageFile::Open(path_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find(path_), std::string::npos);
}

}  // namespace
}  // namespace plimsoll::services
