// Requests by HTTP for models that have not room beside each other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "services/http/json.h"
#include "tests/services/http/front_fixture.h"
#include "tests/services/json_object.h"

namespace plimsoll::services {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class ModelSwapTest : public FrontTest {
 protected:
  // There is memory for one of the two models.
  WorkerOptions Options() const override {
    static const int64_t bytes_of_one = [this] {
      ModelRegistry registry(FrontTest::Options(), nullptr, nullptr);
      const auto load = std::make_shared<LoadEnd>();
      EXPECT_TRUE(registry.Load("a", FrontTest::Options().load, load).ok());
      EXPECT_TRUE(load->Await().ok());
      return registry.List()[0].ready->parts[0].total_bytes;
    }();
    WorkerOptions options = FrontTest::Options();
    options.lazy = false;
    options.on_demand = true;
    options.devices[0].memory_bytes = bytes_of_one * 3 / 2;
    return options;
  }

  HttpOptions ServerOptions() const override {
    return {.limits = {.notice_time = absl::Milliseconds(1)}};
  }

  // Asks for a stream of "b" while "a" is in use. Returns what comes until
  // `sign` has come, and then the rest, with a free "a".
  ClientReply StreamOfB(const std::string& target, const std::string& body,
                        const std::string& sign) {
    auto use = registry_->Use("a");
    EXPECT_TRUE(use.ok());
    HttpClient client(front_->address());
    client.Send(client.Request("POST", target, {.body = body}));
    ClientReply reply = client.ReadHead();
    while (!absl::StrContains(reply.body, sign)) {
      if (!client.ReadChunk(reply.body)) return reply;
    }
    use = absl::CancelledError();
    while (client.ReadChunk(reply.body)) continue;
    return reply;
  }
  static constexpr char kStream[] =
      R"({"model":"b","messages":[{"role":"user","content":"hello"}],)"
      R"("max_tokens":3,"stream":true})";

  std::string StateOf(const std::string& model) {
    const ClientReply reply = Get("/v1/models/" + model);
    return Json::parse(reply.body).at("state").get<std::string>();
  }
  static std::string ChatOf(const std::string& model) {
    return testing::WithMembers(Chat("{}"), Json{{"model", model}}.dump())
        .dump();
  }
};

TEST_F(ModelSwapTest, ARequestLoadsItsModel) {
  EXPECT_EQ(StateOf("a"), "ready");
  const Json first = PostJson("/v1/chat/completions", ChatOf("a"));
  const Json second = PostJson("/v1/chat/completions", ChatOf("b"));
  // Both have the same file.
  EXPECT_EQ(first.at("choices"), second.at("choices"));
  EXPECT_EQ(StateOf("a"), "unloaded");
  EXPECT_EQ(StateOf("b"), "ready");
}

TEST_F(ModelSwapTest, TokenCallsLoadTheirModel) {
  const std::string text(8'000, 'x');  // read on the pool
  for (const std::string& prompt : {std::string("hello"), text}) {
    for (const char* model : {"b", "a"}) {
      const Json reply = PostJson(
          "/tokenize", Json{{"model", model}, {"prompt", prompt}}.dump());
      EXPECT_GT(reply.at("count").get<int64_t>(), 0);
      EXPECT_EQ(StateOf(model), "ready");
    }
  }
}

TEST_F(ModelSwapTest, NoRequestIsLostBetweenTwoModels) {
  std::atomic<int> n_good = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([this, i, &n_good] {
      const std::string model = i % 2 == 0 ? "a" : "b";
      for (int round = 0; round < 5; ++round) {
        const ClientReply reply = Post("/v1/chat/completions", ChatOf(model));
        EXPECT_EQ(reply.status, 200) << reply.body;
        n_good += reply.status == 200 ? 1 : 0;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(n_good, 20);
}

TEST_F(ModelSwapTest, AStreamThatWaitsSaysSo) {
  const ClientReply reply =
      StreamOfB("/v1/chat/completions", kStream, ": loading 0 %\n\n");
  EXPECT_THAT(reply.body, StartsWith(": loading 0 %\n\n"));
  EXPECT_THAT(reply.body, HasSubstr(R"("role":"assistant")"));
  EXPECT_THAT(reply.body, EndsWith("data: [DONE]\n\n"));
}

TEST_F(ModelSwapTest, AnthropicsStreamsHavePings) {
  const std::string ping = "event: ping\ndata: {\"type\":\"ping\"}\n\n";
  const ClientReply reply = StreamOfB("/v1/messages", kStream, ping);
  EXPECT_THAT(reply.body, StartsWith(ping));
  const size_t begin = reply.body.find("event: message_start");
  ASSERT_NE(begin, std::string::npos);
  EXPECT_EQ(reply.body.find("ping", begin), std::string::npos);
  EXPECT_THAT(reply.body, HasSubstr("event: message_stop"));
}

TEST_F(ModelSwapTest, AnErrorBehindASignOfLifeIsAnEvent) {
  std::string text;
  for (int i = 0; i < 1'000; ++i) text += "hello ";  // too long for a context
  const Json body = {{"model", "b"}, {"stream", true}, {"prompt", text}};
  const ClientReply reply =
      StreamOfB("/v1/completions", body.dump(), ": loading");
  EXPECT_EQ(reply.status, 200);
  EXPECT_THAT(reply.body, HasSubstr(R"(data: {"error":{"message":)"));
  EXPECT_THAT(reply.body, Not(HasSubstr("[DONE]")));
}

TEST_F(ModelSwapTest, OllamasRepliesSayHowLongTheyWaited) {
  auto use = registry_->Use("a");
  ASSERT_TRUE(use.ok());
  const std::string body = R"({"model":"b","prompt":"hello","stream":false,)"
                           R"("options":{"num_predict":2}})";
  HttpClient client(front_->address());
  client.Send(client.Request("POST", "/api/generate", {.body = body}));
  while (StateOf("b") == "unloaded") std::this_thread::yield();
  use = absl::CancelledError();
  const Json waited = Json::parse(client.Read().body);
  const auto load = waited.at("load_duration").get<int64_t>();
  EXPECT_GT(load, 0);
  EXPECT_GT(waited.at("total_duration").get<int64_t>(), load);
  EXPECT_EQ(PostJson("/api/generate", body).at("load_duration"), 0);
}

TEST_F(ModelSwapTest, AModelIsUnloadedAsOllamasClientsAsk) {
  const Json reply = PostJson("/api/generate",
                              R"({"model":"a","keep_alive":0,"stream":false})");
  EXPECT_EQ(reply.at("done_reason"), "unload");
  while (StateOf("a") != "unloaded") std::this_thread::yield();
  const Json again =
      PostJson("/api/generate", R"({"model":"a","stream":false})");
  EXPECT_EQ(again.at("done_reason"), "load");
  EXPECT_EQ(StateOf("a"), "ready");
}

TEST_F(ModelSwapTest, AnUnknownModelIsStillUnknown) {
  EXPECT_EQ(Post("/v1/chat/completions", ChatOf("nobody")).status, 404);
  EXPECT_EQ(Post("/tokenize", R"({"model":"nobody","prompt":"x"})").status,
            404);
  EXPECT_EQ(
      Post("/api/generate", R"({"model":"nobody","keep_alive":0})").status,
      404);
}

TEST_F(FrontTest, WithoutDemandNoModelIsUnloaded) {
  const ClientReply reply =
      Post("/api/generate", R"({"model":"a","keep_alive":0})");
  EXPECT_EQ(reply.status, 400);
  EXPECT_THAT(reply.body, HasSubstr("models stay loaded"));
}

}  // namespace
}  // namespace plimsoll::services
