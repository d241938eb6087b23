#include "services/fetch/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/services/fetch/fake_transport.h"

namespace plimsoll::fetch {
namespace {

using testing::FakeReply;
using testing::FakeRequest;
using testing::FakeTransport;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class FetchSessionTest : public ::testing::Test {
 protected:
  FetchSession Open(FakeTransport::Answer answer) {
    return OpenWith(/*allows_plain=*/false, std::move(answer));
  }
  FetchSession OpenWith(bool allows_plain, FakeTransport::Answer answer) {
    return FetchSession(
        std::make_unique<FakeTransport>(requests_, std::move(answer)),
        allows_plain);
  }
  static absl::StatusOr<FetchSession::Document> Ask(FetchSession& session,
                                                    const std::string& url) {
    return session.GetDocument(*ParseUrl(url), {}, 10, "it");
  }

  std::vector<FakeRequest> requests_;
};

FakeReply Leads(const std::string& location) {
  return {.head = {302, {{"Location", location}}}};
}

TEST_F(FetchSessionTest, ADocumentHasAsManyBytesAsItMayAndNotOneMore) {
  std::string body(10, 'x');
  FetchSession session = Open([&](const FakeRequest&) {
    return FakeReply{{200, {}}, body};
  });
  EXPECT_EQ(Ask(session, "https://a.example/")->body, body);
  body += 'x';
  EXPECT_TRUE(
      absl::IsResourceExhausted(Ask(session, "https://a.example/").status()));
}

TEST_F(FetchSessionTest, StatusesSayWhatToDo) {
  int code = 0;
  FetchSession session = Open([&](const FakeRequest&) {
    return FakeReply{{code, {}}};
  });
  const auto found = [&](int status) {
    code = status;
    return Ask(session, "https://a.example/").status().code();
  };
  EXPECT_EQ(found(401), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(found(403), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(found(404), absl::StatusCode::kNotFound);
  EXPECT_EQ(found(429), absl::StatusCode::kUnavailable);
  EXPECT_EQ(found(503), absl::StatusCode::kUnavailable);
  EXPECT_EQ(found(204), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(found(302), absl::StatusCode::kFailedPrecondition);  // to nowhere
}

TEST_F(FetchSessionTest, MostRedirectsAreFollowedAndOneMoreIsNot) {
  int left = 0;
  FetchSession session = Open([&](const FakeRequest&) {
    return left-- > 0 ? Leads("/next") : FakeReply{{200, {}}, "x"};
  });
  left = kMaxRedirects;
  EXPECT_TRUE(Ask(session, "https://a.example/").ok());
  left = kMaxRedirects + 1;
  EXPECT_TRUE(absl::IsDataLoss(Ask(session, "https://a.example/").status()));
}

TEST_F(FetchSessionTest, ATokenStaysWithItsServer) {
  FetchSession session = Open([&](const FakeRequest& request) {
    if (request.url == "https://a.example/1") return Leads("/2");
    if (request.url == "https://a.example/2") return Leads("//b.example/");
    return FakeReply{{200, {}}, "x"};
  });
  ASSERT_TRUE(session.ShowToken(*ParseUrl("https://a.example/"), "t").ok());
  ASSERT_TRUE(Ask(session, "https://a.example/1").ok());
  ASSERT_THAT(requests_, SizeIs(3));
  EXPECT_EQ(requests_[0].Field("Authorization"), "Bearer t");
  EXPECT_EQ(requests_[1].Field("Authorization"), "Bearer t");
  EXPECT_EQ(requests_[2].Field("Authorization"), "");
}

TEST_F(FetchSessionTest, ATokenIsNotShownWithoutTls) {
  FetchSession session = OpenWith(
      /*allows_plain=*/true, [](const FakeRequest&) { return FakeReply{}; });
  const Url plain = *ParseUrl("http://a.example/");
  EXPECT_TRUE(absl::IsFailedPrecondition(session.ShowToken(plain, "t")));
  EXPECT_TRUE(
      absl::IsFailedPrecondition(session.AnswerChallenges(plain, "me:secret")));
  EXPECT_TRUE(session.ShowToken(*ParseUrl("http://127.0.0.1/"), "t").ok());
}

TEST_F(FetchSessionTest, ATokenCannotBeginALineOfTheHead) {
  FetchSession session = Open([](const FakeRequest&) { return FakeReply{}; });
  const Url url = *ParseUrl("https://a.example/");
  for (const std::string& token :
       {std::string(), std::string("a b"), std::string("a\r\nX: y"),
        std::string(kMaxTokenBytes + 1, 't')}) {
    EXPECT_TRUE(absl::IsInvalidArgument(session.ShowToken(url, token)));
  }
  EXPECT_TRUE(session.ShowToken(url, std::string(kMaxTokenBytes, 't')).ok());
}

TEST_F(FetchSessionTest, ARedirectDoesNotLeadOutOfTls) {
  FetchSession session =
      Open([](const FakeRequest&) { return Leads("http://127.0.0.1/x"); });
  const absl::Status status = Ask(session, "https://a.example/").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(requests_, SizeIs(1));
}

TEST_F(FetchSessionTest, ARedirectHasAsManyBytesAsItMayAndNotOneMore) {
  size_t n_bytes = kMaxDroppedBytes;
  FetchSession session = Open([&](const FakeRequest& request) {
    if (request.url.ends_with("/2")) return FakeReply{{200, {}}, "x"};
    FakeReply reply = Leads("/2");
    reply.body = std::string(n_bytes, 'x');
    return reply;
  });
  EXPECT_TRUE(Ask(session, "https://a.example/1").ok());
  ++n_bytes;
  EXPECT_TRUE(
      absl::IsResourceExhausted(Ask(session, "https://a.example/1").status()));
}

TEST_F(FetchSessionTest, ARedirectToNoUrlIsAnError) {
  FetchSession session =
      Open([](const FakeRequest&) { return Leads("file:///etc/passwd"); });
  EXPECT_TRUE(absl::IsDataLoss(Ask(session, "https://a.example/").status()));
}

// A registry that wants the token "good", which is got at `realm`.
FakeReply Registry(const FakeRequest& request, const std::string& realm) {
  if (request.url.starts_with(realm)) {
    return {{200, {}}, R"({"token": "good"})"};
  }
  if (request.Field("Authorization") == "Bearer good") {
    return {{200, {}}, "x"};
  }
  return {{401,
           {{"WWW-Authenticate",
             "Bearer realm=\"" + realm + "\",service=\"s\",scope=\"a:b\""}}}};
}

TEST_F(FetchSessionTest, AChallengeIsAnsweredOnceForAllRequests) {
  FetchSession session = Open([](const FakeRequest& request) {
    return Registry(request, "https://auth.example/token");
  });
  const Url registry = *ParseUrl("https://r.example/");
  ASSERT_TRUE(session.AnswerChallenges(registry, "me:secret").ok());
  ASSERT_TRUE(Ask(session, "https://r.example/v2/").ok());
  ASSERT_TRUE(Ask(session, "https://r.example/v2/").ok());
  ASSERT_THAT(requests_, SizeIs(4));
  EXPECT_EQ(requests_[1].url,
            "https://auth.example/token?service=s&scope=a%3Ab");
  // The password is for the registry's own server.
  EXPECT_EQ(requests_[1].Field("Authorization"), "");
}

TEST_F(FetchSessionTest, TheRegistrysOwnServerGetsThePassword) {
  FetchSession session = Open([](const FakeRequest& request) {
    return Registry(request, "https://r.example/token");
  });
  const Url registry = *ParseUrl("https://r.example/");
  ASSERT_TRUE(session.AnswerChallenges(registry, "me:secret").ok());
  ASSERT_TRUE(Ask(session, "https://r.example/v2/").ok());
  ASSERT_THAT(requests_, SizeIs(3));
  EXPECT_EQ(requests_[1].Field("Authorization"), "Basic bWU6c2VjcmV0");
}

TEST_F(FetchSessionTest, AnotherServersChallengeIsNotAnswered) {
  FetchSession session = Open([](const FakeRequest& request) {
    return Registry(request, "https://auth.example/token");
  });
  ASSERT_TRUE(
      session.AnswerChallenges(*ParseUrl("https://r.example/"), "").ok());
  EXPECT_TRUE(absl::IsPermissionDenied(
      Ask(session, "https://other.example/v2/").status()));
  EXPECT_THAT(requests_, SizeIs(1));
}

TEST_F(FetchSessionTest, AnUnansweredChallengeEnds) {
  FetchSession session = Open([](const FakeRequest& request) {
    FakeReply reply = Registry(request, "https://auth.example/token");
    if (!reply.body.empty()) reply.body = R"({"token": "bad"})";
    return reply;
  });
  ASSERT_TRUE(
      session.AnswerChallenges(*ParseUrl("https://r.example/"), "").ok());
  EXPECT_TRUE(
      absl::IsPermissionDenied(Ask(session, "https://r.example/v2/").status()));
  EXPECT_THAT(requests_, SizeIs(3));
}

TEST_F(FetchSessionTest, ATokensReplyHasAsManyBytesAsItMayAndNotOneMore) {
  size_t n_bytes = kMaxTokenReplyBytes;
  FetchSession session = Open([&](const FakeRequest& request) {
    FakeReply reply = Registry(request, "https://auth.example/token");
    if (request.url.find("/token") != std::string::npos) {
      reply.body.resize(n_bytes, ' ');
    }
    return reply;
  });
  const Url registry = *ParseUrl("https://r.example/");
  ASSERT_TRUE(session.AnswerChallenges(registry, "").ok());
  ++n_bytes;
  EXPECT_TRUE(absl::IsResourceExhausted(
      Ask(session, "https://r.example/v2/").status()));
  --n_bytes;
  EXPECT_TRUE(Ask(session, "https://r.example/v2/").ok());
}

TEST_F(FetchSessionTest, ATokenServiceThatGivesNoneIsAnError) {
  std::string body;
  FetchSession session = Open([&](const FakeRequest& request) {
    FakeReply reply = Registry(request, "https://auth.example/token");
    if (!reply.body.empty()) reply.body = body;
    return reply;
  });
  ASSERT_TRUE(
      session.AnswerChallenges(*ParseUrl("https://r.example/"), "").ok());
  for (const char* text : {"{}", "[", "7", "{\"token\": 7}",
                           "{\"token\": \"a\\nb\"}", "{\"token\": \"\"}"}) {
    body = text;
    EXPECT_FALSE(Ask(session, "https://r.example/v2/").ok()) << text;
  }
}

}  // namespace
}  // namespace plimsoll::fetch
