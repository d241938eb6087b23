#include "worker/text/schema/schema_grammar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "tests/worker/text/grammar/grammar_match.h"
#include "worker/text/schema_reader.h"

namespace plimsoll::worker {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

struct SchemaCase {
  std::string schema;
  std::vector<std::string> texts;
  std::vector<std::string> others;
};

void ExpectCases(const std::vector<SchemaCase>& cases) {
  for (const SchemaCase& one : cases) {
    SCOPED_TRACE(one.schema);
    const auto grammar = CompileJsonSchema(one.schema);
    ASSERT_TRUE(grammar.ok()) << grammar.status();
    for (const std::string& text : one.texts) {
      EXPECT_TRUE(Matches(*grammar, text)) << text;
    }
    for (const std::string& text : one.others) {
      EXPECT_FALSE(Matches(*grammar, text)) << text;
    }
  }
}

TEST(SchemaGrammarTest, ValuesWithoutParts) {
  ExpectCases({
      {R"({"type":"null"})", {"null"}, {"nul", "true"}},
      {R"({"type":"boolean"})", {"true", "false"}, {"null", "True"}},
      {R"({"type":"integer"})",
       {"0", "-1", "10", "9999999999999999"},
       {"01", "1.0", "+1", "", "-", "10000000000000000", "1e3"}},
      {R"({"type":"number"})",
       {"0", "-1.5", "1e10", "0.25E-3"},
       {".5", "1.", "1e", "00", "1e100", "NaN"}},
      {R"({"type":["integer","null"]})", {"5", "null"}, {"\"5\"", "true"}},
      {R"({"type":"string"})",
       {R"("")", R"("aé😀")", R"("\"\\\n\u0001")", R"("/")"},
       {R"(")", "\"\n\"", R"("\x")", R"("\u00e9")", "\"\x80\"", R"("""x")"}},
      {R"({"type":"string","minLength":2,"maxLength":3})",
       {R"("ab")", R"("é😀\n")"},
       {R"("a")", R"("abcd")"}},
      {R"({"type":"string","maxLength":0})", {R"("")"}, {R"("a")"}},
      {"true", {"1", "[{}]", R"({"a": [null, "x"]})"}, {"", "a"}},
      {"{}", {"1", "[]", "{}"}, {"[1,]", R"({"a"})", R"({a:1})"}},
  });
}

TEST(SchemaGrammarTest, IntegersWithinBounds) {
  for (const auto& [min, max] : std::vector<std::pair<int, int>>{{0, 0},
                                                                 {0, 9},
                                                                 {3, 7},
                                                                 {-5, 5},
                                                                 {-120, -7},
                                                                 {1, 100},
                                                                 {17, 1234},
                                                                 {-3, 0},
                                                                 {99, 101},
                                                                 {-1000, 1000},
                                                                 {190, 199}}) {
    const Json schema = {
        {"type", "integer"}, {"minimum", min}, {"maximum", max}};
    const auto grammar = CompileJsonSchema(schema.dump());
    ASSERT_TRUE(grammar.ok()) << grammar.status();
    for (int i = -1500; i <= 1500; ++i) {
      EXPECT_EQ(Matches(*grammar, absl::StrCat(i)), i >= min && i <= max)
          << i << " in " << min << " to " << max;
    }
    EXPECT_FALSE(Matches(*grammar, "-0"));
    EXPECT_FALSE(Matches(*grammar, "007"));
  }
  ExpectCases({
      {R"({"type":"integer","exclusiveMinimum":2,"exclusiveMaximum":4})",
       {"3"},
       {"2", "4"}},
      {R"({"type":"integer","minimum":1.5})", {"2", "12345678"}, {"1", "-5"}},
      {R"({"type":"integer","maximum":-1.5})", {"-2", "-99"}, {"-1", "0"}},
      {R"({"type":"integer","exclusiveMinimum":1.5,"maximum":2})",
       {"2"},
       {"1", "3"}},
      {R"({"type":"integer","minimum":9999999999999999})",
       {"9999999999999999"},
       {"9999999999999998"}},
  });
}

