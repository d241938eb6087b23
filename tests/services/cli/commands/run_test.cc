// Command lines: exit codes, help and errors that say what to do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "services/cli/commands/cli.h"
#include "services/cli/terminal/failure.h"
#include "services/cli/terminal/terminal.h"
#include "tests/planner/tiny_models.h"
#include "tests/services/cli/run_cli.h"

namespace plimsoll::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::StartsWith;

constexpr const char* kCommands[] = {
    "plan",   "what-if",  "place",     "generate", "chat",       "tokenize",
    "models", "devices",  "memory",    "version",  "completion", "perplexity",
    "bench",  "top",      "sessions",  "drain",    "abort",      "verify",
    "serve",  "template", "constraint"};

TEST(RunTest, HelpOfEveryCommandFitsIn80ColumnsAndHasUsage) {
  for (const char* command : kCommands) {
    const CliResult result = RunCli({command, "--help"});
    EXPECT_EQ(result.code, kExitOk) << command;
    EXPECT_THAT(result.out,
                HasSubstr(std::string("Usage: plimsoll ") + command));
    for (absl::string_view line : absl::StrSplit(result.out, '\n')) {
      EXPECT_THAT(Columns(line), Le(80)) << line;
    }
  }
}

TEST(RunTest, HelpListsEveryCommandAndTheExitCodes) {
  const CliResult result = RunCli({"--help"});
  EXPECT_EQ(result.code, kExitOk);
  for (const char* command : kCommands) {
    EXPECT_THAT(result.out, HasSubstr(std::string("\n  ") + command + " "));
  }
  EXPECT_THAT(result.out, HasSubstr("3 does not fit"));
}

TEST(RunTest, NoCommandIsAUsageErrorThatShowsTheHelp) {
  const CliResult result = RunCli({});
  EXPECT_EQ(result.code, kExitUsage);
  EXPECT_THAT(result.out, IsEmpty());
  EXPECT_THAT(result.err, HasSubstr("Usage: plimsoll COMMAND"));
}

struct BadLine {
  std::vector<std::string> args;
  const char* message;
};

class UsageTest : public ::testing::TestWithParam<BadLine> {};

