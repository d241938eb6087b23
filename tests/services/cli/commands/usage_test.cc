// `plimsoll usage`: sums of receipts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "services/cli/terminal/failure.h"
#include "tests/services/cli/run_cli.h"
#include "tests/services/temporary_folder.h"

namespace plimsoll::cli {
namespace {

using ::testing::HasSubstr;

constexpr char kRecord[] =
    R"({"time":"2026-01-01T23:59:59.999Z","request":"1","tenant":"a","model":"m","status":"OK","prompt_tokens":10,"cached_tokens":64,"generated_tokens":5,"kv_bytes":1000,"seconds":0.5}
{"time":"2026-01-02T00:00:00.000Z","request":"2","tenant":"a","model":"n","status":"CANCELLED","prompt_tokens":1,"cached_tokens":0,"generated_tokens":2,"kv_bytes":100,"seconds":1}
{"time":"2026-01-02T00:00:01.000Z","request":"3","tenant":"b","mo
{"time":"2026-01-02T00:00:01.000Z","tenant":"b","refused":4}
{"time":"2026-01-02T00:00:02.000Z","lost":7}
)";

class UsageTest : public ::testing::Test {
 protected:
  UsageTest() { std::ofstream(file_) << kRecord; }
  nlohmann::json Json(const std::string& by) const {
    const CliResult result = RunCli({"usage", file_, "--by", by, "-o", "json"});
    EXPECT_EQ(result.code, kExitOk) << result.err;
    return nlohmann::json::parse(result.out);
  }

  const services::testing::TemporaryFolder folder_;
  const std::string file_ = folder_.File("usage.jsonl");
};

TEST_F(UsageTest, TenantsAreSummed) {
  const nlohmann::json json = Json("tenant");
  ASSERT_EQ(json["groups"].size(), 2u);
  const nlohmann::json& a = json["groups"][0];
  EXPECT_EQ(a["tenant"], "a");
  EXPECT_EQ(a["requests"], 2);
  EXPECT_EQ(a["prompt_tokens"], 11);
  EXPECT_EQ(a["cached_tokens"], 64);
  EXPECT_EQ(a["generated_tokens"], 7);
  EXPECT_EQ(a["kv_byte_seconds"], 600.0);
  EXPECT_EQ(a["refused"], 0);
  EXPECT_EQ(json["groups"][1]["tenant"], "b");
  EXPECT_EQ(json["groups"][1]["refused"], 4);
  EXPECT_EQ(json["total"]["requests"], 2);
  EXPECT_EQ(json["lost"], 7);
  EXPECT_EQ(json["bad_lines"], 1);
}

TEST_F(UsageTest, DaysAndModelsAreSummed) {
  const nlohmann::json days = Json("day");
  ASSERT_EQ(days["groups"].size(), 2u);
  EXPECT_EQ(days["groups"][0]["day"], "2026-01-01");
  EXPECT_EQ(days["groups"][0]["generated_tokens"], 5);
  EXPECT_EQ(days["groups"][1]["day"], "2026-01-02");
  const nlohmann::json models = Json("model");
  ASSERT_EQ(models["groups"].size(), 3u);
  EXPECT_EQ(models["groups"][1]["model"], "m");
  EXPECT_EQ(models["groups"][1]["prompt_tokens"], 10);
}

TEST_F(UsageTest, TheTableSaysWhatIsMissing) {
  const CliResult result = RunCli({"usage", file_, file_});
  ASSERT_EQ(result.code, kExitOk) << result.err;
  EXPECT_THAT(result.out, HasSubstr("total"));
  EXPECT_THAT(result.out, HasSubstr("128"));  // cached tokens of both files
  EXPECT_THAT(result.err, HasSubstr("lost 14 receipts"));
  EXPECT_THAT(result.err, HasSubstr("2 lines are no receipts"));
}

TEST_F(UsageTest, FilesThatAreNotThereAreNamed) {
  const CliResult result = RunCli({"usage", folder_.File("none")});
  EXPECT_NE(result.code, kExitOk);
  EXPECT_THAT(result.err, HasSubstr("none"));
}

TEST_F(UsageTest, GroupsAreBounded) {
  const auto run = [this](size_t n_tenants) {
    std::ofstream file(file_);
    nlohmann::json receipt = {{"time", "2026-01-02T00:00:00Z"}, {"refused", 1}};
    for (size_t i = 0; i < n_tenants; ++i) {
      receipt["tenant"] = std::to_string(i);
      file << receipt.dump() << "\n";
    }
    file.close();
    return RunCli({"usage", file_});
  };
  EXPECT_EQ(run(16'384).code, kExitOk);
  const CliResult result = run(16'385);
  EXPECT_NE(result.code, kExitOk);
  EXPECT_THAT(result.err, HasSubstr("more than 16384"));
}

}  // namespace
}  // namespace plimsoll::cli
