// The listener for Prometheus over real sockets.
#include "services/http/metrics_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tests/services/http/http_client.h"

namespace plimsoll::services {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<MetricsServer> StartWith(const std::string& listen,
                                         bool is_ready) {
  return *MetricsServer::Start(listen,
                               {.metrics = [] { return std::string("a 1\n"); },
                                .is_ready = [is_ready] { return is_ready; }});
}

std::unique_ptr<MetricsServer> StartOn(const std::string& listen) {
  return StartWith(listen, /*is_ready=*/true);
}

std::unique_ptr<MetricsServer> StartUnready() {
  return StartWith("127.0.0.1:0", /*is_ready=*/false);
}

TEST(MetricsServerTest, AnswersGetAndHead) {
  const auto server = StartOn("127.0.0.1:0");
  HttpClient client(server->address());
  const ClientReply get = client.Get("/metrics");
  EXPECT_EQ(get.status, 200);
  EXPECT_EQ(get.body, "a 1\n");
  EXPECT_THAT(get.head, HasSubstr("content-type: text/plain; version=0.0.4"));
  EXPECT_THAT(get.head, HasSubstr("cache-control: no-store"));
  client.Send(client.Request("HEAD", "/metrics", {}));
  const ClientReply head = client.ReadHead();
  EXPECT_EQ(head.status, 200);
  EXPECT_THAT(head.head, HasSubstr("content-length: 4"));
}

TEST(MetricsServerTest, HealthIsThatOfTheProcess) {
  const auto ready = StartOn("127.0.0.1:0");
  HttpClient client(ready->address());
  const ClientReply good = client.Get("/health");
  EXPECT_EQ(good.status, 200);
  EXPECT_EQ(good.body, R"({"status":"ok"})");
  EXPECT_EQ(client.Post("/health", "").status, 405);
  const auto busy = StartUnready();
  const ClientReply bad = HttpClient(busy->address()).Get("/health");
  EXPECT_EQ(bad.status, 503);
  EXPECT_EQ(bad.body, R"({"status":"not ready"})");
}

TEST(MetricsServerTest, LivenessIsThatOfTheProcess) {
  const auto server = StartUnready();
  HttpClient client(server->address());
  const ClientReply reply = client.Get("/livez");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, R"({"status":"alive"})");
  EXPECT_EQ(client.Post("/livez", "").status, 405);
  const auto hung = MetricsServer::Start(
      "127.0.0.1:0", {.metrics = [] { return std::string(); },
                      .is_ready = [] { return true; },
                      .is_alive = [] { return false; }});
  ASSERT_TRUE(hung.ok()) << hung.status();
  const ClientReply bad = HttpClient((*hung)->address()).Get("/livez");
  EXPECT_EQ(bad.status, 503);
  EXPECT_EQ(bad.body, R"({"status":"hangs"})");
}

TEST(MetricsServerTest, HasNothingElse) {
  const auto server = StartOn("127.0.0.1:0");
  HttpClient client(server->address());
  EXPECT_EQ(client.Get("/").status, 404);
  EXPECT_EQ(client.Get("/metrics/").status, 404);
  EXPECT_EQ(client.Get("/health/").status, 404);
  EXPECT_EQ(client.Get("/v1/models").status, 404);
  const ClientReply post = client.Post("/metrics", "");
  EXPECT_EQ(post.status, 405);
  EXPECT_THAT(post.head, HasSubstr("allow: get, head"));
  EXPECT_EQ(client.Post("/metrics", std::string(100'000, 'a')).status, 413);
}

TEST(MetricsServerTest, OnLoopbackNoPageGetsThemByAName) {
  const auto local = StartOn("127.0.0.1:0");
  HttpClient client(local->address());
  client.Send(
      client.Request("GET", "/metrics", {.headers = "Host: evil.example\r\n"}));
  EXPECT_EQ(client.Read().status, 403);
}

TEST(MetricsServerTest, ElsewhereAnyNameIsAnswered) {
  const auto open = StartOn("0.0.0.0:0");
  const size_t colon = open->address().rfind(':');
  HttpClient client(absl::StrCat("127.0.0.1", open->address().substr(colon)));
  client.Send(client.Request("GET", "/metrics",
                             {.headers = "Host: worker-0:9090\r\n"}));
  EXPECT_EQ(client.Read().status, 200);
}

TEST(MetricsServerTest, ManyConnectionsAreTurnedAway) {
  const auto server = StartOn("127.0.0.1:0");
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (size_t i = 0; i < MetricsServer::kMaxConnections; ++i) {
    clients.push_back(std::make_unique<HttpClient>(server->address()));
    EXPECT_EQ(clients.back()->Get("/metrics").status, 200);
  }
  EXPECT_EQ(HttpClient(server->address()).Read().status, 503);
}

TEST(MetricsServerTest, AMistakeNamesTheFlag) {
  const auto server =
      MetricsServer::Start("9090", {.metrics = [] { return std::string(); },
                                    .is_ready = [] { return true; }});
  EXPECT_EQ(server.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(server.status().message()),
              HasSubstr("--metrics-listen takes HOST:PORT"));
}

}  // namespace
}  // namespace plimsoll::services
