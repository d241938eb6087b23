// `plimsoll constraint`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "services/cli/terminal/streams.h"
#include "tests/services/cli/run_cli.h"

namespace plimsoll::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string FileWith(const std::string& name, const std::string& text) {
  const std::string path = ::testing::TempDir() + "constraint_" + name;
  std::ofstream(path) << text;
  return path;
}

TEST(ConstraintCommandTest, SaysWhetherItCompilesAndWhatItCosts) {
  const std::string schema =
      FileWith("a.json", R"({"type":"integer","x-unit":"m"})");
  const CliResult good = RunCli({"constraint", "--json-schema", schema});
  EXPECT_EQ(good.code, kExitOk) << good.err;
  EXPECT_THAT(good.out, StartsWith("It compiles: "));
  EXPECT_THAT(good.out, HasSubstr("\n  #: the keyword 'x-unit' is not known"));
  const CliResult strict =
      RunCli({"constraint", "--json-schema", schema, "--strict-schema"});
  EXPECT_EQ(strict.code, kExitError);
  EXPECT_THAT(strict.err, HasSubstr("constraint.json_schema: #: the keyword"));
  const CliResult bad = RunCli({"constraint", "--regex", "(a"});
  EXPECT_EQ(bad.code, kExitError);
  EXPECT_THAT(bad.err, HasSubstr("constraint.regex: at byte 2"));
}

TEST(ConstraintCommandTest, ChecksTextsOfEachForm) {
  const std::string schema = FileWith(
      "b.json", R"({"type":"object","properties":{"a":{"type":"null"},"b":{}},)"
                R"("required":["b"]})");
  const std::string texts =
      FileWith("texts.jsonl", R"({"text":"{ \"b\": 1, \"a\": null }"})"
                              "\n\n"
                              R"({"text":"{\"b\":1,\"a\":2}"})"
                              "\n");
  const CliResult json =
      RunCli({"constraint", "--json-schema", schema, "--check", texts});
  EXPECT_EQ(json.code, kExitOk) << json.err;
  EXPECT_EQ(json.out,
            "{\"accepted\": true, \"at\": 21}\n"
            "{\"accepted\": false, \"at\": 11}\n");
  const std::string words =
      FileWith("words.jsonl", "{\"text\":\"abc\"}\n{\"text\":\"abd\"}");
  const CliResult regex =
      RunCli({"constraint", "--regex", "abc|x", "--check", words});
  EXPECT_EQ(regex.out,
            "{\"accepted\": true, \"at\": 3}\n"
            "{\"accepted\": false, \"at\": 2}\n");
  const CliResult later = RunCli(
      {"constraint", "--regex", "c", "--trigger", "ab", "--check", words});
  EXPECT_EQ(later.out, regex.out);
}

TEST(ConstraintCommandTest, MistakesAreNamed) {
  EXPECT_EQ(RunCli({"constraint"}).code, kExitUsage);
  EXPECT_EQ(RunCli({"constraint", "--regex", "a", "--any-order"}).code,
            kExitUsage);
  EXPECT_EQ(RunCli({"constraint", "--trigger", "a"}).code, kExitUsage);
  const CliResult no_text = RunCli({"constraint", "--regex", "a", "--check",
                                    FileWith("no.jsonl", "{\"a\":1}\n")});
  EXPECT_EQ(no_text.code, kExitError);
  EXPECT_THAT(no_text.err, HasSubstr("line 1: no string \"text\""));
}

}  // namespace
}  // namespace plimsoll::cli
