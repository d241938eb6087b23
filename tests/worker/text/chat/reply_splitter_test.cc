#include "worker/text/chat/reply_splitter.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace plimsoll::worker {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

const std::vector<Tool>& Tools() {
  static const auto* const tools =
      new std::vector<Tool>{{.name = "light",
                             .description = "",
                             .parameters = R"({"type":"object","properties":{
           "room":{"type":"string"},"level":{"type":"integer"}}})"}};
  return *tools;
}

// Signs that templates of the families have.
constexpr char kQwen[] = "<think> <tool_call>";
constexpr char kQwenCoder[] = "<think> <tool_call> <function=";
constexpr char kGlm[] = "<think> <tool_call> <arg_key>";
constexpr char kMistral[] = "[THINK] [TOOL_CALLS]";
constexpr char kLlama[] = "<|python_tag|>";
constexpr char kGemma4[] = "<|channel>thought <|tool_call>";
constexpr char kFunctionGemma[] = "<start_function_call>";
constexpr char kGptOss[] = "<|channel|>";
constexpr char kLfm2[] = "<|tool_call_start|>";
constexpr char kDeepSeek[] =
    "<think> <｜tool▁calls▁begin｜> <｜tool▁call▁begin｜>";
constexpr char kKimi[] =
    "<|tool_calls_section_begin|> <|tool_call_argument_begin|>";
constexpr char kCommand[] =
    "<|START_THINKING|> <|START_ACTION|> <|START_RESPONSE|>";
constexpr char kGranite[] = "<|tool_call|>";

ReplyReading Reading(absl::string_view sign) {
  return {.format = FindReplyFormat(sign), .tools = Tools()};
}

// A reply's parts as one text.
std::string Show(const ReplyDelta& delta) {
  std::string shown =
      absl::StrCat("R{", delta.reasoning, "}T{", delta.text, "}");
  for (const ReadToolCall& call : delta.calls) {
    if (call.call.ok()) {
      absl::StrAppend(&shown, "C{", call.call->name, " ", call.call->arguments,
                      "}");
    } else {
      absl::StrAppend(&shown, "E{", call.text, "}");
    }
  }
  return shown;
}

// The pieces of each call, joined.
std::string ShowPieces(const ReplyDelta& delta) {
  std::string shown;
  for (const CallDelta& piece : delta.deltas) {
    if (!piece.name.empty()) {
      absl::StrAppend(&shown, "D", piece.index, "{", piece.name, " ");
    }
    absl::StrAppend(&shown, piece.arguments);
  }
  return shown;
}

// A piece comes before the call that it belongs to, and a valid call has the
// arguments of its pieces.
void ExpectCallsHaveTheirPieces(const ReplyDelta& delta) {
  for (size_t i = 0; i < delta.calls.size(); ++i) {
    std::string name;
    std::string arguments;
    for (const CallDelta& piece : delta.deltas) {
      if (piece.index != static_cast<int64_t>(i)) continue;
      name += piece.name;
      arguments += piece.arguments;
    }
    if (name.empty() || !delta.calls[i].call.ok()) continue;
    EXPECT_EQ(name, delta.calls[i].call->name);
    EXPECT_EQ(arguments, delta.calls[i].call->arguments);
  }
}

ReplyDelta DeltaOf(const ReplyReading& reading, absl::string_view reply,
                   size_t piece) {
  ReplySplitter splitter(reading);
  ReplyDelta delta;
  for (size_t i = 0; i < reply.size(); i += piece) {
    splitter.Push(reply.substr(i, piece), delta);
  }
  splitter.Finish(delta);
  ExpectCallsHaveTheirPieces(delta);
  return delta;
}

std::string Split(const ReplyReading& reading, absl::string_view reply,
                  size_t piece) {
  return Show(DeltaOf(reading, reply, piece));
}

// The whole reply, which must not depend on how it is cut.
ReplyDelta DeltaOf(const ReplyReading& reading, absl::string_view reply) {
  ReplyDelta whole = DeltaOf(reading, reply, reply.size() + 1);
  for (size_t piece = 1; piece < reply.size(); ++piece) {
    const ReplyDelta delta = DeltaOf(reading, reply, piece);
    EXPECT_EQ(Show(delta), Show(whole)) << piece;
    EXPECT_EQ(ShowPieces(delta), ShowPieces(whole)) << piece;
  }
  return whole;
}