TEST(SchemaGrammarTest, Objects) {
  ExpectCases({
      {R"({"type":"object","properties":{"a":{"type":"integer"},)"
       R"("b":{"type":"null"},"c":{"type":"boolean"}},"required":["b"]})",
       {R"({"a":1,"b":null,"c":true})", R"({"b": null})", R"({"b":null,"x":1})",
        R"({"b": null, "c":false})", "{\n  \"a\": 1,\n  \"b\": null\n}"},
       {"{}", R"({"a":1})", R"({"b":null,"a":1})", R"({"b":null,})",
        R"({"b" : null})", "{\n\n\"b\":null}", R"({"b":null,"b":null})"}},
      {R"({"properties":{"a":{"type":"null"}}})",
       {"{}", R"({"a":null})", "[]", R"({"z":null})"},
       {R"({"a":1})"}},
      {R"({"type":"object"})", {"{}", R"({"a":1})"}, {"[]"}},
      {R"({"type":"object","additionalProperties":true})",
       {"{}", R"({"a":1,"b":[]})"},
       {"[]"}},
      {R"({"type":"object","properties":{"ab":{"type":"null"},)"
       R"("a\"":{"type":"null"}},"additionalProperties":{"type":"integer"}})",
       {"{}", R"({"ab":null})", R"({"a":1})", R"({"abc":1,"":2,"b":3})",
        R"({"a\"":null,"a\"x":5})"},
       {R"({"ab":1})", R"({"a":null})", R"({"a\"":1})"}},
  });
}

TEST(SchemaGrammarTest, Arrays) {
  ExpectCases({
      {R"({"type":"array","items":{"type":"integer"}})",
       {"[]", "[1]", "[1, 2,3]", "[ 1 ]"},
       {"[,]", "[1,]", "[null]", "[ ]"}},
      {R"({"type":"array","items":{"type":"null"},"minItems":2,"maxItems":3})",
       {"[null,null]", "[null,null,null]"},
       {"[]", "[null]", "[null,null,null,null]"}},
      {R"({"type":"array","maxItems":0})", {"[]"}, {"[1]"}},
      {R"({"type":"array","minItems":1})", {"[[]]"}, {"[]"}},
      {R"({"prefixItems":[{"type":"integer"},{"type":"null"}],"items":false})",
       {"[]", "[1]", "[1,null]", "{}"},
       {"[null]", "[1,null,1]", "[1,1]"}},
      {R"({"prefixItems":[{"type":"integer"},{"type":"null"}],)"
       R"("items":{"type":"boolean"},"minItems":2,"maxItems":4})",
       {"[1,null]", "[1,null,true,false]"},
       {"[1]", "[1,null,null]", "[1,null,true,true,true]"}},
      {R"({"prefixItems":[{"type":"null"},{"type":"null"}],"maxItems":1})",
       {"[]", "[null]"},
       {"[null,null]"}},
      {R"({"type":"array","items":false})", {"[]"}, {"[1]"}},
      {R"({"type":"array","uniqueItems":false,"items":{"const":1}})",
       {"[1,1]"},
       {"[2]"}},
  });
}

TEST(SchemaGrammarTest, Choices) {
  ExpectCases({
      {R"({"enum":["a",1,null,{"x":[1,2]},"é\n"]})",
       {R"("a")", "1", "null", R"({"x":[1,2]})", R"("é\n")"},
       {"2", R"("b")"}},
      {R"({"type":"string","enum":["a",1]})", {R"("a")"}, {"1"}},
      {R"({"const":"x"})", {R"("x")"}, {R"("y")"}},
      {R"({"anyOf":[{"type":"integer"},{"type":"null"}]})", {"1", "null"}, {}},
      {R"({"oneOf":[{"const":1},{"const":"1"}]})", {"1", R"("1")"}, {"2"}},
      {R"({"allOf":[{"type":"null"}],"title":"t"})", {"null"}, {"1"}},
  });
}

