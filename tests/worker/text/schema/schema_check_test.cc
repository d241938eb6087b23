#include "worker/text/schema/schema_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/json.h"
#include "tests/worker/text/grammar/grammar_match.h"
#include "worker/text/schema/schema_grammar.h"

namespace plimsoll::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct CheckCase {
  std::string schema;
  std::vector<std::string> valid;
  std::vector<std::string> invalid;
};

void ExpectChecksWith(const SchemaOptions& options,
                      const std::vector<CheckCase>& cases) {
  for (const CheckCase& one : cases) {
    SCOPED_TRACE(one.schema);
    const auto check = SchemaCheck::Make(one.schema, options);
    ASSERT_TRUE(check.ok()) << check.status();
    for (const std::string& text : one.valid) {
      EXPECT_TRUE((*check)->Check(text).is_accepted) << text;
    }
    for (const std::string& text : one.invalid) {
      EXPECT_FALSE((*check)->Check(text).is_accepted) << text;
    }
  }
}

void ExpectChecks(const std::vector<CheckCase>& cases) {
  ExpectChecksWith({}, cases);
}

TEST(SchemaCheckTest, OrderSpaceAndSpellingAreFree) {
  ExpectChecks({{R"({"type":"object","properties":{"a":{"type":"integer"},)"
                 R"("b":{"enum":["x/y"]}},"required":["a","b"]})",
                 {"{ \"b\" :\t\"x\\/y\",\r\n\"\\u0061\": 1e2 }",
                  R"({"b":"x/y","a":1.0,"c":[ ]})"},
                 {R"({"b":"x/y","a":1.5})", R"({"a":1})",
                  R"({"a":1,"b":"x/y","b":"x/y"})", R"({"a":1,"b":"x/y")"}}});
}

TEST(SchemaCheckTest, SaysHowFarATextFits) {
  const auto check = *SchemaCheck::Make(
      R"({"type":"object","properties":{"a":{"items":{"type":"null"}}}})", {});
  const Verdict fits = check->Check(R"({"a": [null]} )");
  EXPECT_TRUE(fits.is_accepted);
  EXPECT_EQ(fits.at, 14u);
  EXPECT_EQ(check->Check(R"({"a": [null, 5]})").at, 13u);
  EXPECT_EQ(check->Check(R"({"a": nul})").at, 6u);
  EXPECT_EQ(check->Check("[]").at, 0u);
}

TEST(SchemaCheckTest, Numbers) {
  ExpectChecks({
      {R"({"type":"number","minimum":-1.5,"exclusiveMaximum":2})",
       {"-1.5", "-1.50", "0", "1.9999", "1e-3", "0.5e0"},
       {"-1.51", "2", "2.0", "20", "-2"}},
      {R"({"type":"number","exclusiveMinimum":0})",
       {"0.001", "3.141592653589793", "1000000"},
       {"0", "-0.0", "-1"}},
      {R"({"type":"integer","multipleOf":7,"minimum":-20})",
       {"-14", "0", "7", "700", "7e2"},
       {"-21", "1", "8", "7.5"}},
      {R"({"multipleOf":0.01})", {"1", "0.25", "-3.1", "null"}, {"0.125"}},
      {R"({"multipleOf":2.5})", {"2.5", "5", "-7.5", "10.0"}, {"2", "7"}},
      {R"({"type":"number","not":{"type":"integer"}})", {"1.5"}, {"1", "2.0"}},
      {R"({"type":"number","not":{"enum":[1,2.5]}})",
       {"3", "2.51", "1.5"},
       {"1", "1.0", "2.5", "25e-1"}},
      {R"({"minimum":3,"exclusiveMinimum":true})", {"4", "3.01"}, {"3"}},
  });
}

