// Sessions over real sockets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "services/wire/errors.h"
#include "tests/services/worker/worker_fixture.h"

namespace plimsoll::services {
namespace {

using ::testing::HasSubstr;

struct Reply {
  absl::Status status;
  std::vector<v1::ChatResponse> parts;

  std::string text() const {
    std::string text;
    for (const v1::ChatResponse& part : parts) text += part.text();
    return text;
  }
  v1::FinishInfo finish() const {
    return parts.empty() ? v1::FinishInfo() : parts.back().finish();
  }
};

class SessionServiceTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    worker_ = new TestWorker;
    ASSERT_TRUE(worker_->LoadWithContext("a", 512).ok());
  }
  static void TearDownTestSuite() {
    delete worker_;
    worker_ = nullptr;
  }
  void TearDown() override {
    for (const char* tenant : {kNoTenant, "one"}) {
      const v1::ListSessionsResponse left = List(tenant);
      for (const v1::Session& session : left.sessions()) {
        EXPECT_TRUE(Close(session.session_id(), tenant).ok());
      }
    }
  }

  static constexpr char kNoTenant[] = "";

  static void As(const std::string& tenant, grpc::ClientContext& context) {
    if (!tenant.empty()) context.AddMetadata("x-tenant", tenant);
  }
  static absl::StatusOr<v1::Session> Open(v1::OpenSessionRequest request,
                                          const std::string& tenant) {
    grpc::ClientContext context;
    As(tenant, context);
    request.set_model("a");
    v1::OpenSessionResponse response;
    const absl::Status status =
        FromGrpc(worker_->sessions->OpenSession(&context, request, &response));
    if (!status.ok()) return status;
    return response.session();
  }
  static absl::StatusOr<v1::Session> Open(const std::string& id,
                                          const std::string& tenant) {
    v1::OpenSessionRequest request;
    request.set_session_id(id);
    return Open(request, tenant);
  }
  static absl::StatusOr<v1::Session> Get(const std::string& id,
                                         const std::string& tenant) {
    grpc::ClientContext context;
    As(tenant, context);
    v1::GetSessionRequest request;
    request.set_model("a");
    request.set_session_id(id);
    v1::GetSessionResponse response;
    const absl::Status status =
        FromGrpc(worker_->sessions->GetSession(&context, request, &response));
    if (!status.ok()) return status;
    return response.session();
  }
  static v1::ListSessionsResponse List(const std::string& tenant) {
    grpc::ClientContext context;
    As(tenant, context);
    v1::ListSessionsRequest request;
    request.set_model("a");
    v1::ListSessionsResponse response;
    EXPECT_TRUE(
        worker_->sessions->ListSessions(&context, request, &response).ok());
    return response;
  }
  static absl::Status Close(const std::string& id, const std::string& tenant) {
    grpc::ClientContext context;
    As(tenant, context);
    v1::CloseSessionRequest request;
    request.set_model("a");
    request.set_session_id(id);
    v1::CloseSessionResponse response;
    return FromGrpc(
        worker_->sessions->CloseSession(&context, request, &response));
  }
  static v1::ChatRequest Message(const std::string& id,
                                 const std::string& text) {
    return MessageUpTo(5, id, text);
  }
  // With a reply of so many tokens at most, or without end if that is 0.
  static v1::ChatRequest MessageUpTo(uint32_t max_tokens, const std::string& id,
                                     const std::string& text) {
    v1::ChatRequest request;
    request.set_model("a");
    request.set_session_id(id);
    request.set_message(text);
    request.mutable_sampling()->set_temperature(0);
    request.mutable_stopping()->set_max_tokens(max_tokens);
    request.mutable_stopping()->set_ignore_eos(true);
    return request;
  }
  static Reply Say(const v1::ChatRequest& request, const std::string& tenant) {
    grpc::ClientContext context;
    As(tenant, context);
    const auto reader = worker_->sessions->Chat(&context, request);
    Reply reply;
    v1::ChatResponse part;
    while (reader->Read(&part)) reply.parts.push_back(part);
    reply.status = FromGrpc(reader->Finish());
    return reply;
  }

  static TestWorker* worker_;
};

