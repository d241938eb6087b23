// Commands against a worker and a planner while named points of the product
// fail (base/sync/fault.h): each ends as always, or says why not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "base/sync/fault.h"
#include "services/cli/terminal/failure.h"
#include "tests/services/cli/run_cli.h"
#include "tests/services/storm.h"
#include "tests/services/worker/worker_fixture.h"

namespace plimsoll::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// A command, and whether its output is the same each time.
struct StormCommand {
  std::vector<std::string> args;
  bool is_fixed = false;
  std::string input = "";
};

class ClientFaultsTest : public services::StormTest {
 protected:
  ClientFaultsTest() {
    if (!kHasFaults) return;
    worker_ = std::make_unique<services::TestWorker>(
        services::TestWorkerSetup{.planner = &planner_});
    EXPECT_TRUE(worker_->LoadWithContext("a", 256).ok());
  }

  // Runs a command against the worker or, if only that knows, the planner.
  CliResult RunThere(const std::vector<std::string>& args) const {
    return RunThereWithInput(args, "");
  }
  CliResult RunThereWithInput(std::vector<std::string> args,
                              const std::string& input) const {
    const bool asks_planner = args[0] == "devices" || args[0] == "leases";
    const std::string flag = asks_planner ? "--planner" : "--address";
    const std::string address =
        asks_planner ? planner_.server->address() : worker_->server->address();
    args.insert(args.begin(), {flag, address});
    return RunCliWithInput(args, input);
  }
  CliResult Generate() const { return RunThere(kGenerate); }
  static FaultPlan FailAt(const char* point, int64_t pass) {
    return {.rules = {{.point = point, .pass = pass}}};
  }

  const std::vector<std::string> kGenerate = {
      "generate",    "--model",       "a", "--prompt",     "hello",
      "--raw",       "--temperature", "0", "--max-tokens", "6",
      "--ignore-eos"};
  services::TestPlanner planner_;
  std::unique_ptr<services::TestWorker> worker_;
};

TEST_F(ClientFaultsTest, EveryCommandWorksOrSaysWhyNot) {
  const std::vector<StormCommand> commands = {
      {kGenerate, true},
      {{"tokenize", "--model", "a", "--text", "hello"}, true},
      {{"devices"}},
      {{"models"}},
      {{"leases"}},
      {{"sessions", "--model", "a"}},
      {{"top"}},
      {{"memory", "--model", "a"}},
      {{"chat", "--model", "a", "--max-tokens", "4"}, false, "hello\nagain\n"}};
  std::vector<std::string> outputs;
  for (const StormCommand& command : commands) {
    const CliResult result = RunThereWithInput(command.args, command.input);
    EXPECT_EQ(result.code, kExitOk) << command.args[0] << result.err;
    outputs.push_back(result.out);
  }
  FaultPlan plan = *ParseFaultPlan("*=0.1");
  plan.seed = services::StormSeed();
  const ScopedFaults faults(std::move(plan));
  for (int i = 0; i < services::kStormCalls; ++i) {
    const size_t which = static_cast<size_t>(i) % commands.size();
    const StormCommand& command = commands[which];
    const CliResult result = RunThereWithInput(command.args, command.input);
    if (result.code == kExitOk) {
      EXPECT_TRUE(!command.is_fixed || result.out == outputs[which])
          << result.out;
      continue;
    }
    EXPECT_EQ(result.code, kExitError) << command.args[0] << result.err;
    EXPECT_THAT(result.err, HasSubstr("plimsoll: ")) << command.args[0];
  }
  for (const char* point : {"cli.answer", "cli.read"}) {
    EXPECT_GT(faults.CountOf(point).fired, 0) << point;
  }
}

TEST_F(ClientFaultsTest, AnAnswerThatIsLostIsAnErrorAndTheNextCallWorks) {
  const std::vector<std::string> tokenize = {"tokenize", "--model", "a",
                                             "--text", "hello"};
  {
    const ScopedFaults faults(FailAt("cli.answer", 1));
    const CliResult result = RunThere(tokenize);
    EXPECT_EQ(result.code, kExitError);
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, HasSubstr("nobody answers at"));
  }
  EXPECT_EQ(RunThere(tokenize).code, kExitOk);
}

TEST_F(ClientFaultsTest, AStreamThatBreaksLeavesItsBeginningAndAnError) {
  const CliResult whole = Generate();
  ASSERT_EQ(whole.code, kExitOk) << whole.err;
  for (const int64_t pass : {1, 2, 3, 4}) {
    const ScopedFaults faults(FailAt("cli.read", pass));
    const CliResult result = Generate();
    EXPECT_EQ(faults.CountOf("cli.read").fired, 1) << pass;
    EXPECT_EQ(result.code, kExitError) << pass;
    EXPECT_THAT(whole.out,
                StartsWith(std::string(absl::StripSuffix(result.out, "\n"))));
    EXPECT_THAT(result.err,
                HasSubstr(pass == 1 ? "nobody answers at" : "is missing"));
  }
  EXPECT_EQ(Generate().out, whole.out);
}

TEST_F(ClientFaultsTest, AWatchThatBreaksIsAnError) {
  {
    const ScopedFaults faults(FailAt("cli.watch", 1));
    const CliResult result = RunThere({"devices", "--watch"});
    EXPECT_EQ(result.code, kExitError);
    EXPECT_THAT(result.err, HasSubstr("nobody answers at"));
  }
  EXPECT_THAT(RunThere({"devices"}).out, HasSubstr("test/cpu"));
}

TEST_F(ClientFaultsTest, AChatThatBreaksSaysSoAndClosesItsSession) {
  {
    const ScopedFaults faults(FailAt("cli.read", 2));
    const CliResult result = RunThereWithInput(
        {"chat", "--model", "a", "--max-tokens", "4"}, "hello\n");
    EXPECT_EQ(faults.CountOf("cli.read").fired, 1);
    EXPECT_EQ(result.code, kExitError);
    EXPECT_THAT(result.err, HasSubstr("the rest is missing"));
  }
  services::ExpectSoon(
      [this] {
        const CliResult result = RunThere({"sessions", "--model", "a"});
        return absl::StrContains(result.err, "no sessions");
      },
      "no session");
}

}  // namespace
}  // namespace plimsoll::cli