TEST(SchemaCheckTest, Strings) {
  ExpectChecks({
      {R"({"type":"string","pattern":"^[A-z]+$","minLength":3,"maxLength":5})",
       {R"("abc")", R"("abcde")"},
       {R"("ab")", R"("abcdef")", R"("ab1")"}},
      {R"({"type":"string","allOf":[{"pattern":"a"},{"pattern":"b$"}]})",
       {R"("ab")", R"("xaxb")"},
       {R"("a")", R"("b")", R"("ba")"}},
      {R"({"type":"string","not":{"pattern":"^x"}})",
       {R"("")", R"("yx")"},
       {R"("x")", R"("xy")"}},
      {R"x({"type":"string","pattern":"^(?!foo)[a-z]+$"})x",
       {R"("fo")", R"("barfoo")"},
       {R"("foo")", R"("foobar")"}},
      {R"({"type":"string","not":{"enum":["up","down"]},"maxLength":4})",
       {R"("u")", R"("upp")", R"("")"},
       {R"("up")", R"("down")", R"("downs")"}},
      {R"({"type":"string","maxLength":32767})", {R"("abc")"}, {"1"}},
  });
  const auto check = *SchemaCheck::Make(
      R"({"type":"string","minLength":300,"maxLength":1000})", {});
  for (const size_t n : {299u, 300u, 511u, 512u, 768u, 1000u, 1001u}) {
    EXPECT_EQ(check->Check("\"" + std::string(n, 'x') + "\"").is_accepted,
              n >= 300 && n <= 1000)
        << n;
  }
}

TEST(SchemaCheckTest, Objects) {
  ExpectChecks({
      {R"({"type":"object","minProperties":1,"maxProperties":2})",
       {R"({"a":1})", R"({"a":1,"b":2})"},
       {"{}", R"({"a":1,"b":2,"c":3})"}},
      {R"({"type":"object","additionalProperties":false,"minProperties":2,)"
       R"("properties":{"a":{},"b":{},"c":{}}})",
       {R"({"a":1,"c":1})", R"({"a":1,"b":1,"c":1})"},
       {R"({"a":1})", R"({"a":1,"d":1})"}},
      {R"({"type":"object","patternProperties":{"^n":{"type":"number"},)"
       R"("s$":{"type":"string"}},"additionalProperties":{"type":"null"}})",
       {R"({"n":1,"s":"x","o":null,"n1":2})", "{}"},
       {R"({"ns":1})", R"({"ns":"x"})", R"({"o":1})", R"({"n":"x"})"}},
      {R"({"type":"object","propertyNames":{"maxLength":2}})",
       {R"({"ab":1})"},
       {R"({"abc":1})"}},
      {R"({"type":"object","dependentRequired":{"a":["b","c"]}})",
       {"{}", R"({"b":1})", R"({"a":1,"b":1,"c":1})"},
       {R"({"a":1})", R"({"a":1,"b":1})"}},
      {R"({"type":"object","dependencies":{"a":{"required":["z"]}}})",
       {"{}", R"({"a":1,"z":1})"},
       {R"({"a":1})"}},
      {R"({"type":"object","not":{"required":["a"]}})",
       {R"({"b":1})"},
       {R"({"a":1})"}},
      {R"({"type":"object","not":{"additionalProperties":{"type":"null"}}})",
       {R"({"a":null,"b":1,"c":2})", R"({"b":1})"},
       {"{}", R"({"a":null})"}},
      {R"({"properties":{"a":{"type":"null"}},"required":["a","q"],)"
       R"("allOf":[{"properties":{"a":true,"b":{"const":2}}}]})",
       {R"({"q":5,"b":2,"a":null})", "7"},
       {R"({"a":null})", R"({"q":1,"a":null,"b":3})"}},
  });
}

