// Ollama's paths over real sockets, with tiny random models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "services/http/json.h"
#include "tests/services/http/front_fixture.h"
#include "tests/services/http/http_client.h"
#include "tests/services/json_object.h"

namespace plimsoll::services {
namespace {

using ::testing::HasSubstr;

class OllamaPathsTest : public FrontTest {
 protected:
  static std::string Hello(const std::string& fields) {
    return testing::WithMembers(
               R"({"model":"a","messages":[{"role":"user","content":"hello"}],)"
               R"("options":{"temperature":0,"num_predict":8}})",
               fields)
        .dump();
  }
  std::vector<Json> PostLines(const std::string& target,
                              const std::string& body) {
    const ClientReply reply = Post(target, body);
    EXPECT_EQ(reply.status, 200) << reply.body;
    EXPECT_THAT(reply.head, HasSubstr("content-type: application/x-ndjson"));
    std::vector<Json> lines;
    for (absl::string_view line :
         absl::StrSplit(reply.body, '\n', absl::SkipEmpty())) {
      lines.push_back(Json::parse(std::string(line)));
    }
    return lines;
  }
};

TEST_F(OllamaPathsTest, AStreamHasTheTextOfTheWholeReply) {
  const Json whole = PostJson("/api/chat", Hello(R"({"stream":false})"));
  EXPECT_EQ(whole.at("done"), true);
  EXPECT_GT(whole.at("total_duration").get<int64_t>(), 0);
  std::string text;
  const std::vector<Json> lines = PostLines("/api/chat", Hello("{}"));
  for (const Json& line : lines) {
    text += line.at("message").at("content").get<std::string>();
  }
  EXPECT_EQ(text, whole.at("message").at("content").get<std::string>());
  EXPECT_EQ(lines.back().at("done"), true);
  EXPECT_EQ(lines.back().at("eval_count"), whole.at("eval_count"));
  const Json generated = PostJson(
      "/api/generate", R"({"model":"a","prompt":"hello","stream":false,)"
                       R"("options":{"temperature":0,"num_predict":8}})");
  EXPECT_EQ(generated.at("response"), text);
}

TEST_F(OllamaPathsTest, GivesLogProbabilities) {
  const Json whole = PostJson(
      "/api/generate",
      R"({"model":"a","prompt":"x","raw":true,"stream":false,)"
      R"("options":{"num_predict":3},"logprobs":true,"top_logprobs":2})");
  const Json& logprobs = whole.at("logprobs");
  ASSERT_FALSE(logprobs.empty());
  EXPECT_EQ(logprobs[0].at("top_logprobs").size(), 2u);
  EXPECT_TRUE(logprobs[0].at("token").is_string());
}

TEST_F(OllamaPathsTest, WithoutAPromptItSaysThatTheModelIsThere) {
  EXPECT_EQ(
      PostLines("/api/generate", R"({"model":"a"})").back().at("done_reason"),
      "load");
  EXPECT_EQ(PostJson("/api/chat", R"({"model":"a","stream":false})")
                .at("done_reason"),
            "load");
  EXPECT_EQ(Post("/api/generate", R"({"model":"b"})").status, 503);
  EXPECT_EQ(Post("/api/generate", R"({"model":"c"})").status, 404);
}

TEST_F(OllamaPathsTest, AContextThatNoSlotHasIsRefused) {
  EXPECT_EQ(Post("/api/generate", R"({"model":"a","options":{"num_ctx":256}})")
                .status,
            200);
  const ClientReply reply =
      Post("/api/generate", R"({"model":"a","options":{"num_ctx":257}})");
  EXPECT_EQ(reply.status, 400);
  EXPECT_THAT(Json::parse(reply.body).at("error").get<std::string>(),
              ::testing::AllOf(HasSubstr("257"), HasSubstr("256")));
}

TEST_F(OllamaPathsTest, ErrorsAreTexts) {
  const ClientReply reply = Post("/api/chat", Hello(R"({"tempo":1})"));
  EXPECT_EQ(reply.status, 400);
  EXPECT_THAT(Json::parse(reply.body).at("error").get<std::string>(),
              ::testing::StartsWith("tempo: "));
}

TEST_F(OllamaPathsTest, ListsModels) {
  const Json tags = Json::parse(Get("/api/tags").body).at("models");
  ASSERT_EQ(tags.size(), 2u);
  EXPECT_EQ(tags[0].at("model"), "a");
  EXPECT_EQ(tags[0].at("details").at("family"), "llama");
  EXPECT_GT(tags[0].at("size").get<int64_t>(), 0);
  EXPECT_EQ(tags[0].at("digest").get<std::string>().size(), 64u);
  EXPECT_EQ(tags[1].at("model"), "b");
  const Json running = Json::parse(Get("/api/ps").body).at("models");
  ASSERT_EQ(running.size(), 1u);
  EXPECT_EQ(running[0].at("name"), "a");
  EXPECT_EQ(running[0].at("context_length"), 256);
  EXPECT_EQ(running[0].at("size_vram"), 0);
  EXPECT_EQ(running[0].at("size"),
            Json::parse(Get("/v1/models/a").body).at("planned_bytes"));
  EXPECT_TRUE(Json::parse(Get("/api/version").body).at("version").is_string());
  EXPECT_EQ(Post("/api/tags", "").status, 405);
}

TEST_F(OllamaPathsTest, ShowsAModel) {
  const Json shown = PostJson("/api/show", R"({"model":"a"})");
  EXPECT_EQ(shown.at("model_info").at("general.architecture"), "llama");
  EXPECT_TRUE(shown.at("model_info").contains("llama.context_length"));
  EXPECT_EQ(shown.at("parameters"), "num_ctx 256");
  EXPECT_EQ(shown.at("capabilities"), Json::array({"completion"}));
  EXPECT_EQ(PostJson("/api/show", R"({"name":"b"})").at("parameters"), "");
  EXPECT_EQ(Post("/api/show", R"({"model":"c"})").status, 404);
  EXPECT_EQ(Post("/api/show", R"({"model":"a","x":1})").status, 400);
}

}  // namespace
}  // namespace plimsoll::services
