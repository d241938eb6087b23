#include "services/http/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>

namespace plimsoll::services {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

JsonFields FieldsOf(const Json& json, const std::string& path) {
  return *JsonFields::Of(json, path);
}

std::string MessageOf(const absl::Status& status) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

// The whole number that a JSON text is, if it is one within these bounds.
std::optional<int64_t> ReadWithin(int64_t min, int64_t max, const char* text) {
  return WholeNumber(Json::parse(text), min, max);
}

std::optional<int64_t> ReadWhole(const char* text) {
  return ReadWithin(std::numeric_limits<int64_t>::min(),
                    std::numeric_limits<int64_t>::max(), text);
}

TEST(WholeNumberTest, HasNoFractionAndIsWithinItsBounds) {
  EXPECT_EQ(ReadWhole("3"), 3);
  EXPECT_EQ(ReadWhole("3.0"), 3);
  EXPECT_EQ(ReadWhole("-3e2"), -300);
  EXPECT_EQ(ReadWhole("3.5"), std::nullopt);
  EXPECT_EQ(ReadWhole("\"3\""), std::nullopt);
  EXPECT_EQ(ReadWhole("true"), std::nullopt);
  EXPECT_EQ(ReadWhole("9007199254740992.0"), 9'007'199'254'740'992);
  EXPECT_EQ(ReadWhole("9007199254740994.0"), std::nullopt);
  EXPECT_EQ(ReadWhole("9223372036854775807"),
            std::numeric_limits<int64_t>::max());
  EXPECT_EQ(ReadWhole("9223372036854775808"), std::nullopt);
  EXPECT_EQ(ReadWhole("-9223372036854775808"),
            std::numeric_limits<int64_t>::min());
  EXPECT_EQ(ReadWithin(4, 5, "4"), 4);
  EXPECT_EQ(ReadWithin(4, 5, "3"), std::nullopt);
  EXPECT_EQ(ReadWithin(4, 5, "6.0"), std::nullopt);
}

// A body whose field is so many arrays in one another.
std::string NestedBody(int n_arrays) {
  Json value = Json::array();
  for (int i = 1; i < n_arrays; ++i) value = Json::array({std::move(value)});
  return Json{{"a", std::move(value)}}.dump();
}

TEST(JsonTest, ABodyIsAnObjectOfBoundedDepth) {
  EXPECT_TRUE(ReadBody("{}").ok());
  EXPECT_THAT(MessageOf(ReadBody("[]").status()), HasSubstr("object"));
  EXPECT_THAT(MessageOf(ReadBody("{").status()), HasSubstr("not JSON"));
  EXPECT_TRUE(ReadBody(NestedBody(63)).ok());
  EXPECT_FALSE(ReadBody(NestedBody(64)).ok());
}

TEST(JsonTest, ReadsEachKindOfField) {
  const Json json = {{"b", true}, {"i", 3},          {"x", 0.5},
                     {"t", "a"},  {"none", nullptr}, {"n", {1, 2}}};
  JsonFields fields = FieldsOf(json, /*path=*/"");
  EXPECT_EQ(*fields.Bool("b"), true);
  EXPECT_EQ(*fields.Int("i", 0, 3), 3);
  EXPECT_EQ(*fields.Number("x", 0, 1), 0.5);
  EXPECT_EQ(*fields.Text("t"), "a");
  EXPECT_EQ(*fields.Text("none"), std::nullopt);
  EXPECT_THAT(*fields.Ints("n", 0, 2), ElementsAre(1, 2));
  EXPECT_TRUE(fields.End().ok());
}

TEST(JsonTest, NamesTheFieldThatIsWrong) {
  const Json json = {{"b", 1},   {"i", 4}, {"f", 1.5},
                     {"x", "1"}, {"t", 1}, {"big", 18446744073709551615u}};
  JsonFields fields = FieldsOf(json, "a.");
  EXPECT_THAT(MessageOf(fields.Bool("b").status()), StartsWith("a.b: "));
  EXPECT_THAT(MessageOf(fields.Int("i", 0, 3).status()), HasSubstr("0 to 3"));
  EXPECT_FALSE(fields.Int("f", 0, 3).ok());
  EXPECT_FALSE(fields.Int("big", -1, 3).ok());
  EXPECT_THAT(MessageOf(fields.Number("x", 0, 1).status()),
              StartsWith("a.x: must be a number from 0 to 1"));
  EXPECT_FALSE(fields.Text("t").ok());
}

TEST(JsonTest, ATextMayStandForTexts) {
  const Json json = {{"one", "a"}, {"two", {"a", "b"}}, {"bad", {1}}};
  JsonFields fields = FieldsOf(json, /*path=*/"");
  EXPECT_THAT(*fields.Texts("one", 2), ElementsAre("a"));
  EXPECT_THAT(*fields.Texts("two", 2), ElementsAre("a", "b"));
  EXPECT_FALSE(fields.Texts("two", 1).ok());
  EXPECT_FALSE(fields.Texts("bad", 2).ok());
}

TEST(JsonTest, FindsWhatNobodyKnows) {
  const Json json = {{"known", 1}, {"ignored", 2}, {"other", 3}};
  JsonFields fields = FieldsOf(json, /*path=*/"");
  EXPECT_NE(fields.Find("known"), nullptr);
  fields.Ignore({"ignored", "absent"});
  EXPECT_THAT(MessageOf(fields.End()), StartsWith("other: "));
}

TEST(JsonTest, RefusesAllButOneValue) {
  const Json json = {{"echo", true}, {"best_of", 1}};
  JsonFields fields = FieldsOf(json, /*path=*/"");
  EXPECT_TRUE(fields.AllowOnly("best_of", 1, "no").ok());
  EXPECT_TRUE(fields.AllowOnly("absent", 1, "no").ok());
  EXPECT_THAT(MessageOf(fields.AllowOnly("echo", false, "no")), "echo: no");
}

}  // namespace
}  // namespace plimsoll::services
