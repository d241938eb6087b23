// What compiling a constraint may take, and that it stops with its call.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "tests/worker/text/grammar/grammar_match.h"
#include "worker/text/grammar/gbnf.h"
#include "worker/text/grammar/regex_grammar.h"
#include "worker/text/schema/schema_grammar.h"

namespace plimsoll::worker {
namespace {

using ::testing::HasSubstr;
using Compiled = absl::StatusOr<std::shared_ptr<const Grammar>>;

// A schema of objects with properties that are called `prefix` and 0, 1 and so
// on, in this order.
nlohmann::ordered_json ObjectWith(const std::string& prefix,
                                  size_t n_properties) {
  nlohmann::ordered_json schema;
  for (size_t i = 0; i < n_properties; ++i) {
    schema["properties"][absl::StrCat(prefix, i)] =
        nlohmann::ordered_json::object();
  }
  return schema;
}

nlohmann::ordered_json ObjectOf(size_t n_properties) {
  return ObjectWith("p", n_properties);
}

// Objects whose other names are told from long ones letter by letter.
std::string LongNames(size_t n, size_t length) {
  auto schema = ObjectWith(std::string(length, 'a'), n);
  schema["additionalProperties"] = nlohmann::ordered_json::object();
  return schema.dump();
}

struct StopCase {
  const char* name;
  std::function<Compiled(StopCheck)> compile;
};

std::vector<StopCase> LongCompilations() {
  std::string rules = "root ::= \"a\"";
  for (int i = 0; i < 6'000; ++i) absl::StrAppend(&rules, " [b-", "d]");
  return {
      {"gbnf", [rules](StopCheck stop) { return CompileGbnf(rules, stop); }},
      {"repeats",
       [](StopCheck stop) { return CompileGbnf("root ::= .{9000}", stop); }},
      {"regex",
       [](StopCheck stop) { return CompileRegex("[ab]{30000}", stop); }},
      {"proof",
       [](StopCheck stop) { return CompileRegex(".*x[^q]{1900}", stop); }},
      {"schema",
       [](StopCheck stop) {
         return CompileJsonSchema(ObjectOf(1'900).dump(), stop);
       }},
      {"names",
       [](StopCheck stop) {
         return CompileJsonSchema(LongNames(20, 1'000), stop);
       }},
  };
}

TEST(GrammarLimitsTest, CompilingStopsWhereItsCallIsCancelled) {
  for (const StopCase& one : LongCompilations()) {
    SCOPED_TRACE(one.name);
    int n_asked = 0;
    const auto count = [&] {
      ++n_asked;
      return absl::OkStatus();
    };
    const bool was_ok = one.compile(count).ok();
    const int n_all = n_asked;
    ASSERT_GT(n_all, 1);
    for (const int at : {1, n_all / 2, n_all}) {
      n_asked = 0;
      const auto cancel = [&]() -> absl::Status {
        if (++n_asked < at) return absl::OkStatus();
        return absl::CancelledError("the call is gone");
      };
      const absl::Status status = one.compile(cancel).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kCancelled)
          << was_ok << at << status;
      EXPECT_EQ(n_asked, at == 0 ? 1 : at);
    }
  }
}

// Every limit on what a constraint becomes bounds the work, too.
TEST(GrammarLimitsTest, CompilingTakesFewSteps) {
  constexpr int kMost = 10'000;  // StopCounter::kUnits, or states of a proof
  std::string alternatives(60'000, '|');
  const std::vector<std::function<Compiled(StopCheck)>> worst = {
      [](StopCheck stop) {
        return CompileJsonSchema(LongNames(60, 1'000), stop);
      },
      [](StopCheck stop) {
        return CompileJsonSchema(LongNames(2'000, 20), stop);
      },
      [](StopCheck stop) { return CompileRegex(".*x[^q]{1900}", stop); },
      [](StopCheck stop) {
        return CompileRegex("((.?){0,60}(.?){0,60}){0,60}", stop);
      },
      [&](StopCheck stop) { return CompileRegex(alternatives, stop); },
  };
  for (size_t i = 0; i < worst.size(); ++i) {
    int n_asked = 0;
    const auto count = [&]() -> absl::Status {
      ++n_asked;
      return absl::OkStatus();
    };
    worst[i](count).IgnoreError();
    EXPECT_LT(n_asked, kMost) << i;
  }
}

TEST(GrammarLimitsTest, MembersOfASchemaHaveALimit) {
  const auto any_of = [](size_t n) {
    nlohmann::json schema;
    for (size_t i = 0; i < n; ++i) schema["anyOf"].push_back({{"const", i}});
    return schema.dump();
  };
  EXPECT_TRUE(CompileJsonSchema(ObjectOf(kMaxSchemaMembers).dump()).ok());
  EXPECT_TRUE(CompileJsonSchema(any_of(kMaxSchemaMembers)).ok());
  for (const std::string& text : {ObjectOf(kMaxSchemaMembers + 1).dump(),
                                  any_of(kMaxSchemaMembers + 1)}) {
    const absl::Status beyond = CompileJsonSchema(text).status();
    EXPECT_EQ(beyond.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(beyond.message()), HasSubstr("2000 are allowed"));
  }
}

TEST(GrammarLimitsTest, AsManyOptionalPropertiesAreAllThere) {
  auto schema = ObjectOf(kMaxSchemaMembers);
  schema["additionalProperties"] = false;
  const auto grammar = *CompileJsonSchema(schema.dump());
  GrammarState state(grammar);
  ASSERT_TRUE(state.Advance(R"({"p0":1, "p7":2,"p1998":[],"p1999":3)"));
  EXPECT_FALSE(state.was_thinned());
  EXPECT_FALSE(state.Advance(R"(,)"));
  EXPECT_TRUE(state.Advance("}"));
}

TEST(GrammarLimitsTest, ALongEnumerationIsFewReadings) {
  const auto name = [](int64_t i) { return absl::StrCat("é", i * 7); };
  nlohmann::json schema;
  for (int64_t i = 0; i < 5'000; ++i) schema["enum"].push_back(name(i));
  const auto grammar = *CompileJsonSchema(schema.dump());
  for (int64_t i = 0; i < 5'000; i += 611) {
    GrammarState state(grammar);
    ASSERT_TRUE(state.Advance(nlohmann::json(name(i)).dump())) << i;
    EXPECT_TRUE(state.Accepts(state.current()));
    EXPECT_FALSE(state.was_thinned());
    EXPECT_FALSE(Matches(grammar, absl::StrCat("\"é", i * 7 + 1, "\"")));
  }
}

TEST(GrammarLimitsTest, WordsMayBeginWithOneAnother) {
  const auto grammar = *CompileGbnf(
      "root ::= (\"a\" | \"abc\" | \"\" | \"ab\" | \"a\" | "
      "\"äb\" | \"ä\" | \"ö\" | [x-z] \"a\") \"!\"");
  for (const char* text :
       {"a!", "abc!", "!", "ab!", "äb!", "ä!", "ö!", "ya!"}) {
    EXPECT_TRUE(Matches(grammar, text)) << text;
  }
  for (const char* text : {"abcd!", "b!", "\xC3!", "öb!", "aa!", "x!"}) {
    EXPECT_FALSE(Matches(grammar, text)) << text;
  }
}

// Each rule is open while the next one is.
TEST(GrammarLimitsTest, TheShortestTextHasALimitOfDepth) {
  const auto name = [](uint32_t i) {
    const auto letter = [](uint32_t n) {
      return static_cast<char>('a' + n % 26);
    };
    return std::string{letter(i / 676), letter(i / 26), letter(i)};
  };
  const auto chain = [&](uint32_t n) {
    std::string text = absl::StrCat("root ::= ", name(0), "\n");
    for (uint32_t i = 0; i < n; ++i) {
      absl::StrAppend(&text, name(i), "::=", name(i + 1), "\".\"\n");
    }
    return CompileGbnf(absl::StrCat(text, name(n), "::=\".\""));
  };
  const auto deepest = chain(Grammar::kMaxDepth);
  ASSERT_TRUE(deepest.ok()) << deepest.status();
  EXPECT_TRUE(Matches(*deepest, std::string(Grammar::kMaxDepth + 1, '.')));
  const absl::Status beyond = chain(Grammar::kMaxDepth + 1).status();
  EXPECT_EQ(beyond.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(beyond.message()), HasSubstr("4096 rules deep"));
}

}  // namespace
}  // namespace plimsoll::worker
