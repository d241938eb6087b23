// Ratchets: how many cases of the standard's own suite and of schemas from the
// wild are right. Both are read beside the checkout; without them the tests
// skip, and say so.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "worker/text/schema/schema_check.h"
#include "worker/text/schema_reader.h"

namespace plimsoll::worker {
namespace {

namespace fs = std::filesystem;

struct Tally {
  int accepted = 0;  // schemas
  int refused = 0;
  int right = 0;   // instances
  int narrow = 0;  // valid, and not accepted
  int wrong = 0;   // not valid, and accepted
};

void LookAt(const std::string& name, const SchemaJson& one,
            const SchemaOptions& options, Tally& tally) {
  const auto check = SchemaCheck::Make(one["schema"].dump(), options);
  if (!check.ok()) {
    EXPECT_EQ(check.status().code(), absl::StatusCode::kInvalidArgument);
    ++tally.refused;
    return;
  }
  ++tally.accepted;
  for (const SchemaJson& test : one["tests"]) {
    const std::string text = test["data"].dump();
    const bool is_accepted = (*check)->Check(text).is_accepted;
    if (is_accepted == test["valid"].get<bool>()) {
      ++tally.right;
      continue;
    }
    ++(is_accepted ? tally.wrong : tally.narrow);
    std::cout << (is_accepted ? "wrong: " : "narrow: ") << name << ": "
              << test.value("description", "") << " " << text.substr(0, 200)
              << "\n";
  }
}

Tally LookAtFolder(const fs::path& folder, const SchemaOptions& options) {
  Tally tally;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& path : files) {
    std::ifstream in(path);
    SchemaOptions these = options;
    if (path.filename() == "format-assertion.json") these = {};
    for (const SchemaJson& group : SchemaJson::parse(in)) {
      LookAt(path.filename().string() + ": " +
                 group["description"].get<std::string>(),
             group, these, tally);
    }
  }
  std::cout << folder << ": " << tally.accepted << " schemas accepted, "
            << tally.refused << " refused; " << tally.right << " right, "
            << tally.narrow << " narrow, " << tally.wrong << " wrong\n";
  return tally;
}

struct Ratchet {
  const char* folder;
  SchemaOptions options;
  int min_right;
  int max_refused;
  int max_narrow;
};

TEST(SchemaSuiteTest, TheStandardsOwnSuite) {
  const fs::path suite = "../shared/suites/json-schema/draft2020-12";
  if (!fs::exists(suite)) GTEST_SKIP() << "no shared data: " << suite;
  // Formats are annotations there, but for the folder about them.
  const Ratchet ratchets[] = {
      {".", {.ignore_formats = true}, 1036, 76, 1},
      {"optional", {.ignore_formats = true}, 136, 7, 5},
      {"optional/format", {.refuse_unknown = true}, 533, 14, 21},
  };
  for (const Ratchet& one : ratchets) {
    const Tally tally = LookAtFolder(suite / one.folder, one.options);
    EXPECT_EQ(tally.wrong, 0) << one.folder;
    EXPECT_GE(tally.right, one.min_right) << one.folder;
    EXPECT_LE(tally.refused, one.max_refused) << one.folder;
    EXPECT_LE(tally.narrow, one.max_narrow) << one.folder;
  }
}

TEST(SchemaSuiteTest, SchemasFromTheWild) {
  std::ifstream in("../shared/suites/schemas.jsonl");
  if (!in) GTEST_SKIP() << "no shared data: ../shared/suites/schemas.jsonl";
  Tally tally;
  for (std::string line; std::getline(in, line);) {
    const SchemaJson one = SchemaJson::parse(line);
    LookAt(one["name"].get<std::string>(), one, {}, tally);
  }
  EXPECT_EQ(tally.wrong, 0);
  EXPECT_EQ(tally.narrow, 0);
  EXPECT_GE(tally.accepted, 299);
  EXPECT_LE(tally.refused, 1);
}

}  // namespace
}  // namespace plimsoll::worker