std::string Split(const ReplyReading& reading, absl::string_view reply) {
  return Show(DeltaOf(reading, reply));
}

std::string Pieces(const ReplyReading& reading, absl::string_view reply) {
  return ShowPieces(DeltaOf(reading, reply));
}

TEST(ReplySplitter, PlainReplyIsTextAsItIs) {
  EXPECT_EQ(Split(Reading(kQwen), "  Hello, <b>you</b>.\n\n"),
            "R{}T{  Hello, <b>you</b>.\n\n}");
  EXPECT_EQ(Split(Reading(""), "<think>no marks</think>"),
            "R{}T{<think>no marks</think>}");
}

TEST(ReplySplitter, ReasoningIsApart) {
  EXPECT_EQ(Split(Reading(kQwen), "<think>\nHm, two.\n</think>\n\nIt is 2.\n"),
            "R{Hm, two.}T{It is 2.\n}");
  EXPECT_EQ(Split(Reading(kMistral), "[THINK]a[/THINK]b"), "R{a}T{b}");
  EXPECT_EQ(Split(Reading(kGemma4), "<|channel>thought\na\n<channel|>b"),
            "R{a}T{b}");
  EXPECT_EQ(Split(Reading(kCommand),
                  "<|START_THINKING|>a<|END_THINKING|><|START_RESPONSE|>b"
                  "<|END_RESPONSE|>"),
            "R{a}T{b}");
}

TEST(ReplySplitter, ReasoningThatThePromptOpened) {
  ReplyReading reading = Reading(kQwen);
  reading.begins_reasoning = true;
  EXPECT_EQ(Split(reading, "Hm.\n</think>\nYes"), "R{Hm.}T{Yes}");
  EXPECT_EQ(Split(reading, "It never ends"), "R{It never ends}T{}");
}

TEST(ReplySplitter, AValueWithoutQuotesIsAStringIfItsSchemaSaysSo) {
  ReplyReading reading = Reading(kQwenCoder);
  reading.tools[0].parameters = R"({"properties": {
      "a": {"type": "string"}, "b": {"enum": ["5", "6"]}, "c": {},
      "d": {"enum": ["5", 5]}}})";
  std::string call = "<tool_call><function=light>";
  for (const char* name : {"a", "b", "c", "d"}) {
    absl::StrAppend(&call, "<parameter=", name, ">5</parameter>");
  }
  EXPECT_EQ(Split(reading, absl::StrCat(call, "</function></tool_call>")),
            R"(R{}T{}C{light {"a":"5","b":"5","c":5,"d":5}})");
}

TEST(ReplySplitter, MarksInAnAnswerAreText) {
  EXPECT_EQ(Split(Reading(kQwen), "The mark <think>a</think> begins it."),
            "R{}T{The mark <think>a</think> begins it.}");
}

TEST(ReplySplitter, AMarkInAStringIsAPartOfIt) {
  EXPECT_EQ(
      Split(
          Reading(kQwen),
          R"(<tool_call>{"name": "light", "arguments": {"room": "</tool_call>)"
          R"("}}</tool_call>b)"),
      R"(R{}T{b}C{light {"room":"</tool_call>"}})");
  EXPECT_EQ(Split(Reading(kMistral),
                  R"([TOOL_CALLS]light[ARGS]{"room":"[TOOL_CALLS]\""})"
                  R"([TOOL_CALLS]light[ARGS]{})"),
            R"(R{}T{}C{light {"room":"[TOOL_CALLS]\""}}C{light {}})");
}

TEST(ReplySplitter, AQuoteWithoutAMatchHidesNoCallForEver) {
  EXPECT_EQ(Split(Reading(kQwen), R"(<tool_call>{"name": "light}</tool_call>b)"
                                  R"(<tool_call>{"name":"light"}</tool_call>)"),
            R"(R{}T{b}E{{"name": "light}}C{light {}})");
}

TEST(ReplySplitter, WithoutToolsCallsAreText) {
  ReplyReading reading = Reading(kQwen);
  reading.tools.clear();
  EXPECT_EQ(Split(reading, "<tool_call>\n{}\n</tool_call>"),
            "R{}T{<tool_call>\n{}\n</tool_call>}");
}

