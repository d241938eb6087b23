#include "services/http/http_tls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <deque>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "services/cli/backends/dev_certificates.h"
#include "tests/services/http/echo_server.h"
#include "tests/services/http/tls_client.h"
#include "tests/services/temporary_folder.h"

namespace plimsoll::services {
namespace {

using ::testing::HasSubstr;

// A folder of certificates.
class HttpTlsTest : public ::testing::Test {
 protected:
  HttpTlsTest() {
    Write("ca.pem", ca_.certificate);
    WriteServer();
    const cli::CertificatePair client = *cli::NewDevClient(ca_, "test");
    Write("client.pem", client.certificate);
    Write("client-key.pem", client.key);
    const cli::CertificatePair other_ca = *cli::NewDevCa();
    const cli::CertificatePair stranger =
        *cli::NewDevClient(other_ca, "stranger");
    Write("other-ca.pem", other_ca.certificate);
    Write("stranger.pem", stranger.certificate);
    Write("stranger-key.pem", stranger.key);
  }

  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_.File(name)) << text;
  }
  // Writes a new certificate for the server.
  void WriteServer() const {
    const cli::CertificatePair server =
        *cli::NewDevServer(ca_, {"localhost", "127.0.0.1"});
    Write("server.pem", server.certificate);
    Write("server-key.pem", server.key);
  }
  std::string File(const std::string& name) const { return folder_.File(name); }

  ServerTls Server() const {
    return {.cert = File("server.pem"), .key = File("server-key.pem")};
  }
  ServerTls ServerThatAsks() const {
    ServerTls tls = Server();
    tls.client_ca = File("ca.pem");
    return tls;
  }
  // A client without a certificate.
  ClientSecurity Client() const { return {.ca = File("ca.pem")}; }
  TlsClient Connect(const EchoServer& echo) const {
    return TlsClient(echo.server->address(), Client(), {});
  }
  // Shows the certificate of this name.
  TlsClient ConnectAs(const std::string& name, const EchoServer& echo) const {
    ClientSecurity security = Client();
    security.cert = File(name + ".pem");
    security.key = File(name + "-key.pem");
    return TlsClient(echo.server->address(), security, {});
  }

  const cli::CertificatePair ca_ = *cli::NewDevCa();
  const testing::TemporaryFolder folder_;
};

TEST_F(HttpTlsTest, AnswersRequestsOneAfterTheOther) {
  const EchoServer echo({.tls = Server()});
  TlsClient client = Connect(echo);
  ASSERT_TRUE(client.is_connected());
  EXPECT_EQ(client.Get("/a?b=c").body, "GET /a ");
  EXPECT_EQ(client.Post("/a", "body").body, "POST /a body");
  const std::string large(1 << 20, 'b');
  EXPECT_EQ(client.Post("/", large).body, "POST / " + large);
}

TEST_F(HttpTlsTest, SpeaksNewVersionsOnly) {
  const EchoServer echo({.tls = Server()});
  EXPECT_EQ(Connect(echo).version(), "TLSv1.3");
  TlsClient older(echo.server->address(), Client(), {.newest = TLS1_2_VERSION});
  EXPECT_EQ(older.version(), "TLSv1.2");
  EXPECT_EQ(older.Get("/").status, 200);
  const TlsClient old(echo.server->address(), Client(),
                      {.newest = TLS1_1_VERSION});
  EXPECT_FALSE(old.is_connected());
}

TEST_F(HttpTlsTest, AgreesOnHttpOnly) {
  const EchoServer echo({.tls = Server()});
  const TlsClient http(echo.server->address(), Client(),
                       {.protocol = "http/1.1"});
  EXPECT_EQ(http.protocol(), "http/1.1");
  EXPECT_TRUE(Connect(echo).is_connected()) << "without ALPN";
  EXPECT_FALSE(TlsClient(echo.server->address(), Client(), {.protocol = "h2"})
                   .is_connected());
}

TEST_F(HttpTlsTest, AClientThatTrustsAnotherCaGoes) {
  const EchoServer echo({.tls = Server()});
  EXPECT_FALSE(
      TlsClient(echo.server->address(), {.ca = File("other-ca.pem")}, {})
          .is_connected());
  EXPECT_EQ(Connect(echo).Get("/").status, 200);
}

TEST_F(HttpTlsTest, TakesOnlyClientsWithACertificateOfTheCa) {
  const EchoServer echo({.tls = ServerThatAsks()});
  EXPECT_EQ(ConnectAs("client", echo).Get("/").status, 200);
  EXPECT_EQ(Connect(echo).Get("/").status, 0);
  EXPECT_EQ(ConnectAs("stranger", echo).Get("/").status, 0);
}