TEST_P(UsageTest, EndsWithTwoAndSaysWhy) {
  const CliResult result = RunCli(GetParam().args);
  EXPECT_EQ(result.code, kExitUsage) << result.err;
  EXPECT_THAT(result.out, IsEmpty());
  EXPECT_THAT(result.err, HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Lines, UsageTest,
    ::testing::Values(
        BadLine{{"bench"}, "there is no model"},
        BadLine{{"generate", "--model", "m", "--threads", "257"},
                "from 0 to 256"},
        BadLine{{"bench", "--model", "m", "--address", "localhost:1"},
                "leave out --address"},
        BadLine{{"bench", "--model", "m", "--batch", "64,65"}, "1 to 64"},
        BadLine{{"bench", "--model", "m", "--at-positions", "0"}, "1 to"},
        BadLine{{"bench", "--model", "m", "--slots", "2"}, "--batch"},
        BadLine{{"bench", "--model", "m", "--prompt-tokens",
                 "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"},
                "at most 16"},
        BadLine{{"top"}, "--address"}, BadLine{{"sessions"}, "--address"},
        BadLine{{"chat", "--session", "a"}, "--address"},
        BadLine{{"drain"}, "--address"},
        BadLine{{"serve"}, "there is no model"},
        BadLine{{"serve", "m", "--address", "localhost:1"},
                "leave out --address"},
        BadLine{{"serve", "m", "--listen", "8080"}, "HOST:PORT"},
        BadLine{{"serve", "m", "--preemption", "never"}, "--preemption"},
        BadLine{{"serve", "m", "--listen", "0.0.0.0:8080"}, "--insecure"},
        BadLine{{"abort", "--all"}, "--address"},
        BadLine{{"abort", "--address", "localhost:1"}, "--all"},
        BadLine{{"abort", "a", "--all", "--address", "localhost:1"}, "--all"},
        BadLine{{"top", "--address", "localhost:1", "--interval", "0"},
                "from 1 to 86400"},
        BadLine{{"top", "--address", "localhost:1", "--interval", "86401"},
                "from 1 to 86400"},
        BadLine{{"sail"}, "sail"}, BadLine{{"plan"}, "there is no model"},
        BadLine{{"plan", "m", "--device-memory", "12GB"}, "write 12GiB"},
        BadLine{{"plan", "m", "--n-ctx", "0"}, "--n-ctx"},
        BadLine{{"plan", "m", "--n-ctx", "all"}, "'auto'"},
        BadLine{{"plan", "m", "--slots", "4097"}, "from 1 to 4096"},
        BadLine{{"plan", "m", "--n-ubatch", "65537"}, "from 1 to 65536"},
        BadLine{{"plan", "m", "--kv-type", "f17"}, "f16"},
        BadLine{{"plan", "m", "-o", "yaml"}, "table, json"},
        BadLine{{"plan", "m", "--address", "localhost:1"}, "--planner"},
        BadLine{{"plan", "m", "--sails", "3"}, "--sails"},
        BadLine{{"devices", "--address", "localhost:1"}, "--planner"},
        BadLine{{"memory"}, "--model FILE"}, BadLine{{"chat"}, "--model FILE"},
        BadLine{{"tokenize", "--model", "m"}, "--text"},
        BadLine{{"tokenize", "--text", "x"}, "--model"},
        BadLine{{"tokenize", "--model", "m", "--text", "x", "--file", "-"},
                "--text"},
        BadLine{{"generate", "--prompt", "x"}, "there is no model"},
        BadLine{{"generate", "--model", "m"}, "there is no prompt"},
        BadLine{{"generate", "--model", "m", "--prompt", "a", "--file", "-"},
                "more than one prompt"},
        BadLine{{"generate", "--model", "m", "--prompt", "a", "--raw",
                 "--system", "b"},
                "--raw"},
        BadLine{{"generate", "--model", "m", "--max-tokens", "0"},
                "--max-tokens"},
        BadLine{{"generate", "--model", "m", "--prompt", "a", "--device",
                 "cpu,cpu"},
                "device 'cpu' is named twice"},
        BadLine{{"chat", "--model", "m", "--device", "cuda:0,"},
                "a device has no name"},
        BadLine{{"generate", "--model", "m", "--prompt", "a", "--device",
                 "cuda:0,cpu", "--device-memory", "1GiB,1GiB,1GiB"},
                "3 values for 2 devices; give one for each"},
        BadLine{{"bench", "--model", "m", "--device-memory", "1GiB,2GiB"},
                "2 values for 1 device"},
        BadLine{{"memory", "--model", "m", "--device-memory", "1GiB,2"},
                "2 values for 1 device"},
        BadLine{{"plan", "m", "--device-memory", "1GiB,2GiB"},
                "2 values for 1 device"},
        BadLine{{"plan", "m", "--device", "cpu,t4,cpu"},
                "device 'cpu' is named twice"},
        BadLine{{"plan", "m", "--device", "t4,t4", "--with", "n"},
                "only one goes"},
        BadLine{{"plan", "m", "--device", "t4,t4", "--planner", "localhost:1"},
                "leave out --planner"},
        BadLine{{"generate", "--model", "m", "--top-logprobs", "65"},
                "from 0 to 64"},
        BadLine{{"generate", "--model", "m", "--temperature", "101"},
                "from 0 to 100"},
        BadLine{{"generate", "--model", "m", "--temperature", "nan"},
                "--temperature"},
        BadLine{{"generate", "--model", "m", "--seed", "-1"}, "--seed"},
        BadLine{{"generate", "--model", "m", "--precision", "high"}, "exact"},
        BadLine{{"generate", "--model", "m", "--context-policy", "keep"},
                "stop, roll or error"},
        BadLine{{"generate", "--model", "m", "--roll-method", "move"},
                "shift or recompute"},
        BadLine{
            {"generate", "--model", "m", "--prompt", "a", "--pin-tokens", "0"},
            "--context-policy roll"},
        BadLine{{"generate", "--model", "m", "--prompt", "x", "--regex", "a",
                 "--json-schema", "f"},
                "one of --json-schema, --grammar and --regex"},
        BadLine{{"generate", "--model", "m", "--prompt", "x", "--regex", "a",
                 "--ignore-eos"},
                "leave out one or the other"},
        BadLine{{"generate", "--model", "m", "--file", "-", "--grammar", "-"},
                "standard input can be read once"},
        BadLine{{"verify"}, "plimsoll verify FILE"},
        BadLine{{"verify", "m", "--address", "localhost:1"},
                "leave out --address"},
        BadLine{{"verify", "m", "--threads", "257"}, "from 0 to 256"},
        BadLine{{"perplexity", "--model", "m"}, "there is no text"},
        BadLine{{"perplexity", "--file", "-"}, "there is no model"},
        BadLine{
            {"perplexity", "--model", "m", "--file", "-", "--evict-to", "9"},
            "--context-policy roll"}));

TEST(RunTest, AMissingModelIsAnErrorThatNamesItAndWhereModelsAre) {
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"plan", "no/such.gguf"},
        {"generate", "--model", "no/such.gguf", "--prompt", "x"},
        {"tokenize", "--model", "no/such.gguf", "--text", "x"},
        {"chat", "--model", "no/such.gguf"},
        {"memory", "--model", "no/such.gguf"},
        {"verify", "no/such.gguf"}}) {
    const CliResult result = RunCli(args);
    EXPECT_EQ(result.code, kExitError) << args[0];
    EXPECT_THAT(result.out, IsEmpty());
    EXPECT_THAT(result.err, HasSubstr("no/such.gguf"));
    EXPECT_THAT(result.err, HasSubstr("plimsoll models"));
  }
}

