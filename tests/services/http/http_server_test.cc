#include "services/http/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "tests/services/http/echo_server.h"
#include "tests/services/http/http_client.h"

namespace plimsoll::services {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

// A body of as many bytes as the path says.
std::string BodyOf(const std::string& path) {
  std::string body(std::stoul(path.substr(1)), ' ');
  for (size_t i = 0; i < body.size(); ++i) {
    body[i] = static_cast<char>('a' + i % 23);
  }
  return body;
}

TEST(HttpServerTest, AnswersRequestsOneAfterTheOther) {
  const EchoServer echo;
  HttpClient client = echo.Connect();
  const ClientReply first = client.Get("/a?b=c");
  EXPECT_EQ(first.status, 200);
  EXPECT_EQ(first.body, "GET /a ");
  EXPECT_THAT(first.head, HasSubstr("connection: keep-alive"));
  EXPECT_EQ(client.Post("/a", "body").body, "POST /a body");
}

TEST(HttpServerTest, KeepsAGoodRequestIdAndMakesAnother) {
  const EchoServer echo;
  HttpClient client = echo.Connect();
  EXPECT_THAT(
      client.PostContent("/", {.headers = "X-Request-Id: abc-1\r\n"}).head,
      HasSubstr("x-request-id: abc-1\r\n"));
  EXPECT_THAT(
      client.PostContent("/", {.headers = "X-Request-Id: a b\r\n"}).head,
      ::testing::Not(HasSubstr("a b")));
}

TEST(HttpServerTest, AHeadHasNoBody) {
  const EchoServer echo;
  HttpClient client = echo.Connect();
  client.Send(client.Request("HEAD", "/", {}));
  EXPECT_THAT(client.ReadHead().head, HasSubstr("content-length: 7"));
  EXPECT_EQ(client.Get("/next").body, "GET /next ");
}

TEST(HttpServerTest, SendsBodiesOfAnySizeWhole) {
  const EchoServer echo(
      {.handler = [](HttpRequest request, std::shared_ptr<HttpReply> reply) {
        reply->Send({.body = BodyOf(request.path)});
      }});
  HttpClient client = echo.Connect();
  // The head has less than 1 KiB, and 64 KiB are written at once.
  for (const size_t n :
       std::initializer_list<size_t>{0, 1, 64'000, 65'000, 65'535, 65'536,
                                     65'537, 130'900, 131'072, 1'000'000}) {
    const std::string path = absl::StrCat("/", n);
    const ClientReply reply = client.Get(path);
    EXPECT_EQ(reply.body.size(), n);
    EXPECT_TRUE(reply.body == BodyOf(path)) << n;
  }
}

TEST(HttpServerTest, LimitsTheHeaders) {
  const EchoServer echo({.limits = {.header_bytes = 1'024}});
  const HttpClient probe(echo.server->address());
  const size_t frame = probe.Request("GET", "/", {.headers = "X: \r\n"}).size();
  HttpClient at = echo.Connect();
  at.Send(at.Request("GET", "/",
                     {.headers = absl::StrCat(
                          "X: ", std::string(1'024 - frame, 'x'), "\r\n")}));
  EXPECT_EQ(at.Read().status, 200);
  HttpClient past = echo.Connect();
  past.Send(past.Request(
      "GET", "/",
      {.headers =
           absl::StrCat("X: ", std::string(1'025 - frame, 'x'), "\r\n")}));
  EXPECT_EQ(past.Read().status, 431);
  EXPECT_TRUE(past.IsClosed());
}

TEST(HttpServerTest, LimitsTheTarget) {
  const EchoServer echo({.limits = {.target_bytes = 10}});
  HttpClient client = echo.Connect();
  EXPECT_EQ(client.Get("/" + std::string(9, 'a')).status, 200);
  EXPECT_EQ(client.Get("/" + std::string(10, 'a')).status, 414);
  EXPECT_TRUE(client.IsClosed());
}

TEST(HttpServerTest, LimitsTheBody) {
  const EchoServer echo({.limits = {.body_bytes = 1'000}});
  HttpClient client = echo.Connect();
  EXPECT_EQ(client.Post("/", std::string(1'000, 'b')).status, 200);
  EXPECT_EQ(client.Post("/", std::string(1'001, 'b')).status, 413);
  EXPECT_TRUE(client.IsClosed());
}

TEST(HttpServerTest, LimitsABodyOfChunks) {
  const EchoServer echo({.limits = {.body_bytes = 16}});
  HttpClient client = echo.Connect();
  const std::string head =
      absl::StrCat("POST / HTTP/1.1\r\nHost: ", echo.server->address(),
                   "\r\nTransfer-Encoding: chunked\r\n\r\n");
  client.Send(head + "10\r\n0123456789abcdef\r\n0\r\n\r\n");
  EXPECT_THAT(client.Read().body, EndsWith("0123456789abcdef"));
  client.Send(head + "10\r\n0123456789abcdef\r\n1\r\ng\r\n0\r\n\r\n");
  EXPECT_EQ(client.Read().status, 413);
}

TEST(HttpServerTest, ARefusedClientReadsWhyWhileItStillSends) {
  const EchoServer echo({.limits = {.body_bytes = 1'000}});
  HttpClient client = echo.Connect();
  EXPECT_EQ(client.Post("/", std::string(1 << 20, 'b')).status, 413);
}

TEST(HttpServerTest, LimitsTheConnections) {
  const EchoServer echo({.limits = {.connections = 2}});
  HttpClient one = echo.Connect();
  HttpClient two = echo.Connect();
  EXPECT_EQ(one.Get("/").status, 200);
  EXPECT_EQ(two.Get("/").status, 200);
  HttpClient three = echo.Connect();
  const ClientReply refused = three.Read();
  EXPECT_EQ(refused.status, 503);
  EXPECT_THAT(refused.head, HasSubstr("retry-after"));
  one.Close();
  echo.AwaitConnections(1);
  EXPECT_EQ(echo.Connect().Get("/").status, 200);
}

TEST(HttpServerTest, LimitsTheRequestsOfAConnection) {
  const EchoServer echo({.limits = {.requests_per_connection = 2}});
  HttpClient client = echo.Connect();
  EXPECT_THAT(client.Get("/").head, HasSubstr("connection: keep-alive"));
  EXPECT_THAT(client.Get("/").head, HasSubstr("connection: close"));
  EXPECT_TRUE(client.IsClosed());
}

TEST(HttpServerTest, ClosesIdleConnections) {
  const EchoServer echo({.limits = {.idle_time = absl::Milliseconds(50)}});
  HttpClient client = echo.Connect();
  EXPECT_EQ(client.Get("/").status, 200);
  EXPECT_TRUE(client.IsClosed());
}

TEST(HttpServerTest, ClosesConnectionsWhoseHeadersTakeTooLong) {
  const EchoServer echo({.limits = {.header_time = absl::Milliseconds(50)}});
  HttpClient silent = echo.Connect();
  HttpClient slow = echo.Connect();
  slow.Send("GET / HT");
  EXPECT_TRUE(slow.IsClosed());
  EXPECT_TRUE(silent.IsClosed());
}

TEST(HttpServerTest, ClosesConnectionsWhoseBodiesTakeTooLong) {
  const EchoServer echo({.limits = {.body_time = absl::Milliseconds(50)}});
  HttpClient client = echo.Connect();
  client.Send(absl::StrCat("POST / HTTP/1.1\r\nHost: ", echo.server->address(),
                           "\r\nContent-Length: 2\r\n\r\nx"));
  EXPECT_TRUE(client.IsClosed());
}

TEST(HttpServerTest, AsksForABodyThatAClientHoldsBack) {
  const EchoServer echo;
  HttpClient client = echo.Connect();
  client.Send(absl::StrCat("POST / HTTP/1.1\r\nHost: ", echo.server->address(),
                           "\r\nExpect: 100-continue\r\n"
                           "Content-Length: 2\r\n\r\n"));
  EXPECT_EQ(client.Read().status, 100);
  client.Send("ok");
  EXPECT_EQ(client.Read().body, "POST / ok");
}

TEST(HttpServerTest, RefusesWhatIsNoRequest) {
  const EchoServer echo;
  for (const std::string bytes :
       {"hello\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "\x16\x03\x01\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: x\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1\r\n"
        "Transfer-Encoding: chunked\r\n\r\n"}) {
    HttpClient client = echo.Connect();
    client.Send(bytes);
    EXPECT_EQ(client.Read().status, 400) << bytes;
    EXPECT_TRUE(client.IsClosed());
  }
  HttpClient old = echo.Connect();
  old.Send("GET / HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n");
  EXPECT_EQ(old.Read().status, 505);
}

TEST(HttpServerTest, RefusesOtherHosts) {
  const EchoServer echo;
  for (const auto& [host, status] : std::vector<std::pair<std::string, int>>{
           {"localhost:1", 200}, {"models.lan", 200}, {"evil.example", 403}}) {
    HttpClient client = echo.Connect();
    client.Send(client.Request(
        "GET", "/", {.headers = absl::StrCat("Host: ", host, "\r\n")}));
    EXPECT_EQ(client.Read().status, status) << host;
  }
  HttpClient none = echo.Connect();
  none.Send("GET / HTTP/1.1\r\n\r\n");
  EXPECT_EQ(none.Read().status, 403);
}

TEST(HttpServerTest, RefusesPostsOfOtherPages) {
  const EchoServer echo;
  const std::string own =
      absl::StrCat("Origin: http://", echo.server->address(), "\r\n");
  EXPECT_EQ(echo.Connect().PostContent("/", {.headers = own}).status, 200);
  EXPECT_EQ(echo.Connect()
                .PostContent("/", {.headers = "Origin: https://chat.lan\r\n"})
                .status,
            200);
  for (const char* origin : {"null", "http://evil.example"}) {
    EXPECT_EQ(echo.Connect()
                  .PostContent("/", {.headers = absl::StrCat("Origin: ", origin,
                                                             "\r\n")})
                  .status,
              403)
        << origin;
  }
}

TEST(HttpServerTest, AnswersARequestThatCameTooEarlyNoMore) {
  const EchoServer echo;
  HttpClient client = echo.Connect();
  client.Send(client.Request("GET", "/one", {}) +
              client.Request("GET", "/two", {}));
  const ClientReply reply = client.Read();
  EXPECT_EQ(reply.body, "GET /one ");
  EXPECT_THAT(reply.head, HasSubstr("connection: close"));
  EXPECT_TRUE(client.IsClosed());
}

TEST(HttpServerTest, CountsTheMemoryOfBodies) {
  ByteBudget small(1 << 10);
  const auto server = *HttpServer::Start({}, small, Echo);
  HttpClient client(server->address());
  const int64_t most = small.max_share_bytes();
  EXPECT_EQ(
      client.Post("/", std::string(static_cast<size_t>(most), 'b')).status,
      200);
  while (small.traffic().held_bytes > 0) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_EQ(
      client.Post("/", std::string(static_cast<size_t>(most) + 1, 'b')).status,
      413);
}

TEST(HttpServerTest, StreamsEventsAsTheyCome) {
  const auto events = std::make_shared<TestEvents>();
  std::shared_ptr<HttpReply> reply;
  absl::Notification called;
  const EchoServer echo(
      {.handler = [&](HttpRequest, std::shared_ptr<HttpReply> given) {
        given->Stream(events);
        reply = std::move(given);
        called.Notify();
      }});
  HttpClient client = echo.Connect();
  client.Send(client.Request("GET", "/", {}));
  called.WaitForNotification();
  std::string body;
  events->Add("data: 1\n\n", /*is_last=*/false);
  reply->Wake();
  EXPECT_THAT(client.ReadHead().head,
              HasSubstr("content-type: text/event-stream"));
  EXPECT_TRUE(client.ReadChunk(body));
  EXPECT_EQ(body, "data: 1\n\n");
  events->Add("data: 2\n\n", /*is_last=*/true);
  reply->Wake();
  while (client.ReadChunk(body)) continue;
  EXPECT_EQ(body, "data: 1\n\ndata: 2\n\n");
}

TEST(HttpServerTest, RepeatsUntilItIsToldToStop) {
  const auto events = std::make_shared<TestEvents>();
  std::atomic<int> n_calls = 0;
  const EchoServer echo(
      {.limits = {.notice_time = absl::Milliseconds(1)},
       .handler = [&](HttpRequest, std::shared_ptr<HttpReply> given) {
         // It lives as long as the reply has not ended.
         HttpReply* const reply = given.get();
         reply->Repeat([&, reply] {
           if (n_calls == 0) reply->Stream(events);
           events->Add("+", /*is_last=*/++n_calls == 3);
           reply->Wake();
           return n_calls < 3;
         });
       }});
  HttpClient client = echo.Connect();
  EXPECT_EQ(client.Get("/").body, "+++");
  EXPECT_EQ(n_calls, 3);
}

TEST(HttpServerTest, RepeatsNothingOnceTheReplyHasEnded) {
  std::atomic<int> n_calls = 0;
  std::atomic<int> n_requests = 0;
  const EchoServer echo(
      {.limits = {.notice_time = absl::Milliseconds(1)},
       .handler = [&](HttpRequest, std::shared_ptr<HttpReply> given) {
         HttpReply* const reply = given.get();
         if (++n_requests > 1) return reply->Send({});
         reply->Repeat([&, reply] {
           if (++n_calls == 1) reply->Send({});
           return true;
         });
       }});
  HttpClient client = echo.Connect();
  EXPECT_EQ(client.Get("/").status, 200);
  EXPECT_EQ(client.Get("/").status, 200) << "the first reply has ended";
  const int n_before = n_calls;
  for (int i = 0; i < 20; ++i) EXPECT_EQ(client.Get("/").status, 200);
  EXPECT_EQ(n_calls, n_before);
}

TEST(HttpServerTest, AClientThatReadsNothingIsNotAskedForAndIsDropped) {
  const auto events = std::make_shared<TestEvents>();
  std::shared_ptr<HttpReply> reply;
  absl::Notification called;
  absl::Notification gone;
  const EchoServer echo(
      {.limits = {.reader_time = absl::Milliseconds(200)},
       .handler = [&](HttpRequest, std::shared_ptr<HttpReply> given) {
         given->OnGone([&gone] { gone.Notify(); });
         given->Stream(events);
         reply = std::move(given);
         called.Notify();
       }});
  HttpClient client = HttpClient::WithSmallBuffer(echo.server->address());
  client.Send(client.Request("GET", "/", {}));
  called.WaitForNotification();
  const std::string more_than_sockets_hold(16 << 20, 'x');
  events->Add(more_than_sockets_hold, /*is_last=*/false);
  reply->Wake();
  while (!events->is_empty()) absl::SleepFor(absl::Milliseconds(1));
  events->Add("more", /*is_last=*/false);
  reply->Wake();
  EXPECT_TRUE(gone.WaitForNotificationWithTimeout(absl::Seconds(20)));
  EXPECT_FALSE(events->is_empty()) << "what came meanwhile was not taken";
}

TEST(HttpServerTest, SaysThatAClientIsGone) {
  absl::Notification gone;
  absl::Notification called;
  std::shared_ptr<HttpReply> reply;
  const EchoServer echo(
      {.handler = [&](HttpRequest, std::shared_ptr<HttpReply> given) {
        given->OnGone([&gone] { gone.Notify(); });
        reply = std::move(given);
        called.Notify();
      }});
  HttpClient client = echo.Connect();
  client.Send(client.Request("GET", "/", {}));
  called.WaitForNotification();
  client.Close();
  EXPECT_TRUE(gone.WaitForNotificationWithTimeout(absl::Seconds(20)));
  bool is_told = false;
  reply->OnGone([&is_told] { is_told = true; });
  EXPECT_TRUE(is_told) << "at once, as it is known";
  reply->Send({.body = "too late"});
}

TEST(HttpServerTest, DrainsIdleConnectionsAtOnceAndOthersAfterTheirReplies) {
  std::shared_ptr<HttpReply> reply;
  absl::Notification called;
  EchoServer echo(
      {.handler = [&](HttpRequest request, std::shared_ptr<HttpReply> given) {
        if (request.path == "/now") return given->Send({.body = "now"});
        reply = std::move(given);
        called.Notify();
      }});
  HttpClient idle = echo.Connect();
  EXPECT_EQ(idle.Get("/now").status, 200);
  HttpClient busy = echo.Connect();
  busy.Send(busy.Request("GET", "/later", {}));
  called.WaitForNotification();
  EXPECT_FALSE(echo.server->Drain(absl::Milliseconds(100)));
  EXPECT_TRUE(idle.IsClosed());
  reply->Send({.body = "later"});
  EXPECT_EQ(busy.Read().body, "later");
  EXPECT_TRUE(busy.IsClosed());
  EXPECT_TRUE(echo.server->Drain(absl::Seconds(20)));
}

TEST(HttpServerTest, AReplyMayOutliveTheServer) {
  std::shared_ptr<HttpReply> reply;
  absl::Notification called;
  {
    const EchoServer echo(
        {.handler = [&](HttpRequest, std::shared_ptr<HttpReply> given) {
          reply = std::move(given);
          called.Notify();
        }});
    HttpClient client = echo.Connect();
    client.Send(client.Request("GET", "/", {}));
    called.WaitForNotification();
  }
  reply->Wake();
  reply->Send({.body = "nobody reads this"});
}

TEST(HttpServerTest, RefusesAddressesThatItCannotListenOn) {
  ByteBudget messages(1 << 20);
  const auto first = HttpServer::Start({}, messages, Echo);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(HttpServer::Start({.listen = (*first)->address()}, messages, Echo)
                .status()
                .code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(
      HttpServer::Start({.listen = "8080"}, messages, Echo).status().code(),
      absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace plimsoll::services
