// Requests with a constraint over real sockets, and what becomes of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <string>

#include "services/wire/errors.h"
#include "tests/services/worker/worker_fixture.h"

namespace plimsoll::services {
namespace {

using ::testing::HasSubstr;

class ConstraintTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    worker_ = new TestWorker;
    ASSERT_TRUE(worker_->Load("a").ok());
  }
  static void TearDownTestSuite() {
    delete worker_;
    worker_ = nullptr;
  }

  static v1::GenerateRequest RegexRequest(const std::string& regex) {
    auto request = GreedyRequest<v1::GenerateRequest>("hello", 40);
    request.mutable_stopping()->set_ignore_eos(false);
    request.mutable_constraint()->set_regex(regex);
    return request;
  }

  absl::Status Ask(const v1::GenerateRequest& request,
                   v1::GenerateResponse& response) {
    grpc::ClientContext context;
    return FromGrpc(
        worker_->generation->Generate(&context, request, &response));
  }

  static TestWorker* worker_;
};

TestWorker* ConstraintTest::worker_ = nullptr;

TEST_F(ConstraintTest, AReplyIsOfTheFormAskedFor) {
  v1::GenerateResponse response;
  ASSERT_TRUE(Ask(RegexRequest("[ab]{2,5}-[0-9]{3}"), response).ok());
  EXPECT_TRUE(
      std::regex_match(response.text(), std::regex("[ab]{2,5}-[0-9]{3}")))
      << response.text();
  EXPECT_EQ(response.finish_reason(), v1::FINISH_REASON_END_TOKEN);
}

TEST_F(ConstraintTest, EveryKindIsTaken) {
  auto request = RegexRequest("");
  v1::GenerateResponse response;
  request.mutable_constraint()->set_gbnf("root ::= \"x\" [yz]");
  ASSERT_TRUE(Ask(request, response).ok());
  EXPECT_TRUE(response.text() == "xy" || response.text() == "xz");
  request.mutable_constraint()->set_json_schema(R"({"enum":["ab",7]})");
  ASSERT_TRUE(Ask(request, response).ok());
  EXPECT_TRUE(response.text() == "\"ab\"" || response.text() == "7");
}

TEST_F(ConstraintTest, ASchemaHasOptionsAndNotes) {
  auto request = RegexRequest("");
  v1::GenerateResponse response;
  v1::OutputConstraint& constraint = *request.mutable_constraint();
  constraint.set_json_schema(R"({"enum":[{}],"type":"object","x-a":1})");
  ASSERT_TRUE(Ask(request, response).ok());
  EXPECT_EQ(response.text(), "{}");
  ASSERT_EQ(response.constraint_notes_size(), 1);
  EXPECT_THAT(response.constraint_notes(0), HasSubstr("'x-a' is not known"));
  constraint.mutable_schema_options()->set_refuse_unknown(true);
  EXPECT_THAT(std::string(Ask(request, response).message()),
              HasSubstr("'x-a' is not known"));
  constraint.set_regex("a");
  EXPECT_THAT(std::string(Ask(request, response).message()),
              HasSubstr("constraint.schema_options"));
}

TEST_F(ConstraintTest, AStreamTakesItToo) {
  v1::StreamGenerateRequest request;
  request.set_model("a");
  request.mutable_text()->set_text("hello");
  request.mutable_constraint()->set_regex("abc|abd");
  grpc::ClientContext context;
  const auto reader = worker_->generation->StreamGenerate(&context, request);
  std::string text;
  v1::StreamGenerateResponse part;
  while (reader->Read(&part)) text += part.text();
  ASSERT_TRUE(reader->Finish().ok());
  EXPECT_TRUE(text == "abc" || text == "abd") << text;
}

TEST_F(ConstraintTest, WhatMakesNoSenseIsRefusedByName) {
  const auto expect_refusal = [&](const v1::GenerateRequest& request,
                                  const char* what) {
    v1::GenerateResponse response;
    const absl::Status status = Ask(request, response);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(what));
    EXPECT_EQ(DetailsOf(status).reason, v1::ERROR_REASON_INVALID_FIELD);
  };
  expect_refusal(RegexRequest("(a"), "constraint.regex: at byte 2: ");
  auto request = RegexRequest("");
  request.mutable_constraint()->set_gbnf("root ::= x");
  expect_refusal(request, "constraint.gbnf: line 1: rule 'x' is not defined");
  request.mutable_constraint()->set_json_schema(R"({"not":{}})");
  expect_refusal(request, "constraint.json_schema: #: no value is valid");
  request.mutable_constraint()->Clear();
  expect_refusal(request, "constraint has no json_schema, gbnf or regex");
  request = RegexRequest("a");
  request.mutable_stopping()->set_ignore_eos(true);
  expect_refusal(request, "ignore_eos");
}

}  // namespace
}  // namespace plimsoll::services
