// Proto JSON, with the names that scripts rely on.
#include "services/cli/terminal/json.h"

#include <gtest/gtest.h>

#include "plimsoll/v1/common.pb.h"
#include "plimsoll/v1/generation.pb.h"
#include "plimsoll/v1/tokenizer.pb.h"

namespace plimsoll::cli {
namespace {

TEST(ToJsonTest, KeepsSnakeCaseAndWrites64BitsAsStrings) {
  v1::MemoryReport report;
  report.set_planned_bytes(12);
  report.set_device_allocations_after_load(0);
  EXPECT_EQ(*ToJson(report, JsonForm::kLine),
            "{\"planned_bytes\":\"12\",\"device_allocations_after_load\":0}\n");
}

TEST(ToJsonTest, WritesEmptyListsOnlyWhereAsked) {
  EXPECT_EQ(
      *ToJson(v1::TokenizeResponse(), JsonForm::kLine, EmptyLists::kPrinted),
      "{\"ids\":[]}\n");
  v1::GeneratedToken token;
  token.set_id(0);
  EXPECT_EQ(*ToJson(token, JsonForm::kLine), "{\"id\":0}\n");
}

TEST(JsonStringFieldTest, GivesTheStringAndIgnoresTheRest) {
  EXPECT_EQ(
      *JsonStringField("{\"n\": [1], \"prompt\": \"a\\n\\u00e9\"}", "prompt"),
      "a\n\xC3\xA9");
}

TEST(JsonStringFieldTest, RefusesWhatIsNoObjectWithThatString) {
  for (const char* text : {"", "[]", "1", "{", "{}", "{\"prompt\": 3}",
                           "{\"prompt\": null}", "\"prompt\"", "{bad"}) {
    EXPECT_EQ(JsonStringField(text, "prompt").status().code(),
              absl::StatusCode::kInvalidArgument)
        << text;
  }
}

TEST(JsonStringFieldTest, RefusesDeepNesting) {
  const std::string deep(100'000, '[');
  EXPECT_FALSE(JsonStringField("{\"prompt\": " + deep, "prompt").ok());
}

}  // namespace
}  // namespace plimsoll::cli
