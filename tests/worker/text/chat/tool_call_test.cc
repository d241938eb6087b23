#include "worker/text/chat/tool_call.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/text/chat/tool_text.h"

namespace plimsoll::worker {
namespace {

using ::testing::HasSubstr;

// `text` as a reader gives it, with marks for "<escape>".
std::string Marked(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"<escape>", "\xFF"}});
}

std::string Error(absl::string_view text) {
  const auto call = ParseToolCall(Marked(text));
  EXPECT_EQ(call.status().code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(call.status().message());
}

TEST(ParseToolCallTest, ArgumentsBecomeJson) {
  const std::pair<absl::string_view, absl::string_view> cases[] = {
      {"call:f{}", "{}"},
      {"call:f{k:<escape>v<escape>,n:1,b:true}", R"({"k":"v","n":1,"b":true})"},
      {"call:f{a:[1,-2.50,3e+7,<escape><escape>,null,[]],o:{x:{},y:false}}",
       R"({"a":[1,-2.50,3e+7,"",null,[]],"o":{"x":{},"y":false}})"},
      // What is between marks is text, whatever it looks like.
      {"call:f{k:<escape>a,b:}{\"\\\n\xC3\xA9<escape>}",
       "{\"k\":\"a,b:}{\\\"\\\\\\n\xC3\xA9\"}"},
      {"call:f{<escape>a b:<escape>:<escape>true<escape>}",
       R"({"a b:":"true"})"},
      {" call:f{ k : 1 ,\n l : [ true , <escape> x <escape> ] } ",
       R"({"k":1,"l":[true," x "]})"},
      {"call:f{n:123456789012345678901234567890}",
       R"({"n":123456789012345678901234567890})"},
  };
  for (const auto& [text, json] : cases) {
    const auto call = ParseToolCall(Marked(text));
    ASSERT_TRUE(call.ok()) << text << ": " << call.status();
    EXPECT_EQ(call->name, "f");
    EXPECT_EQ(call->arguments, json);
  }
}

TEST(ParseToolCallTest, WhatIsNoCallIsRefusedByItsReason) {
  const std::pair<absl::string_view, absl::string_view> cases[] = {
      {"", "begins with 'call:'"},
      {"cal:f{}", "begins with 'call:'"},
      {"call:{}", "'' is no name"},
      {"call:1f{}", "'1f' is no name"},
      {"call:a b{}", "'a b' is no name"},
      {"call:f", "not followed by '{'"},
      {"call:f[]", "not followed by '{'"},
      {"call:f{", "a value has no name"},
      {"call:f{k", "'k' is not followed by ':'"},
      {"call:f{k:", "'' is no number"},
      {"call:f{k:1", "',' or '}' is missing"},
      {"call:f{k:1 l:2}", "'1 l' is no number"},
      {"call:f{k:1,}", "a value has no name"},
      {"call:f{,k:1}", "a value has no name"},
      {"call:f{k:London}", "'London' is no number"},
      {"call:f{k:True}", "'True' is no number"},
      {"call:f{k:01}", "'01' is no number"},
      {"call:f{k:1.}", "'1.' is no number"},
      {"call:f{k:.5}", "'.5' is no number"},
      {"call:f{k:1e}", "'1e' is no number"},
      {"call:f{k:-}", "'-' is no number"},
      {"call:f{k:NaN}", "'NaN' is no number"},
      {"call:f{k:[1", "',' or ']' is missing"},
      {"call:f{k:[1,]}", "'' is no number"},
      {"call:f{k:[1}}", "',' or ']' is missing"},
      {"call:f{k:<escape>v}", "a string is not closed"},
      {"call:f{k:<escape>v<escape>w<escape>}", "',' or '}' is missing"},
      {"call:f{<escape>k}", "a string is not closed"},
      {"call:f{k:1,k:2}", "'k' is named twice"},
      {"call:f{k:1}x", "'x' follows the closing '}'"},
      {"call:f{k:1}}", "'}' follows the closing '}'"},
      {"call:f{k:]}", "'' is no number"},
  };
  for (const auto& [text, words] : cases) {
    EXPECT_THAT(Error(text), HasSubstr(std::string(words))) << text;
  }
}

TEST(ParseToolCallTest, DepthSizeAndNamesHaveLimits) {
  const auto nested = [](int depth) {
    // The arguments themselves are the first level.
    const auto n = static_cast<size_t>(depth - 1);
    return absl::StrCat("call:f{k:", std::string(n, '['), std::string(n, ']'),
                        "}");
  };
  EXPECT_TRUE(ParseToolCall(nested(kMaxToolCallDepth)).ok());
  EXPECT_THAT(Error(nested(kMaxToolCallDepth + 1)), HasSubstr("nested more"));
  EXPECT_THAT(Error(absl::StrCat("call:f{k:", std::string(60'000, '['))),
              HasSubstr("nested more"));

  const auto long_call = [](int64_t bytes) {
    std::string call = "call:f{k:\xFF\xFF}";
    call.insert(10, static_cast<size_t>(bytes) - call.size(), 'x');
    return call;
  };
  EXPECT_TRUE(ParseToolCall(long_call(kMaxToolCallBytes)).ok());
  EXPECT_THAT(Error(long_call(kMaxToolCallBytes + 1)),
              HasSubstr("longer than"));

  const std::string name(static_cast<size_t>(kMaxToolNameBytes), 'n');
  EXPECT_TRUE(ParseToolCall(absl::StrCat("call:", name, "{}")).ok());
  EXPECT_THAT(Error(absl::StrCat("call:", name, "n{}")), HasSubstr("no name"));
}

TEST(ParseToolCallTest, TextThatIsNotUtf8IsReplaced) {
  const auto call = ParseToolCall("call:f{k:\xFF\xC3(\xFF}");
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(call->arguments, "{\"k\":\"\xEF\xBF\xBD(\"}");
}

std::string Written(absl::StatusOr<std::string> text) {
  EXPECT_TRUE(text.ok()) << text.status();
  return absl::StrReplaceAll(text.value_or(""), {{"\xFF", "<escape>"}});
}

TEST(WriteToolCallTest, IsReadAgain) {
  const std::pair<absl::string_view, absl::string_view> cases[] = {
      {"", "{}"},
      {R"({"b": 1, "A": "x", "c": [true, null, 2.5, {"z": "", "y": []}]})",
       R"({"A":"x","b":1,"c":[true,null,2.5,{"y":[],"z":""}]})"},
      {R"({"a b": "<escape>", "1": "<end_function_call>}", "t": "true"})",
       R"({"1":"<end_function_call>}","a b":"<escape>","t":"true"})"},
      {R"({"q": "\"\\\n\u00e9\u0000"})",
       "{\"q\":\"\\\"\\\\\\n\xC3\xA9\\u0000\"}"},
  };
  for (const auto& [json, again] : cases) {
    const auto text = WriteToolCall({"get_it", std::string(json)});
    ASSERT_TRUE(text.ok()) << json << ": " << text.status();
    const auto call = ParseToolCall(*text);
    ASSERT_TRUE(call.ok()) << *text << ": " << call.status();
    EXPECT_EQ(call->name, "get_it");
    EXPECT_EQ(call->arguments, again);
  }
}

TEST(WriteToolCallTest, TextIsAsTheFormatHasIt) {
  EXPECT_EQ(Written(WriteToolCall(
                {"f", R"({"n":1,"k":"v","b":true,"x y":[1,{"q":null}]})"})),
            "call:f{b:true,k:<escape>v<escape>,n:1,"
            "<escape>x y<escape>:[1,{q:null}]}");
}

TEST(WriteToolCallTest, RefusesWhatIsNoObject) {
  const auto error = [](std::string name, std::string json) {
    const auto text = WriteToolCall({std::move(name), std::move(json)});
    EXPECT_EQ(text.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(text.status().message());
  };
  EXPECT_THAT(error("f", "[1]"), HasSubstr("not an object"));
  EXPECT_THAT(error("f", "{"), HasSubstr("not JSON"));
  EXPECT_THAT(error("f", R"({"a":1,"a":2})"), HasSubstr("named twice"));
  EXPECT_THAT(error("f", "{\"a\":\"\xFF\"}"), HasSubstr("not JSON"));
  EXPECT_THAT(error("<escape>", "{}"), HasSubstr("no name of a tool"));
  EXPECT_THAT(error("f{", "{}"), HasSubstr("no name of a tool"));
  const auto arguments = [](int64_t bytes) {
    const auto n = static_cast<size_t>(bytes) - 8;
    return nlohmann::json{{"k", std::string(n, 'x')}}.dump();
  };
  EXPECT_TRUE(WriteToolCall({"f", arguments(kMaxToolCallBytes)}).ok());
  EXPECT_THAT(error("f", arguments(kMaxToolCallBytes + 1)),
              HasSubstr("longer than"));
}

TEST(WriteToolResponseTest, WhatIsNoObjectIsAValue) {
  EXPECT_EQ(Written(WriteToolResponse("f", R"({"t":20.5,"Sky":"blue"})")),
            "response:f{Sky:<escape>blue<escape>,t:20.5}");
  EXPECT_EQ(Written(WriteToolResponse("f", "\"done\"")),
            "response:f{value:<escape>done<escape>}");
  EXPECT_EQ(Written(WriteToolResponse("f", "[1,2]")),
            "response:f{value:[1,2]}");
  EXPECT_EQ(WriteToolResponse("f", "done").status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(WriteToolDeclarationTest, SchemasAreSortedAndTypesUpperCase) {
  const Tool tool = {"get_weather", "Weather of a \"city\"", R"({
      "type": "object", "$schema": "x", "additionalProperties": false,
      "required": ["city"],
      "properties": {
        "unit": {"type": "string", "enum": ["C", "F"]},
        "city": {"type": "string", "description": "Name", "minLength": 1},
        "Days": {"type": "array", "items": {"type": ["integer", "null"]}},
        "at": {"type": "object", "properties": {"x": {"type": "number"}},
               "required": ["x"]}}})"};
  EXPECT_EQ(
      Written(WriteToolDeclaration(tool)),
      "declaration:get_weather{description:<escape>Weather of a "
      "\"city\"<escape>,parameters:{properties:{"
      "at:{properties:{x:{type:<escape>NUMBER<escape>}},"
      "required:[<escape>x<escape>],type:<escape>OBJECT<escape>},"
      "city:{description:<escape>Name<escape>,type:<escape>STRING<escape>},"
      "Days:{items:{type:[<escape>INTEGER<escape>,<escape>NULL<escape>]},"
      "type:<escape>ARRAY<escape>},"
      "unit:{enum:[<escape>C<escape>,<escape>F<escape>],"
      "type:<escape>STRING<escape>}},"
      "required:[<escape>city<escape>],type:<escape>OBJECT<escape>}}");
  EXPECT_EQ(Written(WriteToolDeclaration({"ping", "", ""})),
            "declaration:ping{description:<escape><escape>}");
}

TEST(WriteToolDeclarationTest, RefusesSchemasThatMakeNoSense) {
  const std::pair<absl::string_view, absl::string_view> cases[] = {
      {"{", "not JSON"},
      {"[]", "not an object"},
      {R"({"type":"string"})", "its type is not"},
      {R"({"type":["object"]})", "its type is not"},
      {R"({"properties":[]})", "'properties' is not an object"},
      {R"({"properties":{"a":true}})", "a schema is not an object"},
      {R"({"properties":{"a":{"type":1}}})", "'type' is no name"},
      {R"({"properties":{"a":{"type":[1]}}})", "'type' has what is no name"},
      {R"({"properties":{"a":{"enum":1}}})", "'enum' is not a list"},
      {R"({"properties":{"a":{"description":1}}})", "is not a text"},
      {R"({"properties":{"a":{"items":[]}}})", "a schema is not an object"},
      {R"({"required":"a"})", "'required' is not a list"},
  };
  for (const auto& [parameters, words] : cases) {
    const auto text = WriteToolDeclaration({"f", "", std::string(parameters)});
    EXPECT_EQ(text.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(text.status().message()),
                HasSubstr(std::string(words)))
        << parameters;
  }
  EXPECT_FALSE(WriteToolDeclaration({"f", "\xFF", ""}).ok());
}

TEST(WriteToolDeclarationTest, ToolsHaveLimits) {
  const auto with = [](int64_t bytes) {
    const auto n = static_cast<size_t>(bytes) - 1;
    return WriteToolDeclaration({"f", std::string(n, 'x'), ""}).ok();
  };
  EXPECT_TRUE(with(kMaxToolBytes));
  EXPECT_FALSE(with(kMaxToolBytes + 1));
  const std::string name(static_cast<size_t>(kMaxToolNameBytes), 'n');
  EXPECT_TRUE(WriteToolDeclaration({name, "", ""}).ok());
  EXPECT_FALSE(WriteToolDeclaration({name + "n", "", ""}).ok());
}

}  // namespace
}  // namespace plimsoll::worker
