// Replies of dialects whose streams are server-sent events with names.
#ifndef PLIMSOLL_TESTS_SERVICES_HTTP_DIALECTS_NAMED_EVENTS_FIXTURE_H_
#define PLIMSOLL_TESTS_SERVICES_HTTP_DIALECTS_NAMED_EVENTS_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "services/http/json.h"
#include "services/http/text_job.h"

namespace plimsoll::services {

class NamedEventsTest : public ::testing::Test {
 protected:
  using Delta = ReplyFormat::Delta;

  static Delta Text(const std::string& text) {
    Delta delta;
    delta.set_text(text);
    return delta;
  }
  static Delta Call(const std::string& name, const std::string& arguments) {
    Delta delta;
    v1::ToolCall& call = *delta.add_tool_calls();
    call.set_name(name);
    call.set_arguments(arguments);
    return delta;
  }
  // A piece of a call; the first one has a name.
  static Delta Piece(uint32_t index, const std::string& name,
                     const std::string& arguments) {
    Delta delta;
    v1::ToolCallDelta& piece = *delta.add_tool_call_deltas();
    piece.set_index(index);
    piece.set_name(name);
    piece.set_arguments(arguments);
    return delta;
  }
  static Delta BrokenCall() {
    Delta delta;
    v1::ToolCall& call = *delta.add_tool_calls();
    call.set_error("it is cut off");
    call.set_text("call:f{");
    return delta;
  }
  static Delta End(v1::FinishReason reason) {
    Delta delta;
    delta.mutable_finish()->set_finish_reason(reason);
    v1::TokenUsage& usage = *delta.mutable_finish()->mutable_usage();
    usage.set_prompt_tokens(9);
    usage.set_cached_tokens(4);
    usage.set_generated_tokens(3);
    return delta;
  }

  // The bytes of a stream of these parts.
  std::string Stream(const std::vector<Delta>& deltas) {
    std::string bytes;
    for (const Delta& delta : deltas) format_->AppendDelta(0, delta, bytes);
    format_->AppendEnd(bytes);
    return bytes;
  }
  // The events in these bytes; checks that each has its own name.
  static std::vector<Json> Events(const std::string& bytes) {
    std::vector<Json> events;
    for (absl::string_view event :
         absl::StrSplit(bytes, "\n\n", absl::SkipEmpty())) {
      const std::vector<absl::string_view> lines = absl::StrSplit(event, '\n');
      EXPECT_EQ(lines.size(), 2u) << event;
      absl::string_view data = lines.back();
      EXPECT_TRUE(absl::ConsumePrefix(&data, "data: "));
      events.push_back(Json::parse(std::string(data)));
      EXPECT_EQ(
          lines.front(),
          absl::StrCat("event: ", events.back()["type"].get<std::string>()));
    }
    return events;
  }
  static std::vector<std::string> Types(const std::vector<Json>& events) {
    std::vector<std::string> types;
    for (const Json& event : events) types.push_back(event["type"]);
    return types;
  }

  std::unique_ptr<ReplyFormat> format_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_TESTS_SERVICES_HTTP_DIALECTS_NAMED_EVENTS_FIXTURE_H_