TEST(RunTest, AnArchitectureThatCannotRunIsSaidBeforeAnythingElse) {
  // It has no chat template either.
  const std::string path = ::testing::TempDir() + "planned_only.gguf";
  std::ofstream(path, std::ios::binary)
      << planner::PlannedOnlyBuilder().Build();
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"generate", "--prompt", "x"},
        {"generate", "--prompt", "x", "--raw"},
        {"generate", "--prompt", "x", "--chat-format", "none-such"},
        {"generate", "--prompt", "x", "--device-memory", "1"},
        {"generate", "--prompt", "x", "--device", "cuda:99"},
        {"chat"},
        {"bench"},
        {"memory"},
        {"perplexity", "--file", path}}) {
    std::vector<std::string> with_model = args;
    with_model.insert(with_model.end(), {"--model", path});
    const CliResult result = RunCli(with_model);
    EXPECT_EQ(result.code, kExitError) << args[0];
    EXPECT_THAT(result.out, IsEmpty()) << args[0];
    EXPECT_THAT(result.err, StartsWith("plimsoll: architecture \"qwen2\" "))
        << args[0];
    EXPECT_THAT(result.err, HasSubstr("plimsoll plan")) << args[0];
  }
  EXPECT_EQ(RunCli({"plan", path, "--device-memory", "1GiB"}).code, kExitOk);
}

TEST(RunTest, NobodyAtTheAddressIsAnErrorThatSaysWhatToStart) {
  // Port 1 is privileged and unused; refusal is immediate.
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"models", "--address", "127.0.0.1:1"},
        {"memory", "--address", "127.0.0.1:1"},
        {"top", "--address", "127.0.0.1:1", "--interval", "1"},
        {"drain", "--address", "127.0.0.1:1", "--wait"},
        {"abort", "--address", "127.0.0.1:1", "a"},
        {"tokenize", "--address", "127.0.0.1:1", "--text", "x"},
        {"generate", "--address", "127.0.0.1:1", "--prompt", "x"},
        {"devices", "--planner", "127.0.0.1:1"}}) {
    const CliResult result = RunCli(args);
    EXPECT_EQ(result.code, kExitError) << args[0];
    EXPECT_THAT(result.err, HasSubstr("127.0.0.1:1")) << args[0];
    EXPECT_THAT(result.err, HasSubstr("try: start plimsoll-worker"));
  }
}

TEST(RunTest, GlobalFlagsStandBeforeOrAfterTheCommand) {
  const CliResult before = RunCli({"--address", "127.0.0.1:1", "models"});
  EXPECT_EQ(before.code, kExitError);
  EXPECT_THAT(before.err, HasSubstr("127.0.0.1:1"));
}

TEST(RunTest, VersionAndDevicesAreJsonWhereAsked) {
  const CliResult version = RunCli({"version", "-o", "json"});
  EXPECT_EQ(version.code, kExitOk);
  EXPECT_THAT(version.out, HasSubstr("\"cpu_target\""));
  const CliResult devices = RunCli({"devices", "-o", "json"});
  EXPECT_EQ(devices.code, kExitOk);
  EXPECT_THAT(devices.out, HasSubstr("\"free_bytes\""));
}

TEST(RunTest, OutputThatCannotBeWrittenIsAnError) {
  std::istringstream in;
  std::ostringstream out;
  std::ostringstream err;
  out.setstate(std::ios::badbit);
  Streams streams{in, out, err, {}, {}};
  EXPECT_EQ(cli::Run({"version"}, streams), kExitError);
  EXPECT_THAT(err.str(), HasSubstr("could not be written"));
}

TEST(ExitCodeOfTest, TellsFullMemoryFromAFullQueue) {
  EXPECT_EQ(ExitCodeOf(absl::OkStatus()), 0);
  EXPECT_EQ(ExitCodeOf(absl::InternalError("x")), 1);
  EXPECT_EQ(ExitCodeOf(absl::ResourceExhaustedError("64 requests wait")), 1);
  EXPECT_EQ(ExitCodeOf(UsageError("x")), 2);
  EXPECT_EQ(ExitCodeOf(DoesNotFit("x")), 3);
  EXPECT_EQ(ExitCodeOf(Prefixed("line 1: ", DoesNotFit("x"))), 3);
  EXPECT_EQ(ExitCodeOf(InterruptedError()), 130);
}

}  // namespace
}  // namespace plimsoll::cli