TEST_F(HttpTlsTest, TellsAClientWithoutTlsWhatToDo) {
  const EchoServer echo({.tls = Server()});
  HttpClient plain = echo.Connect();
  const ClientReply reply = plain.Get("/");
  EXPECT_EQ(reply.status, 400);
  EXPECT_THAT(reply.body, HasSubstr("https://"));
  EXPECT_TRUE(plain.IsClosed());
}

TEST_F(HttpTlsTest, GarbageHarmsNobody) {
  const EchoServer echo({.tls = Server()});
  TlsClient other = Connect(echo);
  for (const std::string& bytes :
       {std::string("hello\r\n\r\n"),
        std::string("\x16\x03\x01\xff\xff\x01", 6), std::string(1 << 20, '\0'),
        std::string("PRI * HTTP/2.0\r\n\r\n")}) {
    HttpClient garbage = echo.Connect();
    garbage.Send(bytes);
    if (bytes.size() == 6) garbage.Close();  // the rest would never come
    EXPECT_EQ(garbage.Read().status, 0);
  }
  EXPECT_EQ(other.Get("/").status, 200);
  other.Send("hello\r\n\r\n");
  EXPECT_EQ(other.Read().status, 400) << "garbage within TLS";
}

TEST_F(HttpTlsTest, ClosesHandshakesThatTakeTooLong) {
  const EchoServer echo(
      {.limits = {.handshake_time = absl::Milliseconds(50)}, .tls = Server()});
  HttpClient silent = echo.Connect();
  HttpClient slow = echo.Connect();
  slow.Send("\x16\x03\x01");
  EXPECT_TRUE(silent.IsClosed());
  EXPECT_TRUE(slow.IsClosed());
  echo.AwaitConnections(0);
}

TEST_F(HttpTlsTest, AHandshakeMayTakeItsTime) {
  const EchoServer echo({.limits = {.handshake_time = absl::Seconds(20),
                                    .header_time = absl::Milliseconds(50)},
                         .tls = Server()});
  HttpClient silent = echo.Connect();
  TlsClient idle = Connect(echo);
  EXPECT_TRUE(idle.IsClosed()) << "the time for headers begins behind it";
  echo.AwaitConnections(1);
}

TEST_F(HttpTlsTest, LimitsTheConnections) {
  const EchoServer echo({.limits = {.tls_connections = 2}, .tls = Server()});
  TlsClient one = Connect(echo);
  TlsClient two = Connect(echo);
  EXPECT_EQ(one.Get("/").status, 200);
  EXPECT_EQ(two.Get("/").status, 200);
  EXPECT_FALSE(Connect(echo).is_connected());
  one.Close();
  echo.AwaitConnections(1);
  EXPECT_EQ(Connect(echo).Get("/").status, 200);
}

TEST_F(HttpTlsTest, HandshakesThatNeverEndKeepNobodyOut) {
  const EchoServer echo({.limits = {.tls_connections = 2}, .tls = Server()});
  std::deque<HttpClient> open;
  for (int i = 0; i < 5; ++i) open.emplace_back(echo.server->address());
  TlsClient client = Connect(echo);
  EXPECT_EQ(client.Get("/").status, 200);
  EXPECT_TRUE(open.front().IsClosed());
  // What has ended its handshake stays.
  for (int i = 0; i < 5; ++i) open.emplace_back(echo.server->address());
  EXPECT_TRUE(open[5].IsClosed());
  EXPECT_EQ(client.Get("/").status, 200);
}

TEST_F(HttpTlsTest, NewConnectionsGetTheNewCertificate) {
  absl::Time now = absl::UnixEpoch();
  const auto tls = *HttpTls::Open(Server(), [&now] { return now; });
  const void* first = &tls->Current();
  WriteServer();
  now += PollTimer::kInterval - absl::Nanoseconds(1);
  EXPECT_EQ(&tls->Current(), first) << "it was looked at a moment ago";
  now += absl::Nanoseconds(1);
  EXPECT_NE(&tls->Current(), first);
}

TEST_F(HttpTlsTest, ABadFileKeepsWhatWasReadLastAndIsLoggedOnce) {
  absl::Time now = absl::UnixEpoch();
  const auto tls = *HttpTls::Open(Server(), [&now] { return now; });
  const void* first = &tls->Current();
  Write("server.pem", "nonsense");
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) {
    now += PollTimer::kInterval;
    EXPECT_EQ(&tls->Current(), first);
  }
  const std::string log = ::testing::internal::GetCapturedStderr();
  const size_t at = log.find("there is no certificate in it");
  EXPECT_NE(at, std::string::npos) << log;
  EXPECT_EQ(log.find("there is no certificate in it", at + 1),
            std::string::npos);
  WriteServer();
  now += PollTimer::kInterval;
  EXPECT_NE(&tls->Current(), first);
}