TEST(SchemaCheckTest, Arrays) {
  ExpectChecks({
      {R"({"type":"array","contains":{"const":5},"maxItems":3})",
       {"[5]", "[1,5]", "[5,5,5]", "[null,1,5]"},
       {"[]", "[1]", "[1,2,3,5]"}},
      {R"({"type":"array","contains":{"type":"null"},"minContains":2,)"
       R"("maxContains":2,"items":{"type":["null","integer"]}})",
       {"[null,null]", "[1,null,2,null]"},
       {"[null]", "[null,null,null]", "[null,null,true]"}},
      {R"({"type":"array","uniqueItems":true,"items":{"enum":["a","b",1]}})",
       {"[]", R"(["b","a"])", R"([1,"a","b"])"},
       {R"(["a","a"])", R"(["c"])"}},
      {R"({"items":[{"type":"null"}],"additionalItems":false})",
       {"[]", "[null]", "{}"},
       {"[1]", "[null,null]"}},
      {R"({"type":"array","not":{"items":{"type":"integer"}}})",
       {"[1,null]", "[1.5]"},
       {"[]", "[1,2]"}},
  });
}

TEST(SchemaCheckTest, ChoicesThatExcludeOneAnother) {
  ExpectChecks({
      {R"({"oneOf":[{"type":"integer"},{"minimum":2}]})",
       {"1", "2.5"},
       {"3", "1.5"}},
      {R"({"type":"object","properties":{"r":{},"w":{},"h":{}},"oneOf":[)"
       R"({"required":["r"]},{"required":["w","h"]}]})",
       {R"({"r":1})", R"({"w":1,"h":1})", R"({"r":1,"w":1})"},
       {"{}", R"({"w":1})", R"({"r":1,"w":1,"h":1})"}},
      {R"({"if":{"properties":{"k":{"const":"a"}},"required":["k"]},)"
       R"("then":{"required":["x"]},"else":{"required":["y"]}})",
       {R"({"k":"a","x":1})", R"({"k":"b","y":1})", R"({"y":1})", "5"},
       {R"({"k":"a","y":1})", R"({"k":"b","x":1})", "{}"}},
      {R"({"type":"object","oneOf":[{"properties":{"l":{"$ref":"#"}},)"
       R"("required":["l"]},{"required":["v"]}]})",
       {R"({"v":1})", R"({"l":{"v":1}})", R"({"l":5,"v":1})"},
       {"{}", R"({"l":5})", R"({"l":{"v":1},"v":1})"}},
      {R"({"not":{"type":["string","null"]}})", {"1", "[]"}, {R"("")", "null"}},
      {R"({"enum":[{"a":1,"b":[2]},"x"],"not":{"const":"x"}})",
       {R"({"b":[2],"a":1.0})"},
       {R"("x")", R"({"a":1})", R"({"a":1,"b":[2],"c":3})"}},
      {R"({"allOf":[{"properties":{"a":{"type":"integer"}}}],)"
       R"("unevaluatedProperties":false})",
       {R"({"a":1})", "{}"},
       {R"({"a":1,"b":1})"}},
  });
}

