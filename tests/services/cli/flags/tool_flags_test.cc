#include "services/cli/flags/tool_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "services/cli/commands/cli.h"
#include "tests/services/cli/run_cli.h"
#include "worker/text/chat/tool_call.h"

namespace plimsoll::cli {
namespace {

using ::testing::HasSubstr;

TEST(ToolsFromJsonTest, TakesPlainAndWrappedTools) {
  const auto tools = ToolsFromJson(R"([
      {"name": "f", "description": "D", "parameters": {"type": "object"}},
      {"type": "function", "function": {"name": "g", "strict": true}}])");
  ASSERT_TRUE(tools.ok()) << tools.status();
  ASSERT_EQ(tools->size(), 2u);
  EXPECT_EQ((*tools)[0].name(), "f");
  EXPECT_EQ((*tools)[0].description(), "D");
  EXPECT_EQ((*tools)[0].parameters(), R"({"type":"object"})");
  EXPECT_EQ((*tools)[1].name(), "g");
  EXPECT_EQ((*tools)[1].parameters(), "");
}

TEST(ToolsFromJsonTest, SaysWhichToolIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "not JSON"},
      {"{}", "not a JSON array"},
      {"[]", "not a JSON array"},
      {"[1]", "tool 1: is not an object"},
      {R"([{"name":"f"},{}])", "tool 2: '' is no name"},
      {R"([{"name":1}])", "tool 1: has a name that is no text"},
      {R"([{"function":1}])", "tool 1: has a function"},
      {R"([{"name":"f","parameters":{"properties":1}}])",
       "'properties' is not an object"},
  };
  for (const auto& [json, words] : cases) {
    const auto tools = ToolsFromJson(json);
    EXPECT_EQ(tools.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(tools.status().message()), HasSubstr(words));
  }
}

TEST(ToolsFromJsonTest, HasALimit) {
  const auto list = [](int64_t n) {
    auto tools = nlohmann::json::array();
    for (int64_t i = 0; i < n; ++i) {
      tools.push_back({{"name", absl::StrCat("f", i)}});
    }
    return ToolsFromJson(tools.dump()).ok();
  };
  EXPECT_TRUE(list(worker::kMaxTools));
  EXPECT_FALSE(list(worker::kMaxTools + 1));
}

TEST(ToolCallLineTest, IsAJsonObject) {
  v1::ToolCall call;
  call.set_name("f");
  call.set_arguments(R"({"k":[1]})");
  EXPECT_EQ(ToolCallLine(call), "{\"name\":\"f\",\"arguments\":{\"k\":[1]}}\n");
  v1::ToolCall broken;
  broken.set_error("why");
  broken.set_text("call:\"\n");
  EXPECT_EQ(ToolCallLine(broken),
            "{\"error\":\"why\",\"text\":\"call:\\\"\\n\"}\n");
}

TEST(ToolFlagsTest, MakeNoSenseWithRaw) {
  const CliResult result = RunCli({"generate", "--model", "m", "--prompt", "x",
                                   "--raw", "--tools", "t.json"});
  EXPECT_EQ(result.code, kExitUsage);
  EXPECT_THAT(result.err, HasSubstr("--tools"));
}

TEST(ToolFlagsTest, ACallNeedsTools) {
  const CliResult result =
      RunCli({"generate", "--model", "m", "--prompt", "x", "--must-call"});
  EXPECT_EQ(result.code, kExitUsage);
  EXPECT_THAT(result.err, HasSubstr("--must-call needs --tools"));
}

TEST(ToolFlagsTest, AFileThatIsNoListIsRefusedBeforeAModelIsLoaded) {
  const CliResult result = RunCliWithInput(
      {"generate", "--model", "m", "--prompt", "x", "--tools", "-"}, "{}");
  EXPECT_EQ(result.code, kExitError);
  EXPECT_THAT(result.err, HasSubstr("--tools: it is not a JSON array"));
}

}  // namespace
}  // namespace plimsoll::cli
