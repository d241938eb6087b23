// `plimsoll doctor`: its report, its JSON and its exit codes.
#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "services/cli/terminal/streams.h"
#include "tests/services/cli/parse_json.h"
#include "tests/services/cli/run_cli.h"
#include "tests/worker/random_model.h"

namespace plimsoll::cli {
namespace {

using ::plimsoll::testing::FindRandomModel;
using ::plimsoll::testing::RandomModelBytes;
using ::plimsoll::testing::TemporaryFile;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(DoctorCommandTest, AModelThatIsNamedIsTheLastCheck) {
  const TemporaryFile file(RandomModelBytes(FindRandomModel("llama_q4_1")));
  const CliResult result = RunCli({"doctor", file.path(), "-o", "json"});
  EXPECT_EQ(result.code, kExitOk) << result.out;
  EXPECT_THAT(result.err, IsEmpty());
  const google::protobuf::Struct report = ParseJson(result.out);
  EXPECT_TRUE(report.fields().at("ok").bool_value());
  std::vector<std::string> names;
  for (const auto& check : report.fields().at("checks").list_value().values()) {
    names.push_back(check.struct_value().fields().at("name").string_value());
  }
  EXPECT_THAT(names,
              ElementsAre("cpu path", "cpus", "gpu", "memory", "cgroup", "swap",
                          "huge pages", "overcommit", "open files", "threads",
                          "clock", "planner", "worker", "model"));
}

TEST(DoctorCommandTest, EveryModelIsCheckedAndAnErrorExitsWithOne) {
  std::vector<std::byte> bytes =
      RandomModelBytes(FindRandomModel("llama_q4_1"));
  const TemporaryFile sound(bytes);
  bytes.resize(bytes.size() / 2);
  const TemporaryFile cut(bytes);
  const CliResult result = RunCli({"doctor", cut.path(), sound.path()});
  EXPECT_EQ(result.code, kExitError);
  EXPECT_THAT(
      result.out,
      AllOf(HasSubstr("  error    model"), HasSubstr("  ok       model"),
            HasSubstr("fix: get the file again"), HasSubstr("  1 error, ")));
  EXPECT_THAT(result.err, IsEmpty());
}

TEST(DoctorCommandTest, AServerThatDoesNotAnswerIsAnError) {
  const TemporaryFile file(RandomModelBytes(FindRandomModel("llama_q4_1")));
  const CliResult result = RunCli({"doctor", "--planner", "127.0.0.1:1",
                                   "--address", "127.0.0.1:1", file.path()});
  EXPECT_EQ(result.code, kExitError);
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("  error    planner"),
                    HasSubstr("  error    worker"), HasSubstr("fix: start"),
                    HasSubstr("  2 errors, "), Not(HasSubstr("try:"))));
}

TEST(DoctorCommandTest, HelpSaysWhatIsCheckedAndWhatTheExitCodeMeans) {
  const CliResult result = RunCli({"doctor", "--help"});
  EXPECT_EQ(result.code, kExitOk);
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("huge pages"), HasSubstr("Exit code 1"),
                    HasSubstr("plimsoll doctor --planner")));
}

}  // namespace
}  // namespace plimsoll::cli