TEST(SchemaCheckTest, Formats) {
  ExpectChecks({
      {R"({"type":"string","format":"email"})",
       {R"("joe.b@example.com")", R"x("\"joe b\"@example.com")x"},
       {R"("joe")", R"("joe@@x.y")", R"("@x.y")"}},
      {R"({"type":"string","format":"hostname"})",
       {R"("a")", R"("www.example.com")", R"("a-b.c1")"},
       {R"("-a")", R"("a..b")", R"("a_b")", R"("")"}},
      {R"({"type":"string","format":"ipv6"})",
       {R"("::1")", R"("1:2:3:4:5:6:7:8")", R"("::ffff:1.2.3.4")", R"("a::")"},
       {R"("1:2:3")", R"("1::2::3")", R"(":::1")", R"("12345::")"}},
      {R"({"type":"string","format":"uri"})",
       {R"("http://a.b/c?d#e")", R"("urn:x:y")", R"("mailto:a@b")"},
       {R"("/a")", R"("a b:c")", R"("http://a b")"}},
      {R"({"type":"string","format":"duration"})",
       {R"("P1DT2H")", R"("PT5M")", R"("P2W")"},
       {R"("P")", R"("PT")", R"("P1D2H")", R"("1D")"}},
      {R"({"type":"string","format":"date"})",
       {R"("2024-02-29")", R"("2000-02-29")"},
       {R"("2023-02-29")", R"("1900-02-29")"}},
  });
}

TEST(SchemaCheckTest, Options) {
  const std::string schema =
      R"({"type":"object","properties":{"a":{"type":"integer"},"b":{}},)"
      R"("required":["b"]})";
  ExpectChecksWith({.closed_objects = true},
                   {{schema, {R"({"b":1})"}, {R"({"b":1,"c":1})"}}});
  const auto free = *CompileSchema(schema, {.any_order = true});
  EXPECT_TRUE(Matches(free.grammar, R"({"b":1,"a":2})"));
  EXPECT_TRUE(Matches(free.grammar, R"({"c":1,"b":1,"a":2})"));
  EXPECT_FALSE(Matches(free.grammar, R"({"a":2})"));
  EXPECT_FALSE(Matches(free.grammar, R"({"b":1,"a":2,"b":1})"));
  const auto spelled = *CompileSchema(
      R"({"type":"object","properties":{"é\"":{"type":"integer"}},)"
      R"("additionalProperties":{"type":"string"}})",
      {.any_spelling = true});
  for (const char* text : {R"({"\u00e9\u0022":1e3})", R"({"é\"":1.0})",
                           R"({"x":"\/\u00E9"})", R"({"x":"\ud83d\uDE00"})"}) {
    EXPECT_TRUE(Matches(spelled.grammar, text)) << text;
  }
  for (const char* text : {R"({"\u00E9\"":"x"})", R"({"x":"\ud83d"})",
                           R"({"x":"\uDE00"})", R"({"é\"":1.5})"}) {
    EXPECT_FALSE(Matches(spelled.grammar, text)) << text;
  }
}

TEST(SchemaCheckTest, ManyPropertiesInAnyOrderAreRefused) {
  nlohmann::ordered_json schema;
  for (int i = 0; i < 12; ++i) {
    schema["properties"]["p" + std::to_string(i)] =
        nlohmann::ordered_json::object();
    const auto made = CompileSchema(schema.dump(), {.any_order = true});
    EXPECT_EQ(made.ok(), i < 11) << made.status();
  }
}

TEST(SchemaCheckTest, ManyConstantsMayExcludeOneAnother) {
  nlohmann::json schema;
  for (int i = 0; i < 2'000; ++i) {
    schema["oneOf"].push_back({{"const", "v" + std::to_string(i)}});
  }
  const auto check = *SchemaCheck::Make(schema.dump(), {});
  EXPECT_TRUE(check->Check(R"("v1999")").is_accepted);
  EXPECT_FALSE(check->Check(R"("v2000")").is_accepted);
}

// Every limit has a name, and passing it takes no long time.
TEST(SchemaCheckTest, WhatWouldGrowBeyondItsLimitIsRefused) {
  nlohmann::ordered_json choices = {{"type", "object"}};
  nlohmann::ordered_json contains = {{"type", "array"}};
  const auto needs = [](const std::string& name) {
    nlohmann::ordered_json schema;
    schema["required"].push_back(name);
    return schema;
  };
  for (int i = 0; i < 16; ++i) {
    const std::string name = std::to_string(i);
    choices["allOf"].push_back(
        {{"anyOf", {needs("a" + name), needs("b" + name)}}});
    contains["allOf"].push_back({{"contains", {{"const", i}}}});
  }
  nlohmann::ordered_json chain = {{"$ref", "#/$defs/a0"}};
  for (int i = 0; i < 1'000; ++i) {
    chain["$defs"]["a" + std::to_string(i)]["$ref"] =
        "#/$defs/a" + std::to_string(i + 1);
  }
  chain["$defs"]["a1000"] = nlohmann::ordered_json::object();
  const std::pair<std::string, std::string> cases[] = {
      {chain.dump(), "more than 256 schemas"},
      {choices.dump(), "too many cases"},
      {contains.dump(), "more than 6 'contain"},
      {R"({"type":"string","pattern":"(a|b)*a(a|b){20}","maxLength":99})",
       "too large"},
      {R"({"type":"integer","multipleOf":99999999})", "up to 100000"},
      {R"({"type":"object","maxProperties":5000,"minProperties":1})",
       "more than 4096 states"},
  };
  for (const auto& [schema, what] : cases) {
    EXPECT_THAT(std::string(CompileSchema(schema, {}).status().message()),
                HasSubstr(what))
        << schema;
  }
}

