// Anthropic's paths over real sockets, with tiny random models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "services/http/json.h"
#include "tests/services/http/front_fixture.h"
#include "tests/services/http/http_client.h"
#include "tests/services/json_object.h"

namespace plimsoll::services {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class AnthropicPathsTest : public FrontTest {
 protected:
  static std::string Message(const std::string& fields) {
    return testing::WithMembers(
               R"({"model":"a","messages":[{"role":"user","content":"hello"}]})",
               fields)
        .dump();
  }
  static std::string Greedy(const std::string& fields) {
    return Message(
        testing::WithMembers(R"({"temperature":0,"max_tokens":8})", fields)
            .dump());
  }
};

TEST_F(AnthropicPathsTest, AnswersAMessage) {
  const Json reply = PostJson("/v1/messages", Greedy("{}"));
  EXPECT_EQ(reply.at("type"), "message");
  EXPECT_THAT(reply.at("id").get<std::string>(), StartsWith("msg_"));
  EXPECT_EQ(reply.at("model"), "a");
  const Json& usage = reply.at("usage");
  EXPECT_EQ(reply.at("stop_reason") == "max_tokens",
            usage.at("output_tokens") == 8);
  const Json chat =
      PostJson("/v1/chat/completions",
               R"({"model":"a","messages":[{"role":"user","content":"hello"}],)"
               R"("temperature":0,"max_tokens":8})");
  EXPECT_EQ(reply.at("content")[0].at("text"),
            chat.at("choices")[0].at("message").at("content"));
}

TEST_F(AnthropicPathsTest, AStreamHasTheTextOfTheWholeReply) {
  const Json whole = PostJson("/v1/messages", Greedy("{}"));
  const ClientReply reply =
      Post("/v1/messages?beta=true", Greedy(R"({"stream":true})"));
  EXPECT_EQ(reply.status, 200);
  EXPECT_THAT(reply.head, HasSubstr("content-type: text/event-stream"));
  EXPECT_THAT(reply.body, StartsWith("event: message_start\ndata: {"));
  EXPECT_THAT(reply.body,
              ::testing::EndsWith("event: message_stop\n"
                                  "data: {\"type\":\"message_stop\"}\n\n"));
  std::string text;
  Json usage;
  int64_t prompt_tokens = 0;
  for (const absl::string_view line : absl::StrSplit(reply.body, '\n')) {
    if (!absl::StartsWith(line, "data: ")) continue;
    const Json event = Json::parse(std::string(line.substr(6)));
    if (event.at("type") == "message_start") {
      prompt_tokens = event.at("message").at("usage").at("input_tokens");
    }
    if (event.at("type") == "content_block_delta") {
      text += event.at("delta").at("text").get<std::string>();
    }
    if (event.at("type") == "message_delta") usage = event.at("usage");
  }
  EXPECT_EQ(text, whole.at("content")[0].at("text").get<std::string>());
  EXPECT_EQ(usage.at("output_tokens"), whole.at("usage").at("output_tokens"));
  EXPECT_EQ(usage.at("input_tokens").get<int64_t>() +
                usage.at("cache_read_input_tokens").get<int64_t>(),
            prompt_tokens);
}

TEST_F(AnthropicPathsTest, CountsWhatAMessageUses) {
  const Json counted = PostJson("/v1/messages/count_tokens", Message("{}"));
  const Json usage = PostJson("/v1/messages", Greedy("{}")).at("usage");
  EXPECT_EQ(counted.at("input_tokens").get<int>(),
            usage.at("input_tokens").get<int>() +
                usage.at("cache_read_input_tokens").get<int>());
}

TEST_F(AnthropicPathsTest, ErrorsHaveAnthropicsForm) {
  const auto error_of = [this](const std::string& path, const std::string& body,
                               int status) {
    const ClientReply reply = Post(path, body);
    EXPECT_EQ(reply.status, status) << reply.body;
    const Json json = Json::parse(reply.body);
    EXPECT_EQ(json.at("type"), "error");
    return json.at("error").at("type").get<std::string>();
  };
  EXPECT_EQ(error_of("/v1/messages", Greedy(R"({"tempo":1})"), 400),
            "invalid_request_error");
  EXPECT_EQ(error_of("/v1/messages", "{", 400), "invalid_request_error");
  EXPECT_EQ(
      error_of("/v1/messages",
               R"({"model":"c","max_tokens":1,"messages":[{"role":"user",)"
               R"("content":"a"}]})",
               404),
      "not_found_error");
  EXPECT_EQ(error_of("/v1/messages/count_tokens", Greedy("{}"), 400),
            "invalid_request_error");
  const std::string tools = R"({"tools":[{"name":"f"}]})";
  EXPECT_EQ(error_of("/v1/messages", Greedy(tools), 400),
            "invalid_request_error")
      << "the format has no tools";
  gate_.Close();
  EXPECT_EQ(error_of("/v1/messages", Greedy("{}"), 503), "overloaded_error");
  EXPECT_EQ(error_of("/v1/messages/count_tokens", Message("{}"), 503),
            "overloaded_error");
}

}  // namespace
}  // namespace plimsoll::services
