// `plimsoll verify`: its table, its JSON and its exit codes.
#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "services/cli/terminal/streams.h"
#include "services/cli/terminal/terminal.h"
#include "tests/services/cli/parse_json.h"
#include "tests/services/cli/run_cli.h"
#include "tests/worker/random_model.h"

namespace plimsoll::cli {
namespace {

using ::google::protobuf::Struct;
using ::plimsoll::testing::FindRandomModel;
using ::plimsoll::testing::RandomModelBytes;
using ::plimsoll::testing::SpoiledModelBytes;
using ::plimsoll::testing::TemporaryFile;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::vector<std::byte> DamagedModel() {
  return SpoiledModelBytes(
      FindRandomModel("llama_q4_1"),
      [](const std::string& tensor, std::vector<std::byte>& bytes) {
        const uint16_t nan = 0x7E00;
        if (tensor != "blk.1.ffn_up.weight") return;
        std::memcpy(&bytes[7 * 60 + 20], &nan, sizeof(nan));
      });
}

TEST(VerifyCommandTest, ASoundFileIsATableOfChecksAndExitsWithZero) {
  const TemporaryFile file(RandomModelBytes(FindRandomModel("llama_q4_1")));
  const CliResult result = RunCli({"verify", file.path()});
  EXPECT_EQ(result.code, kExitOk) << result.err;
  EXPECT_THAT(
      result.out,
      AllOf(HasSubstr("check"), HasSubstr("header"), HasSubstr("tokenizer"),
            HasSubstr("forward exact"), HasSubstr("agree"),
            HasSubstr("looks random"), Not(HasSubstr("FAILED"))));
  EXPECT_THAT(result.err, HasSubstr("reference kernels"));
  for (absl::string_view line : absl::StrSplit(result.out, '\n')) {
    EXPECT_LE(Columns(line), 80) << line;
  }
}

TEST(VerifyCommandTest, DamageIsNamedAndExitsWithOne) {
  const TemporaryFile file(DamagedModel());
  const CliResult result = RunCli({"verify", "--model", file.path()});
  EXPECT_EQ(result.code, kExitError);
  EXPECT_THAT(result.out, AllOf(HasSubstr("FAILED"),
                                HasSubstr("blk.1.ffn_up.weight: 32 of"),
                                HasSubstr("row 7, column 32")));
  EXPECT_THAT(result.err, Not(HasSubstr("plimsoll:")));
}

TEST(VerifyCommandTest, JsonHasTheSameFacts) {
  const TemporaryFile damaged(DamagedModel());
  const CliResult bad = RunCli({"verify", damaged.path(), "-o", "json"});
  EXPECT_EQ(bad.code, kExitError);
  const Struct failed = ParseJson(bad.out);
  EXPECT_FALSE(failed.fields().at("ok").bool_value());
  const auto& list = failed.fields().at("checks").list_value();
  ASSERT_EQ(list.values_size(), 6);
  const auto& tensors = list.values(1).struct_value().fields();
  EXPECT_EQ(tensors.at("state").string_value(), "failed");
  EXPECT_THAT(tensors.at("findings").list_value().values(0).string_value(),
              HasSubstr("blk.1.ffn_up.weight"));
  const TemporaryFile sound(RandomModelBytes(FindRandomModel("llama_q4_1")));
  const CliResult good = RunCli({"verify", sound.path(), "-o", "json"});
  EXPECT_EQ(good.code, kExitOk);
  const Struct ok = ParseJson(good.out);
  EXPECT_TRUE(ok.fields().at("ok").bool_value());
  const auto& exact =
      ok.fields().at("checks").list_value().values(3).struct_value().fields();
  EXPECT_EQ(exact.at("name").string_value(), "forward exact");
  EXPECT_LE(exact.at("largest_difference").number_value(), 0.003);
  EXPECT_TRUE(exact.at("greedy_agrees").bool_value());
}

TEST(VerifyCommandTest, AFileThatIsCutOffIsAnErrorOfItsHeader) {
  std::vector<std::byte> bytes =
      RandomModelBytes(FindRandomModel("llama_q4_1"));
  bytes.resize(bytes.size() / 2);
  const TemporaryFile file(bytes);
  const CliResult result = RunCli({"verify", file.path()});
  EXPECT_EQ(result.code, kExitError);
  EXPECT_THAT(result.out, IsEmpty());
  EXPECT_THAT(result.err, HasSubstr(file.path()));
}

TEST(VerifyCommandTest, NoForwardRunsNoForwardPass) {
  const TemporaryFile file(RandomModelBytes(FindRandomModel("llama_q4_1")));
  const CliResult result = RunCli({"verify", file.path(), "--no-forward"});
  EXPECT_EQ(result.code, kExitOk) << result.err;
  EXPECT_THAT(result.out, HasSubstr("left out: --no-forward"));
  EXPECT_THAT(result.err, Not(HasSubstr("reference")));
}

}  // namespace
}  // namespace plimsoll::cli