TEST(ReplySplitter, SomeModelsHaveToolsThatNoRequestDeclares) {
  ReplyReading reading = Reading(kFunctionGemma);
  reading.tools.clear();
  EXPECT_EQ(Split(reading,
                  "a <start_function_call>call:f{k:<escape>v<escape>}"
                  "<end_function_call><start_function_response>"),
            R"(R{}T{a}C{f {"k":"v"}})");
  // The marks of another model's strings are none here.
  EXPECT_EQ(Split(reading,
                  "<start_function_call>call:f{k:<|\"|>v<|\"|>}"
                  "<end_function_call>"),
            "R{}T{}E{call:f{k:<|\"|>v<|\"|>}}");
}

constexpr char kLight[] = R"(C{light {"room":"the hall","level":3}})";

struct Family {
  const char* sign;
  const char* reply;
  bool is_streamed = true;
};

TEST(ReplySplitter, CallsOfAllFamilies) {
  const Family families[] = {
      {kQwen,
       "<tool_call>\n{\"name\": \"light\", \"arguments\": "
       "{\"room\": \"the hall\", \"level\": 3}}\n</tool_call>"},
      {kQwenCoder,
       "<tool_call>\n<function=light>\n<parameter=room>\nthe hall\n"
       "</parameter>\n<parameter=level>\n3\n</parameter>\n</function>\n"
       "</tool_call>",
       false},
      {kGlm,
       "<tool_call>light\n<arg_key>room</arg_key>\n<arg_value>the hall"
       "</arg_value>\n<arg_key>level</arg_key>\n<arg_value>3</arg_value>\n"
       "</tool_call>",
       false},
      {kMistral, R"([TOOL_CALLS]light[ARGS]{"room":"the hall","level":3})"},
      {kMistral,
       R"([TOOL_CALLS][{"name":"light","arguments":{"room":"the hall",)"
       R"("level":3},"id":"123456789"}])"},
      {kLlama,
       R"({"name": "light", "parameters": {"room": "the hall", "level": 3}})",
       false},
      {kLlama,
       R"(<|python_tag|>{"name": "light", "parameters": {"room": "the hall", )"
       R"("level": 3}})",
       false},
      {kGptOss,
       "<|channel|>commentary to=functions.light <|constrain|>json<|message|>"
       R"({"room":"the hall","level":3}<|call|>)"},
      {kLfm2,
       "<|tool_call_start|>[light(room='the hall', level=3)]"
       "<|tool_call_end|>",
       false},
      {kDeepSeek,
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>light<｜tool▁sep｜>"
       R"({"room":"the hall","level":3})"
       "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
      {kDeepSeek,
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>"
       "light\n"
       "```json\n{\"room\":\"the hall\",\"level\":3}\n```"
       "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
      {kKimi,
       "<|tool_calls_section_begin|><|tool_call_begin|>functions.light:0"
       "<|tool_call_argument_begin|>{\"room\":\"the hall\",\"level\":3}"
       "<|tool_call_end|><|tool_calls_section_end|>"},
      {kCommand,
       "<|START_ACTION|>[{\"tool_call_id\":\"0\",\"tool_name\":\"light\","
       "\"parameters\":{\"room\":\"the hall\",\"level\":3}}]<|END_ACTION|>"},
      {kGranite,
       R"(<|tool_call|>[{"name":"light","arguments":{"room":"the hall",)"
       R"("level":3}}])"},
      {kGemma4,
       "<|tool_call>call:light{room:<|\"|>the hall<|\"|>,level:3}"
       "<tool_call|>",
       false},
      {kFunctionGemma,
       "<start_function_call>call:light{room:<escape>the hall<escape>,level:3}"
       "<end_function_call><start_function_response>",
       false}};
  for (const Family& family : families) {
    const ReplyDelta delta = DeltaOf(Reading(family.sign), family.reply);
    EXPECT_EQ(Show(delta), absl::StrCat("R{}T{}", kLight)) << family.reply;
    EXPECT_EQ(
        ShowPieces(delta),
        family.is_streamed ? R"(D0{light {"room":"the hall","level":3})" : "")
        << family.reply;
  }
}

TEST(ReplySplitter, ReasoningTextAndSeveralCalls) {
  const std::string call =
      "<tool_call>\n{\"name\":\"light\",\"arguments\":{\"room\":\"the hall\","
      "\"level\":3}}\n</tool_call>";
  EXPECT_EQ(Split(Reading(kQwen),
                  absl::StrCat("<think>\nBoth.\n</think>\n\nOf course.\n", call,
                               "\n", call)),
            absl::StrCat("R{Both.}T{Of course.}", kLight, kLight));
  EXPECT_EQ(Split(Reading(kGptOss),
                  "<|channel|>analysis<|message|>Hm<|end|><|start|>assistant"
                  "<|channel|>final<|message|>It is on."),
            "R{Hm}T{It is on.}");
}

TEST(ReplySplitter, CallsThatAreNotValidAreReported) {
  EXPECT_EQ(Split(Reading(kQwen), "<tool_call>{\"name\": 3}</tool_call>"),
            "R{}T{}E{{\"name\": 3}}");
  EXPECT_EQ(Split(Reading(kQwen), "<tool_call>{\"name\": \"li"),
            "R{}T{}E{{\"name\": \"li}");
  EXPECT_EQ(Split(Reading(kLfm2),
                  "<|tool_call_start|>light(room=hall)<|tool_call_end|>"),
            "R{}T{}E{light(room=hall)}");
  // A reply in JSON that is no call is an answer.
  EXPECT_EQ(Split(Reading(kLlama), R"({"answer": 42})"),
            R"(R{}T{{"answer": 42}})");
}

TEST(ReplySplitter, ArgumentsComeWhileTheModelWritesThem) {
  ReplySplitter splitter(Reading(kQwen));
  const auto push = [&](absl::string_view text) {
    ReplyDelta delta;
    splitter.Push(text, delta);
    return absl::StrCat(ShowPieces(delta), Show(delta));
  };
  EXPECT_EQ(push("On.<tool_call>\n{\"name\": \"light"), "R{}T{On.}");
  EXPECT_EQ(push("\", \"arguments\": "), "R{}T{}");
  EXPECT_EQ(push("{"), "D0{light {R{}T{}");
  EXPECT_EQ(push("\"room\": \"the "), "\"room\":\"the R{}T{}");
  EXPECT_EQ(push("hall <"), "hall R{}T{}");  // what may be a mark waits
  EXPECT_EQ(push("\"}"), "<\"}R{}T{}");
  EXPECT_EQ(push("}\n</tool_call>"), R"(R{}T{}C{light {"room":"the hall <"}})");
}

TEST(ReplySplitter, EachCallHasItsPlace) {
  constexpr char kTwo[] =
      R"(<tool_call>{"name":"a","arguments":{"x":1}}</tool_call>)"
      R"(<tool_call>{"name":"-"}</tool_call>)"
      R"(<tool_call>{"name":"b","arguments":{}}</tool_call>)";
  EXPECT_EQ(Pieces(Reading(kQwen), kTwo), R"(D0{a {"x":1}D2{b {})");
  constexpr char kOpenEnded[] =
      R"([TOOL_CALLS]a[ARGS]{"x":1}[TOOL_CALLS]b[ARGS]{"x":2})";
  EXPECT_EQ(Pieces(Reading(kMistral), kOpenEnded),
            R"(D0{a {"x":1}D1{b {"x":2})");
  // The first call of a list is streamed, and the places go on behind all.
  constexpr char kList[] =
      R"(<tool_call>[{"name":"a","arguments":{}},{"name":"b"}]</tool_call>)"
      R"(<tool_call>{"name":"c","arguments":{}}</tool_call>)";
  EXPECT_EQ(Pieces(Reading(kQwen), kList), "D0{a {}D2{c {}");
  EXPECT_EQ(Split(Reading(kQwen), kList), "R{}T{}C{a {}}C{b {}}C{c {}}");
}

TEST(ReplySplitter, ACallMayFailAfterItsPieces) {
  constexpr char kBroken[] =
      R"(<tool_call>{"name":"a","arguments":{"x":tru}}</tool_call>.)";
  EXPECT_EQ(Pieces(Reading(kQwen), kBroken), R"(D0{a {"x":tru})");
  EXPECT_EQ(Split(Reading(kQwen), kBroken),
            R"(R{}T{.}E{{"name":"a","arguments":{"x":tru}}})");
  constexpr char kCut[] = R"(<tool_call>{"name":"a","arguments":{"x":"1</tool)";
  EXPECT_EQ(Pieces(Reading(kQwen), kCut), R"(D0{a {"x":"1</tool)");
  EXPECT_EQ(Split(Reading(kQwen), kCut),
            R"(R{}T{}E{{"name":"a","arguments":{"x":"1</tool})");
  constexpr char kTwice[] =
      R"(<tool_call>{"tool_name":"a","args":{"x":1},"name":"b"}</tool_call>)";
  EXPECT_EQ(Pieces(Reading(kQwen), kTwice), R"(D0{a {"x":1})");
  EXPECT_THAT(Split(Reading(kQwen), kTwice), HasSubstr("E{"));
}