TEST_F(HttpTlsTest, AServerReadsItsFilesAgain) {
  const EchoServer echo({.tls = Server()});
  TlsClient before = Connect(echo);
  WriteServer();
  while (Connect(echo).serial() == before.serial()) {
    absl::SleepFor(absl::Milliseconds(20));
  }
  EXPECT_EQ(before.Get("/").status, 200) << "what is open goes on";
}

TEST_F(HttpTlsTest, RefusesBadFilesAtTheStart) {
  ByteBudget messages(1 << 20);
  const auto start = [&](const ServerTls& tls) {
    return HttpServer::Start({.tls = tls}, messages, Echo).status();
  };
  EXPECT_THAT(start({.cert = File("server.pem")}).ToString(),
              HasSubstr("--tls-key"));
  Write("server.pem", absl::StrCat(ca_.certificate,
                                   "-----BEGIN CERTIFICATE---"
                                   "--\nAAAA\n-----END CERTIFICATE-----\n"));
  Write("server-key.pem", ca_.key);
  EXPECT_EQ(start(Server()).code(), absl::StatusCode::kInvalidArgument)
      << "the second certificate is none";
}

TEST_F(HttpTlsTest, SaysThatAClientIsGone) {
  for (const bool says_goodbye : {false, true}) {
    absl::Notification gone;
    absl::Notification called;
    std::shared_ptr<HttpReply> reply;
    const EchoServer echo(
        {.handler =
             [&](HttpRequest, std::shared_ptr<HttpReply> given) {
               given->OnGone([&gone] { gone.Notify(); });
               reply = std::move(given);
               called.Notify();
             },
         .tls = Server()});
    TlsClient client = Connect(echo);
    client.Send(client.Request("GET", "/", {}));
    called.WaitForNotification();
    if (says_goodbye) client.EndTls();
    client.Close();
    EXPECT_TRUE(gone.WaitForNotificationWithTimeout(absl::Seconds(20)));
  }
}

TEST_F(HttpTlsTest, StreamsEventsAndThenTheNextRequest) {
  const auto events = std::make_shared<TestEvents>();
  events->Add(absl::StrCat("data: ", std::string(200'000, 'x'), "\n\n"),
              /*is_last=*/false);
  std::shared_ptr<HttpReply> reply;
  absl::Notification called;
  const EchoServer echo(
      {.handler =
           [&](HttpRequest request, std::shared_ptr<HttpReply> given) {
             if (request.path != "/stream") {
               return Echo(std::move(request), std::move(given));
             }
             given->Stream(events);
             reply = std::move(given);
             called.Notify();
           },
       .tls = Server()});
  TlsClient client = Connect(echo);
  client.Send(client.Request("GET", "/stream", {}));
  called.WaitForNotification();
  std::string body;
  EXPECT_EQ(client.ReadHead().status, 200);
  EXPECT_TRUE(client.ReadChunk(body));
  events->Add("data: 2\n\n", /*is_last=*/true);
  reply->Wake();
  while (client.ReadChunk(body)) continue;
  EXPECT_EQ(body.size(), 200'000 + 8 + 9);
  EXPECT_EQ(client.Get("/next").body, "GET /next ");
}

TEST_F(HttpTlsTest, ARefusedClientReadsWhyWhileItStillSends) {
  const EchoServer echo({.limits = {.body_bytes = 1'000}, .tls = Server()});
  TlsClient client = Connect(echo);
  EXPECT_EQ(client.Post("/", std::string(1 << 18, 'b')).status, 413);
}

TEST_F(HttpTlsTest, AnswersARequestThatCameTooEarlyNoMore) {
  const EchoServer echo({.tls = Server()});
  TlsClient client = Connect(echo);
  client.Send(client.Request("GET", "/one", {}) +
              client.Request("GET", "/two", {}));
  EXPECT_EQ(client.Read().body, "GET /one ");
  EXPECT_TRUE(client.IsClosed());
}

TEST_F(HttpTlsTest, Drains) {
  const EchoServer echo({.tls = Server()});
  HttpClient silent = echo.Connect();
  TlsClient idle = Connect(echo);
  EXPECT_EQ(idle.Get("/").status, 200);
  EXPECT_TRUE(echo.server->Drain(absl::Seconds(20)));
  EXPECT_TRUE(idle.IsClosed());
  EXPECT_TRUE(silent.IsClosed());
}

}  // namespace
}  // namespace plimsoll::services
