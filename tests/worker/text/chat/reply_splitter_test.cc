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
std::string Show(const ReplyPart& part) {
  std::string shown = absl::StrCat("R{", part.reasoning, "}T{", part.text, "}");
  for (const ReadToolCall& call : part.calls) {
    if (call.call.ok()) {
      absl::StrAppend(&shown, "C{", call.call->name, " ", call.call->arguments,
                      "}");
    } else {
      absl::StrAppend(&shown, "E{", call.text, "}");
    }
  }
  return shown;
}

std::string Split(const ReplyReading& reading, absl::string_view reply,
                  size_t piece) {
  ReplySplitter splitter(reading);
  ReplyPart part;
  for (size_t i = 0; i < reply.size(); i += piece) {
    splitter.Push(reply.substr(i, piece), part);
  }
  splitter.Finish(part);
  return Show(part);
}

// The parts, which must not depend on how the reply is cut.
std::string Split(const ReplyReading& reading, absl::string_view reply) {
  const std::string whole = Split(reading, reply, reply.size() + 1);
  for (size_t piece = 1; piece < reply.size(); ++piece) {
    EXPECT_EQ(Split(reading, reply, piece), whole) << piece;
  }
  return whole;
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

constexpr char kLight[] = R"(C{light {"room":"the hall","level":3}})";

struct Family {
  const char* sign;
  const char* reply;
};

TEST(ReplySplitter, CallsOfAllFamilies) {
  const Family families[] = {
      {kQwen,
       "<tool_call>\n{\"name\": \"light\", \"arguments\": "
       "{\"room\": \"the hall\", \"level\": 3}}\n</tool_call>"},
      {kQwenCoder,
       "<tool_call>\n<function=light>\n<parameter=room>\nthe hall\n"
       "</parameter>\n<parameter=level>\n3\n</parameter>\n</function>\n"
       "</tool_call>"},
      {kGlm,
       "<tool_call>light\n<arg_key>room</arg_key>\n<arg_value>the hall"
       "</arg_value>\n<arg_key>level</arg_key>\n<arg_value>3</arg_value>\n"
       "</tool_call>"},
      {kMistral, R"([TOOL_CALLS]light[ARGS]{"room":"the hall","level":3})"},
      {kMistral,
       R"([TOOL_CALLS][{"name":"light","arguments":{"room":"the hall",)"
       R"("level":3},"id":"123456789"}])"},
      {kLlama,
       R"({"name": "light", "parameters": {"room": "the hall", "level": 3}})"},
      {kLlama,
       R"(<|python_tag|>{"name": "light", "parameters": {"room": "the hall", )"
       R"("level": 3}})"},
      {kGptOss,
       "<|channel|>commentary to=functions.light <|constrain|>json<|message|>"
       R"({"room":"the hall","level":3}<|call|>)"},
      {kLfm2,
       "<|tool_call_start|>[light(room='the hall', level=3)]"
       "<|tool_call_end|>"},
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
       "<tool_call|>"}};
  for (const Family& family : families) {
    EXPECT_EQ(Split(Reading(family.sign), family.reply),
              absl::StrCat("R{}T{}", kLight))
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
  EXPECT_THAT(Split(Reading(kQwen), reply(kMost), 1000), HasSubstr("C{light"));
  EXPECT_THAT(Split(Reading(kQwen), reply(kMost + 1), 1000), HasSubstr("E{"));
  // Nothing keeps a call that never ends.
  EXPECT_THAT(
      Split(Reading(kQwen),
            absl::StrCat("<tool_call>", std::string(3 * kMost, 'x')), 1000),
      HasSubstr("T{xxx"));
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