TestWorker* SessionServiceTest::worker_ = nullptr;

TEST_F(SessionServiceTest, OnlyNewTurnsAreComputed) {
  v1::OpenSessionRequest request;
  request.set_system("Be brief.");
  const auto opened = Open(request, kNoTenant);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->session_id().size(), 32u);
  EXPECT_EQ(opened->model(), "a");
  EXPECT_EQ(opened->chat_format(), "chatml");
  EXPECT_GT(opened->reserved_bytes(), 0u);
  EXPECT_GT(opened->pinned_tokens(), 9u);
  EXPECT_EQ(opened->ttl().seconds(), 30 * 60);

  const Reply first = Say(Message(opened->session_id(), "hello"), kNoTenant);
  ASSERT_TRUE(first.status.ok()) << first.status;
  EXPECT_EQ(first.parts[0].prompt().chat_format(), "chatml");
  EXPECT_EQ(first.parts[0].prompt().prompt_ids_size(), 5) << "bytes of hello";
  EXPECT_EQ(first.finish().finish_reason(), v1::FINISH_REASON_MAX_TOKENS);
  EXPECT_FALSE(first.finish().usage().has_cached_tokens());
  const uint32_t first_tokens = first.finish().usage().prompt_tokens();

  const Reply second = Say(Message(opened->session_id(), "hello"), kNoTenant);
  ASSERT_TRUE(second.status.ok()) << second.status;
  // All but the reply's last token, which nothing was computed of.
  EXPECT_EQ(second.finish().usage().cached_tokens(), first_tokens + 4);
  const uint32_t second_tokens = second.finish().usage().prompt_tokens();
  EXPECT_LT(second_tokens - (first_tokens + 4), first_tokens);

  const auto info = Get(opened->session_id(), kNoTenant);
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->turns(), 2u);
  EXPECT_EQ(info->live_turns(), 2u);
  EXPECT_EQ(info->tokens(), second_tokens + 5);
  EXPECT_FALSE(info->busy());
}

TEST_F(SessionServiceTest, EvictionsAreToldAndTheChatGoesOn) {
  const auto opened = Open("long", kNoTenant);
  ASSERT_TRUE(opened.ok()) << opened.status();
  uint64_t left = opened->pinned_tokens();
  uint64_t turns_left = 0;
  for (int turn = 0; turn < 12; ++turn) {
    const Reply reply =
        Say(MessageUpTo(/*max_tokens=*/20, "long", std::string(60, 'x')),
            kNoTenant);
    ASSERT_TRUE(reply.status.ok()) << reply.status;
    for (const v1::ChatResponse& part : reply.parts) {
      for (const v1::Eviction& eviction : part.evictions()) {
        EXPECT_EQ(eviction.position(), left);
        EXPECT_GT(eviction.turns(), 0u);
        EXPECT_EQ(eviction.method(), v1::ROLL_METHOD_SHIFT);
        left += eviction.tokens();
        turns_left += eviction.turns();
      }
    }
  }
  EXPECT_GT(turns_left, 3u);
  const auto info = Get("long", kNoTenant);
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->live_turns(), 12 - turns_left);
  EXPECT_EQ(info->evicted_tokens(), left - opened->pinned_tokens());
}

TEST_F(SessionServiceTest, AClientMayComeBack) {
  ASSERT_TRUE(Open("named", kNoTenant).ok());
  {
    const auto channel = grpc::CreateChannel(
        worker_->server->address(), grpc::InsecureChannelCredentials());
    const auto stub = v1::SessionService::NewStub(channel);
    grpc::ClientContext context;
    const auto reader =
        stub->Chat(&context, MessageUpTo(/*max_tokens=*/0, "named", "one"));
    v1::ChatResponse part;
    ASSERT_TRUE(reader->Read(&part));
    context.TryCancel();
    while (reader->Read(&part)) continue;
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  worker_->AwaitRunning("a", 0);
  const auto info = Get("named", kNoTenant);
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->turns(), 1u);
  EXPECT_GT(info->tokens(), info->pinned_tokens());
  const Reply next = Say(Message("named", "two"), kNoTenant);
  EXPECT_TRUE(next.status.ok()) << next.status;
  EXPECT_GT(next.finish().usage().cached_tokens(), 0u);
}