TEST(SchemaGrammarTest, References) {
  ExpectCases({
      {R"({"$ref":"#/$defs/a","$defs":{"a":{"type":"null"}}})", {"null"}, {}},
      {R"({"definitions":{"a/b~":{"const":1}},"$ref":"#/definitions/a~1b~0"})",
       {"1"},
       {"2"}},
      {R"({"type":"object","properties":{"v":{"type":"integer"},)"
       R"("next":{"$ref":"#"}},"required":["v"]})",
       {R"({"v":1})", R"({"v":1,"next":{"v":2,"next":{"v":3}}})"},
       {R"({"v":1,"next":{}})"}},
      {R"({"type":"array","items":{"$ref":"#"}})",
       {"[]", "[[],[[]]]"},
       {"[1]"}},
      {R"({"anyOf":[{"$ref":"#/anyOf/1"},{"type":"null"}]})", {"null"}, {}},
  });
}

TEST(SchemaGrammarTest, PatternsAndFormats) {
  ExpectCases({
      {R"({"type":"string","pattern":"^a[\"x]+$"})",
       {R"("a\"")", R"("axx")"},
       {R"("a"")", R"("a")"}},
      {R"({"type":"string","pattern":"b."})",
       {R"("bc")", R"("\nabcd")"},
       {R"("ab")", R"("b\n")"}},
      {R"({"type":"string","format":"date"})",
       {R"("2024-02-28")", R"("1999-12-31")"},
       {R"("2024-02-30")", R"("2024-13-01")", R"("24-01-01")"}},
      {R"({"type":"string","format":"date-time"})",
       {R"("2024-04-30T23:59:59Z")", R"("2024-04-30T00:00:00.25+01:00")"},
       {R"("2024-04-31T00:00:00Z")", R"("2024-04-30 00:00:00Z")"}},
      {R"({"type":"string","format":"time"})", {R"("23:00:00-05:30")"}, {}},
      {R"({"type":"string","format":"uuid"})",
       {R"("01234567-89ab-cdef-0123-456789abcdef")"},
       {R"("01234567")"}},
      {R"({"type":"string","format":"ipv4"})",
       {R"("255.0.10.199")"},
       {R"("256.0.0.1")", R"("01.0.0.1")"}},
  });
}

TEST(SchemaGrammarTest, WhatIsNotSupportedIsRefusedByPlaceAndName) {
  const std::pair<std::string, std::string> cases[] = {
      {R"({"not":{}})", "#: no value is valid"},
      {R"({"items":{"type":"array","uniqueItems":true},"minItems":1})",
       "#/items: the keyword 'uniqueItems' is supported where"},
      {R"({"properties":{"a/~":{"type":"object","minProperties":3}}})",
       "#/properties/a~1~0: the keyword 'minProperties'"},
      {R"({"not":{"uniqueItems":true}})", "'uniqueItems' is not supported in"},
      {R"({"anyOf":[{}],"unevaluatedProperties":false})",
       "'unevaluatedProperties' is supported without 'anyOf'"},
      {R"x({"type":"string","pattern":"a(?=b)"})x",
       "#/pattern: at byte 3: look-ahead"},
      {R"({"patternProperties":{"\\p{L}":{}}})", "Unicode properties"},
      {R"({"enum":[1],"const":2})", "no value is valid"},
      {R"({"$ref":"http://x/y"})", "'$ref' is supported for places in this"},
      {R"({"$ref":"#/$defs/x"})", "which is not there"},
      {R"({"type":"any"})", "type is not object"},
      {R"({"type":[]})", "type is an empty list"},
      {R"({"type":5})", "type is not object"},
      {R"({"type":"object","required":[3]})", "not a list of names"},
      {R"({"type":"object","required":3})", "required is not a list"},
      {R"({"properties":[]})", "properties is not an object"},
      {R"({"properties":{"a":3}})", "#/properties/a: a schema is an object"},
      {R"({"items":[3]})", "#/items/0: a schema is an object"},
      {R"({"prefixItems":{}})", "prefixItems is not a list"},
      {R"({"anyOf":[]})", "anyOf is not a list"},
      {R"({"enum":3})", "enum is not a list"},
      {R"({"type":"string","minLength":-1})", "minLength is not a count"},
      {R"({"type":"string","minLength":1.5})", "minLength is not a count"},
      {R"({"type":"string","minLength":65537})", "minLength is not a count"},
      {R"({"type":"integer","minimum":"5"})", "minimum is not a number"},
      {R"({"enum":[]})", "#: no value is valid"},
      {R"({"type":"string","enum":[1]})", "#: no value is valid"},
      {R"({"type":"string","minLength":3,"maxLength":2})", "no value is valid"},
      {R"({"type":"array","minItems":3,"maxItems":2})", "no value is valid"},
      {R"({"type":"array","prefixItems":[{}],"items":false,"minItems":2})",
       "#/items: false allows no value"},
      {R"({"type":"integer","minimum":5,"maximum":4})", "no value is valid"},
      {R"({"type":"integer","minimum":1e17})", "no value is valid"},
      {"false", "#: false allows no value"},
      {R"({"type":"object","properties":{"a":false},"required":["a"]})",
       "#/properties/a: false allows"},
      {"3", "a schema is an object"},
      {"", "not JSON: at byte"},
      {"{\"type\":", "not JSON: at byte"},
      {"{} x", "not JSON: at byte"},
      {"{\"a\xFF\":1}", "not JSON: at byte"},
      {R"({"type":"null","type":"object"})",
       "the member 'type' is named twice"},
  };
  for (const auto& [schema, what] : cases) {
    const auto grammar = CompileJsonSchema(schema);
    ASSERT_EQ(grammar.status().code(), absl::StatusCode::kInvalidArgument)
        << schema;
    EXPECT_THAT(std::string(grammar.status().message()), HasSubstr(what))
        << schema;
  }
}

TEST(SchemaGrammarTest, ACircleWithoutAnEndIsRefusedByName) {
  const std::pair<std::string, std::string> cases[] = {
      {R"({"$ref":"#"})", "'#' can never end"},
      {R"({"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},)"
       R"("$ref":"#/$defs/a"})",
       "can never end"},
      {R"({"type":"object","properties":{"x":{"$ref":"#"}},"required":["x"]})",
       "#/properties/x: '#/properties/x' can never end"},
      {R"({"type":"array","items":{"$ref":"#"},"minItems":1})",
       "can never end"},
      {R"({"anyOf":[{"$ref":"#"},{"type":"null"}]})", "begins with itself"},
  };
  for (const auto& [schema, what] : cases) {
    const auto grammar = CompileJsonSchema(schema);
    ASSERT_EQ(grammar.status().code(), absl::StatusCode::kInvalidArgument)
        << schema;
    EXPECT_THAT(std::string(grammar.status().message()), HasSubstr(what))
        << schema;
  }
}

std::string Nested(int n) {
  std::string text;
  for (int i = 1; i < n; ++i) text += R"({"items":)";
  text += "{}";
  for (int i = 1; i < n; ++i) text += "}";
  return text;
}

TEST(SchemaGrammarTest, DepthHasALimit) {
  EXPECT_TRUE(CompileJsonSchema(Nested(kMaxSchemaDepth)).ok());
  for (const std::string& deep :
       {Nested(kMaxSchemaDepth + 1), Nested(5'000), std::string(60'000, '[')}) {
    EXPECT_THAT(std::string(CompileJsonSchema(deep).status().message()),
                HasSubstr("nested more than 64 deep"));
  }
}

TEST(SchemaGrammarTest, SizeHasALimit) {
  std::string schema = R"({"type":"null"})";
  schema.resize(Grammar::kMaxSourceBytes, ' ');
  EXPECT_TRUE(CompileJsonSchema(schema).ok());
  schema.push_back(' ');
  EXPECT_THAT(std::string(CompileJsonSchema(schema).status().message()),
              HasSubstr("at most 65536 are allowed"));
  EXPECT_THAT(std::string(CompileJsonSchema(Nested(10'000)).status().message()),
              HasSubstr("at most 65536 are allowed"));
}

TEST(SchemaGrammarTest, NamesOfPropertiesHaveALimit) {
  const auto schema = [](size_t n) {
    Json object = {{"additionalProperties", true}};
    object["properties"][std::string(n, 'x')] = true;
    return object.dump();
  };
  EXPECT_TRUE(CompileJsonSchema(schema(kMaxPropertyBytes)).ok());
  EXPECT_THAT(
      std::string(
          CompileJsonSchema(schema(kMaxPropertyBytes + 1)).status().message()),
      HasSubstr("more than 1024 bytes"));
}

TEST(SchemaGrammarTest, ManyPropertiesAreNoDeepNest) {
  nlohmann::ordered_json schema;
  for (int i = 0; i < 1'500; ++i) {
    schema["properties"][absl::StrCat("p", i)]["const"] = 1;
  }
  const auto grammar = CompileJsonSchema(schema.dump());
  ASSERT_TRUE(grammar.ok()) << grammar.status();
  EXPECT_TRUE(Matches(*grammar, R"({"p0":1,"p7":1,"p1499":1})"));
  EXPECT_FALSE(Matches(*grammar, R"({"p7":1,"p0":1})"));
}

// Whether `value` is valid, by the keywords that the schemas below have.
bool IsValid(const Json& value, const Json& schema, const Json& root) {
  if (schema.is_boolean()) return schema.get<bool>();
  if (schema.contains("$ref")) {
    const auto path = schema["$ref"].get<std::string>().substr(1);
    return IsValid(value, root[Json::json_pointer(path)], root);
  }
  if (schema.contains("anyOf")) {
    for (const Json& one : schema["anyOf"]) {
      if (IsValid(value, one, root)) return true;
    }
    return false;
  }
  if (schema.contains("enum")) {
    for (const Json& one : schema["enum"]) {
      if (value == one) return true;
    }
    return false;
  }
  const std::string type = schema.value("type", "");
  if (type == "object") {
    if (!value.is_object()) return false;
    for (const auto& name : schema.value("required", Json::array())) {
      if (!value.contains(name.get<std::string>())) return false;
    }
    const Json properties = schema.value("properties", Json::object());
    for (const auto& [name, member] : value.items()) {
      const Json& of = properties.contains(name)
                           ? properties[name]
                           : schema.value("additionalProperties", Json(true));
      if (!IsValid(member, of, root)) return false;
    }
    return true;
  }
  if (type == "array") {
    if (!value.is_array()) return false;
    if (value.size() < schema.value("minItems", 0u)) return false;
    if (value.size() > schema.value("maxItems", 1'000'000u)) return false;
    for (const Json& item : value) {
      if (!IsValid(item, schema["items"], root)) return false;
    }
    return true;
  }
  if (type == "integer") {
    return value.is_number_integer() &&
           value.get<int64_t>() >= schema.value("minimum", INT64_MIN) &&
           value.get<int64_t>() <= schema.value("maximum", INT64_MAX);
  }
  if (type == "string") {
    if (!value.is_string()) return false;
    const auto& text = value.get_ref<const std::string&>();
    const auto n = std::count_if(text.begin(), text.end(), [](char c) {
      return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    });
    return n >= schema.value("minLength", 0) &&
           n <= schema.value("maxLength", 1'000'000);
  }
  if (type == "number") return value.is_number();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  return true;
}

TEST(SchemaGrammarTest, WhatIsSaidAtRandomIsValid) {
  const char* schemas[] = {
      R"({"type":"object","additionalProperties":false,"required":["b","id"],
          "properties":{"id":{"type":"integer","minimum":-20,"maximum":1234},
          "a":{"type":"string","minLength":1,"maxLength":4},
          "b":{"type":"array","minItems":1,"maxItems":3,
               "items":{"type":"number"}},
          "c":{"anyOf":[{"type":"null"},{"type":"boolean"}]}}})",
      R"({"$defs":{"tree":{"type":"object","additionalProperties":false,
          "properties":{"v":{"enum":["x",1,[],{"k":"é"}]},
          "l":{"$ref":"#/$defs/tree"},"r":{"$ref":"#/$defs/tree"}},
          "required":["v"]}},"$ref":"#/$defs/tree"})",
      R"({"type":"object","properties":{"ab":{"type":"null"}},
          "additionalProperties":{"type":"integer"}})",
      R"({"type":"array","items":true,"maxItems":4})",
  };
  std::mt19937 random(11);
  for (const char* text : schemas) {
    const auto grammar = CompileJsonSchema(text);
    ASSERT_TRUE(grammar.ok()) << grammar.status();
    const Json schema = Json::parse(text);
    int n_whole = 0;
    for (int i = 0; i < 500; ++i) {
      const auto said = RandomText(*grammar, random, 2'000);
      if (!said) continue;
      ++n_whole;
      const Json value = Json::parse(*said, nullptr, false);
      ASSERT_FALSE(value.is_discarded()) << *said;
      ASSERT_TRUE(IsValid(value, schema, schema)) << *said;
    }
    EXPECT_GT(n_whole, 100) << text;
  }
}

}  // namespace
}  // namespace plimsoll::worker
