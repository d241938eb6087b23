#include "worker/text/grammar/schema_frame.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

namespace plimsoll::worker {
namespace {

TEST(SchemaFrameTest, FramesThatDifferHaveOtherKeys) {
  const std::vector<std::function<void(SchemaFrame&)>> changes = {
      [](SchemaFrame&) {},
      [](SchemaFrame& f) { f.trigger = "a"; },
      [](SchemaFrame& f) { f.passage_open = "a"; },
      [](SchemaFrame& f) { f.passage_close = "a"; },
      [](SchemaFrame& f) { f.close = "a"; },
      [](SchemaFrame& f) { f.outer_open = "a"; },
      [](SchemaFrame& f) { f.outer_close = "a"; },
      [](SchemaFrame& f) { f.is_first = true; },
      [](SchemaFrame& f) { f.may_be_text = true; },
      [](SchemaFrame& f) { f.begins_passage = true; },
      [](SchemaFrame& f) { f.has_space = true; },
      [](SchemaFrame& f) { f.repeats = true; },
      [](SchemaFrame& f) {
        f.list = {"[", "]", false};
      },
      [](SchemaFrame& f) {
        f.list = {"[", "]", true};
      },
      [](SchemaFrame& f) {
        f.list = {"[]", "", true};
      },
      [](SchemaFrame& f) { f.choices = {{.before = {{"ab"}}}}; },
      [](SchemaFrame& f) {
        f.choices = {{.before = {{"a", "b"}}}};
      },
      [](SchemaFrame& f) {
        f.choices = {{.before = {{"a"}, {"b"}}}};
      },
      [](SchemaFrame& f) {
        f.choices = {{.before = {{"a"}}}, {}};
      },
      [](SchemaFrame& f) { f.choices = {{.after = "a"}}; },
      [](SchemaFrame& f) { f.choices = {{.strings = {"a"}}}; },
      [](SchemaFrame& f) { f.spelling.values.has_space = false; },
      [](SchemaFrame& f) { f.spelling.values.has_bare_keys = true; },
      [](SchemaFrame& f) { f.spelling.values.escaped = "<"; },
      [](SchemaFrame& f) { f.spelling.values.true_word = "True"; },
      [](SchemaFrame& f) { f.spelling.values.raw = RawStrings(); },
      [](SchemaFrame& f) {
        f.spelling.values.raw = {.open = "a", .never = {"b"}};
      },
      [](SchemaFrame& f) {
        f.spelling.values.raw = {.open = "a", .never = {"b", "c"}};
      },
      [](SchemaFrame& f) { f.spelling.members = MemberSpelling(); },
      [](SchemaFrame& f) { f.spelling.members = {.before_name = "a"}; },
      [](SchemaFrame& f) { f.spelling.members = {.after_name = "a"}; },
      [](SchemaFrame& f) { f.spelling.members = {.after_value = "a"}; },
      [](SchemaFrame& f) { f.spelling.members = {.after_member = "a"}; },
      [](SchemaFrame& f) { f.spelling.members = {.list = {.comma = ""}}; },
      [](SchemaFrame& f) { f.spelling.members = {.strings = RawStrings()}; },
      [](SchemaFrame& f) {
        f.marks = {{"a", 1, true}};
      },
      [](SchemaFrame& f) {
        f.marks = {{"a", 1, false}};
      },
      [](SchemaFrame& f) {
        f.marks = {{"a", 2, true}};
      },
      [](SchemaFrame& f) {
        f.marks = {{"b", 1, true}};
      },
  };
  std::set<std::string> keys;
  for (const auto& change : changes) {
    SchemaFrame frame;
    change(frame);
    keys.insert(KeyOf(frame));
  }
  EXPECT_EQ(keys.size(), changes.size());
}

TEST(SchemaFrameTest, OnlyAFrameWithoutAnythingIsEmpty) {
  EXPECT_TRUE(SchemaFrame().IsEmpty());
  EXPECT_FALSE(SchemaFrame{.trigger = "a"}.IsEmpty());
  EXPECT_FALSE(SchemaFrame{.may_be_text = true}.IsEmpty());
  EXPECT_FALSE(SchemaFrame{.has_space = true}.IsEmpty());
  EXPECT_FALSE(SchemaFrame{.choices = {{}}}.IsEmpty());
}

}  // namespace
}  // namespace plimsoll::worker