TEST(ReplySplitter, ArgumentsAreWhatTheSchemaSays) {
  EXPECT_EQ(Split(Reading(kQwenCoder),
                  "<tool_call><function=light><parameter=room>12</parameter>"
                  "<parameter=other>[1, 2]</parameter></function></tool_call>"),
            R"(R{}T{}C{light {"room":"12","other":[1,2]}})");
}

TEST(ReplySplitter, CallsAreLimited) {
  const auto reply = [](size_t n) {
    const std::string begin = R"({"name":"light","arguments":{"room":")";
    const std::string end = R"("}})";
    return absl::StrCat("<tool_call>", begin,
                        std::string(n - begin.size() - end.size(), 'x'), end,
                        "</tool_call>");
  };
  constexpr auto kMost = static_cast<size_t>(kMaxToolCallBytes);
  for (const size_t piece : {size_t{1000}, kMost - 3, 2 * kMost}) {
    EXPECT_THAT(Split(Reading(kQwen), reply(kMost), piece),
                HasSubstr("C{light"));
    const ReplyDelta delta = DeltaOf(Reading(kQwen), reply(kMost + 1), piece);
    EXPECT_THAT(Show(delta), StartsWith("R{}T{</tool_call>}E{"));
    EXPECT_EQ(ShowPieces(delta),
              ShowPieces(DeltaOf(Reading(kQwen), reply(kMost + 1), 7)));
  }
  // Nothing keeps a call that never ends.
  EXPECT_THAT(
      Split(Reading(kQwen),
            absl::StrCat("<tool_call>", std::string(3 * kMost, 'x')), 1000),
      HasSubstr("T{xxx"));
}