TEST(SchemaCheckTest, WhatIsNotKnownIsNotedOrRefused) {
  const std::string schema =
      R"({"properties":{"a":{"x-order":1,"format":"int32","title":"t"}}})";
  const auto compiled = CompileSchema(schema, {});
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_THAT(compiled->notes,
              ElementsAre("#/properties/a: the keyword 'x-order' is not known; "
                          "it says nothing about the reply",
                          "#/properties/a: the format 'int32' is not known; it "
                          "says nothing about the reply"));
  EXPECT_THAT(
      std::string(
          CompileSchema(schema, {.refuse_unknown = true}).status().message()),
      HasSubstr("#/properties/a: the keyword 'x-order' is not known"));
}

TEST(SchemaCheckTest, OldDraftsMeanWhatTheySay) {
  ExpectChecks({
      {R"({"$schema":"http://json-schema.org/draft-04/schema#",)"
       R"("id":"http://x/root.json","definitions":{"a":{"id":"#foo",)"
       R"("type":"null"}},"properties":{"p":{"$ref":"#foo"},)"
       R"("id":{"type":"string"}}})",
       {R"({"p":null,"id":"x"})"},
       {R"({"p":1})", R"({"id":1})"}},
      {R"({"$schema":"http://json-schema.org/draft-04/schema#",)"
       R"("type":"integer"})",
       {"1"},
       {"1.0", "1e1"}},
      // Up to draft 7, members beside $ref say nothing.
      {R"({"$schema":"http://json-schema.org/draft-07/schema#",)"
       R"("definitions":{"a":{"type":"integer"}},)"
       R"("$ref":"#/definitions/a","maximum":3})",
       {"5"},
       {R"("x")"}},
      {R"({"$defs":{"a":{"type":"integer"}},"$ref":"#/$defs/a","maximum":3})",
       {"3"},
       {"5"}},
      {R"({"$schema":"http://json-schema.org/draft-03/schema#",)"
       R"("properties":{"a":{"type":"any","required":true}}})",
       {R"({"a":1})"},
       {"{}"}},
      {R"({"$id":"http://x/a","$defs":{"b":{"$id":"b","$anchor":"c",)"
       R"("type":"null"}},"items":{"$ref":"b#c"}})",
       {"[null]"},
       {"[1]"}},
  });
}

// What the grammar says at random, the check lays out as a text of the grammar
// again.
TEST(SchemaCheckTest, WhatIsSaidAtRandomIsAccepted) {
  const char* schemas[] = {
      R"({"oneOf":[{"type":"integer","multipleOf":3,"minimum":-50},)"
      R"({"type":"array","contains":{"const":1},"items":{"enum":[1,2]}}]})",
      R"({"type":"object","patternProperties":{"^a":{"type":"null"}},)"
      R"("maxProperties":2,"additionalProperties":{"enum":["x",1.5]}})",
      R"({"type":"string","pattern":"[ab]c","maxLength":6})",
      R"({"type":"number","minimum":0.5,"exclusiveMaximum":12.25})",
  };
  std::mt19937 random(5);
  for (const char* schema : schemas) {
    const auto check = *SchemaCheck::Make(schema, {});
    int n_whole = 0;
    for (int i = 0; i < 200; ++i) {
      const auto said = RandomText(check->grammar(), random, 200);
      if (!said) continue;
      ++n_whole;
      EXPECT_TRUE(check->Check(*said).is_accepted) << schema << *said;
    }
    EXPECT_GT(n_whole, 50) << schema;
  }
}

}  // namespace
}  // namespace plimsoll::worker
