// The paths of responses over real sockets, with tiny random models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "services/http/json.h"
#include "tests/services/http/front_fixture.h"
#include "tests/services/http/http_client.h"
#include "tests/services/json_object.h"

namespace plimsoll::services {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class ResponsesPathsTest : public FrontTest {
 protected:
  static std::string Greedy(const Json& input, const std::string& fields) {
    Json body = testing::WithMembers(
        R"({"model":"a","temperature":0,"max_output_tokens":8})", fields);
    body["input"] = input;
    return body.dump();
  }
  ClientReply Delete(const std::string& target) {
    HttpClient client(front_->address());
    client.Send(client.Request("DELETE", target, {}));
    return client.Read();
  }
  static std::string PathOf(const Json& response) {
    return absl::StrCat("/v1/responses/", response.at("id").get<std::string>());
  }
  static std::string TextOf(const Json& response) {
    return response.at("output")[0].at("content")[0].at("text");
  }
};

TEST_F(ResponsesPathsTest, AResponseSaysWhatAChatSays) {
  const Json response = PostJson("/v1/responses", Greedy("hello", "{}"));
  EXPECT_EQ(response.at("object"), "response");
  const Json chat =
      PostJson("/v1/chat/completions",
               R"({"model":"a","messages":[{"role":"user","content":"hello"}],)"
               R"("temperature":0,"max_tokens":8})");
  EXPECT_EQ(
      TextOf(response),
      chat.at("choices")[0].at("message").at("content").get<std::string>());
  EXPECT_EQ(response.at("usage").at("input_tokens"),
            chat.at("usage").at("prompt_tokens"));
  EXPECT_EQ(response.at("usage").at("output_tokens"),
            chat.at("usage").at("completion_tokens"));
}

TEST_F(ResponsesPathsTest, AStreamHasTheTextOfTheWhole) {
  const Json whole = PostJson("/v1/responses", Greedy("hello", "{}"));
  const ClientReply reply =
      Post("/v1/responses", Greedy("hello", R"({"stream":true})"));
  EXPECT_EQ(reply.status, 200);
  EXPECT_THAT(reply.head, HasSubstr("content-type: text/event-stream"));
  EXPECT_THAT(reply.body, StartsWith("event: response.created\ndata: {"));
  std::string text;
  Json last;
  for (absl::string_view line : absl::StrSplit(reply.body, '\n')) {
    if (!absl::ConsumePrefix(&line, "data: ")) continue;
    last = Json::parse(std::string(line));
    if (last.at("type") == "response.output_text.delta") {
      text += last.at("delta").get<std::string>();
    }
  }
  EXPECT_EQ(text, TextOf(whole));
  EXPECT_EQ(last.at("response").at("status"), whole.at("status"));
  EXPECT_EQ(TextOf(last.at("response")), text);
  EXPECT_EQ(Json::parse(Get(PathOf(last.at("response"))).body),
            last.at("response"));
}

TEST_F(ResponsesPathsTest, AnIdGoesOnAsTheItemsDo) {
  const Json first = PostJson("/v1/responses", Greedy("hello", "{}"));
  const std::string id = first.at("id");
  const std::string more =
      Greedy("more", Json{{"previous_response_id", id}}.dump());
  const Json next = PostJson("/v1/responses", more);
  Json items = Json::array({{{"role", "user"}, {"content", "hello"}}});
  for (const Json& item : first.at("output")) items.push_back(item);
  items.push_back({{"role", "user"}, {"content", "more"}});
  const Json same = PostJson("/v1/responses", Greedy(items, "{}"));
  EXPECT_EQ(TextOf(next), TextOf(same));
  EXPECT_EQ(next.at("usage").at("input_tokens"),
            same.at("usage").at("input_tokens"));
  EXPECT_EQ(next.at("previous_response_id"), id);
  // The older response is there for another branch.
  const Json branch = PostJson("/v1/responses", more);
  EXPECT_EQ(TextOf(branch), TextOf(next));
}

TEST_F(ResponsesPathsTest, AResponseCanBeReadAndDeleted) {
  const Json response = PostJson("/v1/responses", Greedy("hello", "{}"));
  const std::string path = PathOf(response);
  const ClientReply read = Get(path);
  EXPECT_EQ(read.status, 200);
  EXPECT_EQ(Json::parse(read.body), response);
  EXPECT_EQ(Post(path, "{}").status, 405);
  EXPECT_EQ(Get("/v1/responses").status, 405);
  EXPECT_EQ(Get(path + "/input_items").status, 404);
  EXPECT_EQ(Get("/v1/responses/").status, 404);
  EXPECT_EQ(Delete(path).status, 200);
  EXPECT_EQ(Get(path).status, 404);
  EXPECT_EQ(Delete(path).status, 404);
}

TEST_F(ResponsesPathsTest, ErrorsHaveOpenAisForm) {
  const ClientReply unknown =
      Post("/v1/responses", Greedy("a", R"({"tempo":1})"));
  EXPECT_EQ(unknown.status, 400);
  EXPECT_EQ(ErrorOf(unknown).at("param"), "tempo");
  const ClientReply gone = Post(
      "/v1/responses", Greedy("a", R"({"previous_response_id":"resp_1"})"));
  EXPECT_EQ(gone.status, 404);
  EXPECT_EQ(ErrorOf(gone).at("type"), "not_found_error");
  EXPECT_EQ(ErrorOf(gone).at("param"), "previous_response_id");
  std::string words;
  for (int i = 0; i < 400; ++i) words += "word ";
  const ClientReply large = Post("/v1/responses", Greedy(words, "{}"));
  EXPECT_EQ(large.status, 400);
  EXPECT_EQ(ErrorOf(large).at("code"), "context_length_exceeded");
  EXPECT_THAT(ErrorOf(large).at("message").get<std::string>(),
              HasSubstr("256"));
  EXPECT_EQ(responses_.bytes(), 0) << "nothing of it is kept";
}

TEST_F(ResponsesPathsTest, AStreamNeedsMemoryForItsWholeReply) {
  // Others leave few bytes of the budget; none of them holds a large share.
  constexpr int64_t kLeft = 8 << 10;
  ByteBudget& messages = registry_->messages();
  std::vector<ByteBudget::Share> shares;
  for (int64_t left = messages.limit_bytes() - kLeft; left > 0;
       left -= ByteBudget::kMaxSmallBytes) {
    auto share = messages.Take(absl::StrCat("peer ", left),
                               std::min(left, ByteBudget::kMaxSmallBytes));
    ASSERT_TRUE(share.ok()) << share.status();
    shares.push_back(*std::move(share));
  }
  EXPECT_EQ(Post("/v1/chat/completions", Chat(R"({"stream":true})")).status,
            200)
      << "it keeps nothing of what was sent";
  const std::string body = Greedy("hello", R"({"stream":true})");
  const ClientReply refused = Post("/v1/responses", body);
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(ErrorOf(refused).at("code"), "memory_budget_exceeded");
  EXPECT_EQ(responses_.bytes(), 0);
  shares.clear();
  EXPECT_EQ(Post("/v1/responses", body).status, 200);
}

}  // namespace
}  // namespace plimsoll::services