TEST(ReplySplitter, AClearedPartIsEmpty) {
  ReplyDelta delta;
  delta.text = "a";
  delta.reasoning = "b";
  delta.calls.emplace_back();
  delta.deltas.emplace_back();
  delta.Clear();
  EXPECT_THAT(delta.text, IsEmpty());
  EXPECT_THAT(delta.reasoning, IsEmpty());
  EXPECT_THAT(delta.calls, IsEmpty());
  EXPECT_THAT(delta.deltas, IsEmpty());
}

TEST(ReplySplitter, PythonValues) {
  EXPECT_EQ(Split(Reading(kLfm2),
                  R"(<|tool_call_start|>[light(a="it's", b=True, c=None, )"
                  R"(d=[1, -2.5e3], e={'k': 'v'}), light()]<|tool_call_end|>)"),
            R"(R{}T{}C{light {"a":"it's","b":true,"c":null,"d":[1,-2.5e3],)"
            R"("e":{"k":"v"}}}C{light {}})");
  std::string deep = "light(a=";
  for (int i = 0; i < 63; ++i) deep += '[';
  for (int i = 0; i < 63; ++i) deep += ']';
  const auto wrapped = [](const std::string& call) {
    return absl::StrCat("<|tool_call_start|>", call, "<|tool_call_end|>");
  };
  EXPECT_THAT(Split(Reading(kLfm2), wrapped(absl::StrCat(deep, ")")), 7),
              HasSubstr("C{"));
  EXPECT_THAT(
      Split(Reading(kLfm2),
            wrapped(absl::StrCat("light(a=[", deep.substr(8), "])")), 7),
      HasSubstr("E{"));
}

}  // namespace
}  // namespace plimsoll::worker
