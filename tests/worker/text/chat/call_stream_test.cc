#include "worker/text/chat/call_stream.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/json.h"

namespace plimsoll::worker {
namespace {

// What a stream hands on of a call that comes byte by byte: its name and its
// arguments, or "" if it is not streamed.
std::string Streamed(CallSyntax syntax, const std::string& text) {
  CallStream stream(syntax);
  std::vector<CallDelta> deltas;
  for (size_t n = 1; n <= text.size(); ++n) {
    stream.Push(absl::string_view(text).substr(0, n), /*index=*/3, deltas);
  }
  std::string joined;
  for (const CallDelta& delta : deltas) {
    EXPECT_EQ(delta.index, 3);
    EXPECT_EQ(delta.name.empty(), &delta != &deltas.front());
    absl::StrAppend(&joined, delta.name, delta.arguments);
  }
  return joined;
}

std::string StreamedJson(const std::string& text) {
  return Streamed(CallSyntax::kJson, text);
}

TEST(CallStream, NameMayFollowOtherMembers) {
  EXPECT_EQ(StreamedJson(R"( [ {"id" : "1", "n": -2.5 ,"type":null,)"
                         R"("name":"f" , "parameters" : { }})"),
            "f{}");
}

TEST(CallStream, ArgumentsKeepTheWordsOfTheModel) {
  EXPECT_EQ(StreamedJson("{\"name\":\"f\",\"arguments\":{ \"a b\" : "
                         "[ 1.50 , 1e2 ],\n\t\"c\":\"\\\"} \\u00e9\\\\\"}, "
                         "\"id\": 7}"),
            "f{\"a b\":[1.50,1e2],\"c\":\"\\\"} \\u00e9\\\\\"}");
}

TEST(CallStream, CallsOfAnotherKindComeWhole) {
  for (const char* text :
       {R"({"arguments":{"a":1},"name":"f"})",      // the name is behind them
        R"({"name":"f","arguments":"{}"})",         // JSON in a string
        R"({"name":"f","arguments":null})",         // none
        R"({"function":{"name":"f","args":{}}})",   // an object of its own
        R"({"name":"\u0066","arguments":{}})",      // a name with escapes
        R"({"name":"not a name","arguments":{}})",  //
        R"({"name":"f","tool_name":"g","args":{}})", R"("f")", ""}) {
    EXPECT_EQ(StreamedJson(text), "") << text;
  }
  EXPECT_EQ(Streamed(CallSyntax::kBareJson, R"({"name":"f","args":{}})"), "");
  EXPECT_EQ(Streamed(CallSyntax::kPython, "[f(a={})]"), "");
  EXPECT_EQ(Streamed(CallSyntax::kKimi, "f:0<|tool_call_argument_begin|>[]"),
            "");
}

TEST(CallStream, HeadsAreLimited) {
  const auto call = [](size_t head) {
    nlohmann::ordered_json call = {{"id", ""}, {"name", "f"}};
    call["args"] = nlohmann::ordered_json::object();
    // Behind the head are "{}" and the last "}".
    const size_t n_other = call.dump().size() - 3;
    call["id"] = std::string(head - n_other, 'x');
    return call.dump();
  };
  EXPECT_EQ(StreamedJson(call(kMaxCallHeadBytes - 1)), "f{}");
  EXPECT_EQ(StreamedJson(call(kMaxCallHeadBytes)), "");
}

TEST(CallStream, FinishedCallIsWhatWasSent) {
  CallStream stream(CallSyntax::kJson);
  std::vector<CallDelta> deltas;
  stream.Push(R"({"name":"f","args":{"a": 1.50}})", 0, deltas);
  const auto calls =
      stream.Finish(std::vector<ToolCall>{{"f", R"({"a":1.5})"}, {"g", "{}"}});
  ASSERT_TRUE(calls.ok()) << calls.status();
  EXPECT_EQ((*calls)[0].arguments, R"({"a":1.50})");
  EXPECT_EQ((*calls)[1].arguments, "{}");
  for (const ToolCall& other :
       {ToolCall{"g", R"({"a":1.5})"}, ToolCall{"f", R"({"a":2})"}}) {
    EXPECT_EQ(stream.Finish(std::vector<ToolCall>{other}).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace plimsoll::worker
