#include "services/gateway/worker_answers.h"

#include <gtest/gtest.h>

#include "services/wire/broken_connection.h"
#include "services/wire/errors.h"

namespace plimsoll::services {
namespace {

using Request = v1::StreamGenerateRequest;
using Response = v1::StreamGenerateResponse;

// What a worker of ours answers.
grpc::Status Answer(const absl::Status& status, v1::ErrorReason reason) {
  return ToGrpc(WithDetails(status, {reason, {}, std::nullopt}), "id");
}

TEST(WorkerAnswersTest, OnlyAnAnswerHasDetails) {
  const grpc::Status closed = BrokenConnection();
  EXPECT_TRUE(IsGone(closed));
  EXPECT_TRUE(MayDoBetter(closed));
  EXPECT_TRUE(IsGone({grpc::StatusCode::UNKNOWN, "Stream removed"}));
  EXPECT_FALSE(IsGone(grpc::Status::OK));
  EXPECT_FALSE(IsGone({grpc::StatusCode::DEADLINE_EXCEEDED, ""}));
  EXPECT_FALSE(IsGone({grpc::StatusCode::CANCELLED, ""}));
  const absl::Status told = StatusOfAnswer(closed);
  EXPECT_EQ(told.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(told.message(), "the worker of this request is gone");
  EXPECT_TRUE(DetailsOf(told).retry_after.has_value());
}

TEST(WorkerAnswersTest, AWorkerThatDrainsOrLacksTheModelMayBeLeft) {
  const auto drains =
      Answer(absl::UnavailableError("it drains"), v1::ERROR_REASON_UNSPECIFIED);
  EXPECT_FALSE(IsGone(drains));
  EXPECT_TRUE(MayDoBetter(drains));
  EXPECT_TRUE(MayDoBetter(Answer(absl::FailedPreconditionError("it is absent"),
                                 v1::ERROR_REASON_MODEL_NOT_LOADED)));
}

TEST(WorkerAnswersTest, OtherErrorsAreTheClientsToKnow) {
  for (const auto& status :
       {absl::InvalidArgumentError("bad"), absl::OutOfRangeError("long"),
        absl::ResourceExhaustedError("full"), absl::InternalError("a bug")}) {
    const grpc::Status answer = Answer(status, v1::ERROR_REASON_QUEUE_FULL);
    EXPECT_FALSE(MayDoBetter(answer)) << status;
    EXPECT_EQ(StatusOfAnswer(answer).message(), status.message());
    EXPECT_EQ(DetailsOf(StatusOfAnswer(answer)).reason,
              v1::ERROR_REASON_QUEUE_FULL);
  }
}

TEST(WorkerAnswersTest, TokensHaveTheBytesThatWereAskedFor) {
  Request request;
  Response message;
  message.add_tokens()->set_id(1);
  EXPECT_TRUE(CheckTokens(request, message).ok());
  request.mutable_response()->set_token_bytes(true);
  EXPECT_EQ(CheckTokens(request, message).code(),
            absl::StatusCode::kUnimplemented);
  message.mutable_tokens(0)->set_text_bytes("");
  EXPECT_TRUE(CheckTokens(request, message).ok());
}

TEST(WorkerAnswersTest, AKeyIsTheModelAndTheBeginOfTheInput) {
  Request request;
  request.set_model("m");
  v1::ChatMessage& first = *request.mutable_chat()->add_messages();
  first.set_role(v1::CHAT_ROLE_SYSTEM);
  first.set_content(std::string(2 * kMostKeyBytes, 's'));
  Request other = request;
  request.mutable_chat()->add_messages()->set_content("one");
  other.mutable_chat()->add_messages()->set_content("two");
  EXPECT_FALSE(PrefixKey(request).empty());
  EXPECT_EQ(PrefixKey(request), PrefixKey(other));
  other.set_model("n");
  EXPECT_NE(PrefixKey(request), PrefixKey(other));
  other.set_model("m");
  // The last byte that counts has the role's two before it.
  std::string& text =
      *other.mutable_chat()->mutable_messages(0)->mutable_content();
  text[kMostKeyBytes - 2] = 't';
  EXPECT_EQ(PrefixKey(request), PrefixKey(other));
  text[kMostKeyBytes - 3] = 't';
  EXPECT_NE(PrefixKey(request), PrefixKey(other));
}

TEST(WorkerAnswersTest, OnlyTheFirstMessagesCount) {
  const auto key = [](size_t n_system, const std::string& user) {
    Request request;
    v1::ChatPrompt& chat = *request.mutable_chat();
    chat.add_messages()->set_content(std::string(n_system, 's'));
    chat.add_messages()->set_content(user);
    return PrefixKey(request);
  };
  // Each message has two bytes more for its role.
  EXPECT_EQ(key(kLeastKeyBytes - 2, "one"), key(kLeastKeyBytes - 2, "two"));
  EXPECT_NE(key(kLeastKeyBytes - 3, "one"), key(kLeastKeyBytes - 3, "two"));
  EXPECT_EQ(key(100, "one"), "");
}

TEST(WorkerAnswersTest, TextsOfEachLengthShareTheirBegin) {
  const auto key = [](size_t n, const std::string& end) {
    Request request;
    request.mutable_text()->set_text(std::string(n, 'x') + end);
    return PrefixKey(request);
  };
  EXPECT_EQ(key(kLeastKeyBytes, "one"), key(kLeastKeyBytes, "two"));
  EXPECT_NE(key(kLeastKeyBytes - 1, "one"), key(kLeastKeyBytes - 1, "two"));
  EXPECT_EQ(key(kMostKeyBytes, "one"), key(kMostKeyBytes, "two"));
  EXPECT_NE(key(kMostKeyBytes - 1, "one"), key(kMostKeyBytes - 1, "two"));
}

TEST(WorkerAnswersTest, AShortInputHasNoKey) {
  Request request;
  request.mutable_text()->set_text(std::string(kLeastKeyBytes - 1, 'x'));
  EXPECT_EQ(PrefixKey(request), "");
  request.mutable_text()->set_text(std::string(kLeastKeyBytes, 'x'));
  EXPECT_NE(PrefixKey(request), "");
  Request ids;
  for (uint32_t i = 0; i < 1'000; ++i) ids.mutable_tokens()->add_ids(i);
  const std::string key = PrefixKey(ids);
  EXPECT_NE(key, "");
  ids.mutable_tokens()->add_ids(7);
  EXPECT_EQ(PrefixKey(ids), key);
  ids.mutable_tokens()->set_ids(0, 9);
  EXPECT_NE(PrefixKey(ids), key);
}

TEST(WorkerAnswersTest, MessagesAreJoined) {
  Response all;
  Response first;
  first.set_text("Hel");
  first.set_reasoning("a");
  first.add_tokens()->set_id(1);
  AppendMessage(first, all);
  Response second;
  second.set_text("lo");
  second.set_reasoning("b");
  second.add_tokens()->set_id(2);
  second.mutable_finish()->set_finish_reason(v1::FINISH_REASON_MAX_TOKENS);
  AppendMessage(second, all);
  EXPECT_EQ(all.text(), "Hello");
  EXPECT_EQ(all.reasoning(), "ab");
  EXPECT_EQ(all.tokens_size(), 2);
  EXPECT_TRUE(all.has_finish());
}

}  // namespace
}  // namespace plimsoll::services