TEST_F(SessionServiceTest, ErrorsHaveReasonsAndLoseNothing) {
  ASSERT_TRUE(Open("mine", "one").ok());
  const auto reason = [](const absl::Status& status) {
    return DetailsOf(status).reason;
  };
  EXPECT_EQ(reason(Open("mine", "one").status()),
            v1::ERROR_REASON_SESSION_EXISTS);
  EXPECT_EQ(reason(Open("mine", "two").status()),
            v1::ERROR_REASON_SESSION_LIMIT)
      << "others' ids are not told";
  EXPECT_EQ(reason(Open("more", kNoTenant).status()),
            v1::ERROR_REASON_SESSION_LIMIT);
  EXPECT_TRUE(
      DetailsOf(Open("more", kNoTenant).status()).retry_after.has_value());
  EXPECT_EQ(reason(Get("mine", kNoTenant).status()),
            v1::ERROR_REASON_SESSION_NOT_FOUND);
  EXPECT_EQ(reason(Close("mine", kNoTenant)),
            v1::ERROR_REASON_SESSION_NOT_FOUND);
  EXPECT_EQ(reason(Say(Message("mine", "x"), kNoTenant).status),
            v1::ERROR_REASON_SESSION_NOT_FOUND);
  EXPECT_EQ(List(kNoTenant).sessions_size(), 0);
  EXPECT_EQ(List("one").sessions_size(), 1);

  const absl::Status long_message =
      Say(Message("mine", std::string(600, 'x')), "one").status;
  EXPECT_EQ(long_message.code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(reason(long_message), v1::ERROR_REASON_PROMPT_TOO_LONG);
  const absl::Status empty = Say(Message("mine", ""), "one").status;
  EXPECT_EQ(empty.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(empty.message()), HasSubstr("message"));
  EXPECT_TRUE(Say(Message("mine", "x"), "one").status.ok());
  EXPECT_EQ(Get("mine", "one")->turns(), 1u);
}

TEST_F(SessionServiceTest, ASecondCallIsToldThatTheFirstRuns) {
  ASSERT_TRUE(Open("busy", kNoTenant).ok());
  grpc::ClientContext context;
  const auto reader = worker_->sessions->Chat(
      &context, MessageUpTo(/*max_tokens=*/0, "busy", "x"));
  v1::ChatResponse part;
  ASSERT_TRUE(reader->Read(&part));
  EXPECT_TRUE(Get("busy", kNoTenant)->busy());
  const absl::Status refused = Say(Message("busy", "y"), kNoTenant).status;
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(DetailsOf(refused).reason, v1::ERROR_REASON_SESSION_BUSY);
  EXPECT_TRUE(Close("busy", kNoTenant).ok());
  while (reader->Read(&part)) continue;
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(SessionServiceTest, BadFieldsAreNamed) {
  const auto message_of = [](const v1::OpenSessionRequest& request) {
    const absl::Status status = Open(request, kNoTenant).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  v1::OpenSessionRequest request;
  request.set_chat_format("nonsense");
  EXPECT_THAT(message_of(request), HasSubstr("nonsense"));
  request = {};
  request.mutable_ttl()->set_seconds(-1);
  EXPECT_THAT(message_of(request), HasSubstr("ttl"));
  request.mutable_ttl()->set_seconds(1);
  request.mutable_ttl()->set_nanos(-1);
  EXPECT_THAT(message_of(request), HasSubstr("ttl.nanos"));
  request = {};
  request.set_evict_to(513);
  EXPECT_THAT(message_of(request), HasSubstr("evict_to"));
  request = {};
  request.set_roll_method(static_cast<v1::RollMethod>(99));
  EXPECT_THAT(message_of(request), HasSubstr("roll_method"));
  request = {};
  request.set_session_id(std::string(129, 'i'));
  EXPECT_THAT(message_of(request), HasSubstr("session_id"));
  request = {};
  request.set_system(std::string(600, 's'));
  EXPECT_THAT(message_of(request), HasSubstr("system message"));
}

}  // namespace
}  // namespace plimsoll::services
