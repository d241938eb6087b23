#include "services/wire/generation_from_proto.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/json.h"

namespace plimsoll::services {
namespace {

using ::testing::HasSubstr;
using Code = absl::StatusCode;

absl::StatusOr<worker::GenerateOptions> Options(
    const v1::StoppingOptions& stopping) {
  return FromProto(v1::SamplingOptions(), stopping, v1::ResponseOptions(),
                   v1::CONTEXT_POLICY_UNSPECIFIED);
}

TEST(GenerationFromProtoTest, AbsentFieldsAreTheDefaults) {
  const auto options = Options({});
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->sampling.temperature, 0.8f);
  EXPECT_EQ(options->sampling.top_k, 40);
  EXPECT_EQ(options->sampling.top_p, 0.95f);
  EXPECT_EQ(options->sampling.min_p, 0.05f);
  EXPECT_EQ(options->sampling.typical_p, 1.0f);
  EXPECT_EQ(options->sampling.seed, 0u);
  EXPECT_FALSE(options->logit_bias.ChangesAnything());
  EXPECT_EQ(options->logit_bias.penalty_last_tokens, 64);
  EXPECT_EQ(options->max_tokens, 0);
  EXPECT_EQ(options->top_logprobs, -1);
  EXPECT_EQ(options->roll.policy, worker::ContextPolicy::kStop);
}

TEST(GenerationFromProtoTest, ZeroIsNotAbsent) {
  v1::SamplingOptions message;
  message.set_temperature(0);
  message.set_top_k(0);
  message.set_min_p(0);
  const auto sampling = FromProto(message);
  ASSERT_TRUE(sampling.ok());
  EXPECT_EQ(sampling->temperature, 0);
  EXPECT_EQ(sampling->top_k, 0);
  EXPECT_EQ(sampling->min_p, 0);
}

TEST(GenerationFromProtoTest, BiasesAndPenaltiesArrive) {
  v1::SamplingOptions message;
  message.set_typical_p(0.5f);
  message.set_repetition_penalty(1.5f);
  message.set_presence_penalty(-2);
  message.set_frequency_penalty(3);
  message.set_penalty_last_tokens(0);
  v1::LogitBias& bias = *message.add_logit_bias();
  bias.set_id(9);
  bias.set_bias(-4);
  const auto options =
      FromProto(message, {}, {}, v1::CONTEXT_POLICY_UNSPECIFIED);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->sampling.typical_p, 0.5f);
  EXPECT_EQ(options->logit_bias.repetition_penalty, 1.5f);
  EXPECT_EQ(options->logit_bias.presence_penalty, -2);
  EXPECT_EQ(options->logit_bias.frequency_penalty, 3);
  EXPECT_EQ(options->logit_bias.penalty_last_tokens, 0);
  ASSERT_EQ(options->logit_bias.biases.size(), 1u);
  EXPECT_EQ(options->logit_bias.biases[0].id, 9);
  EXPECT_EQ(options->logit_bias.biases[0].bias, -4);
  bias.set_id(std::numeric_limits<uint32_t>::max());
  EXPECT_EQ(FromProto(message, {}, {}, v1::CONTEXT_POLICY_UNSPECIFIED)
                .status()
                .code(),
            Code::kInvalidArgument);
}

TEST(GenerationFromProtoTest, SamplingThatMakesNoSenseIsRefused) {
  for (const float bad : {-1.0f, std::numeric_limits<float>::quiet_NaN(),
                          std::numeric_limits<float>::infinity()}) {
    v1::SamplingOptions message;
    message.set_temperature(bad);
    EXPECT_EQ(FromProto(message).status().code(), Code::kInvalidArgument);
    message.Clear();
    message.set_top_p(bad);
    EXPECT_EQ(FromProto(message).status().code(), Code::kInvalidArgument);
    message.Clear();
    message.set_min_p(bad);
    EXPECT_EQ(FromProto(message).status().code(), Code::kInvalidArgument);
  }
  v1::SamplingOptions message;
  message.set_top_k(std::numeric_limits<uint32_t>::max());
  EXPECT_EQ(FromProto(message).status().code(), Code::kInvalidArgument);
}

TEST(GenerationFromProtoTest, StopStringsAreLimited) {
  v1::StoppingOptions stopping;
  for (int i = 0; i < worker::GenerateOptions::kMaxStopStrings; ++i) {
    stopping.add_stop_strings(
        std::string(worker::GenerateOptions::kMaxStopStringBytes, 'x'));
  }
  EXPECT_TRUE(Options(stopping).ok());
  stopping.mutable_stop_strings(0)->push_back('x');
  EXPECT_EQ(Options(stopping).status().code(), Code::kInvalidArgument);
  stopping.mutable_stop_strings(0)->clear();
  EXPECT_EQ(Options(stopping).status().code(), Code::kInvalidArgument);
  stopping.set_stop_strings(0, "x");
  stopping.add_stop_strings("x");
  EXPECT_THAT(std::string(Options(stopping).status().message()),
              HasSubstr("stopping.stop_strings"));
}

TEST(GenerationFromProtoTest, StopTokensAreLimited) {
  v1::StoppingOptions stopping;
  for (int i = 0; i < worker::GenerateOptions::kMaxStopTokens; ++i) {
    stopping.add_stop_token_ids(1);
  }
  EXPECT_TRUE(Options(stopping).ok());
  stopping.add_stop_token_ids(1);
  EXPECT_EQ(Options(stopping).status().code(), Code::kInvalidArgument);
  stopping.clear_stop_token_ids();
  stopping.add_stop_token_ids(std::numeric_limits<uint32_t>::max());
  EXPECT_EQ(Options(stopping).status().code(), Code::kInvalidArgument);
}

TEST(GenerationFromProtoTest, CandidatesAreLimited) {
  const auto with = [](uint32_t k) {
    v1::ResponseOptions response;
    response.set_top_logprobs(k);
    return FromProto(v1::SamplingOptions(), v1::StoppingOptions(), response,
                     v1::CONTEXT_POLICY_ERROR);
  };
  EXPECT_EQ(with(0)->top_logprobs, 0);
  EXPECT_EQ(with(64)->top_logprobs, 64);
  EXPECT_EQ(with(65).status().code(), Code::kInvalidArgument);
}

TEST(GenerationFromProtoTest, ARollHasItsFieldsAndDefaults) {
  worker::GenerateOptions options;
  options.roll.policy = worker::ContextPolicy::kRoll;
  v1::RollOptions roll;
  ASSERT_TRUE(FillRoll(roll, options).ok());
  EXPECT_EQ(options.roll.method, worker::RollMethod::kShift);
  EXPECT_EQ(options.roll.pin_tokens, 4);
  EXPECT_EQ(options.roll.evict_to, std::nullopt);
  roll.set_method(v1::ROLL_METHOD_RECOMPUTE);
  roll.set_pin_tokens(0);
  roll.set_evict_to(100);
  ASSERT_TRUE(FillRoll(roll, options).ok());
  EXPECT_EQ(options.roll.method, worker::RollMethod::kRecompute);
  EXPECT_EQ(options.roll.pin_tokens, 0);
  EXPECT_EQ(options.roll.evict_to, 100);
}

TEST(GenerationFromProtoTest, ARollThatMakesNoSenseIsRefusedByName) {
  worker::GenerateOptions options;
  v1::RollOptions roll;
  EXPECT_TRUE(FillRoll(roll, options).ok()) << "nothing is asked for";
  roll.set_pin_tokens(0);
  EXPECT_THAT(std::string(FillRoll(roll, options).message()),
              HasSubstr("CONTEXT_POLICY_ROLL"));
  options.roll.policy = worker::ContextPolicy::kRoll;
  roll.set_method(static_cast<v1::RollMethod>(999));
  const absl::Status status = FillRoll(roll, options);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("roll.method"));
}

TEST(GenerationFromProtoTest, UnknownEnumsAreRefusedByName) {
  const auto policy =
      FromProto(v1::SamplingOptions(), v1::StoppingOptions(),
                v1::ResponseOptions(), static_cast<v1::ContextPolicy>(999));
  EXPECT_THAT(std::string(policy.status().message()),
              HasSubstr("context_policy"));
  v1::ChatPrompt chat;
  chat.add_messages()->set_role(static_cast<v1::ChatRole>(999));
  EXPECT_EQ(FromProto(chat).status().code(), Code::kInvalidArgument);
  chat.mutable_messages(0)->set_role(v1::CHAT_ROLE_UNSPECIFIED);
  EXPECT_EQ(FromProto(chat).status().code(), Code::kInvalidArgument);
}

TEST(ConstraintFromProtoTest, CompilationStopsWithItsCall) {
  nlohmann::json schema;
  schema["properties"]["p"]["type"] = "null";
  std::string gbnf = "root ::= \"a\"";
  for (int i = 0; i < 1'000; ++i) {
    schema["properties"][absl::StrCat("p", i)]["type"] = "null";
    absl::StrAppend(&gbnf, " | \"b", i, "\"");
  }
  v1::OutputConstraint constraint;
  const auto stopped = [] { return absl::CancelledError("the client left"); };
  for (int kind = 0; kind < 3; ++kind) {
    if (kind == 0) constraint.set_json_schema(schema.dump());
    if (kind == 1) constraint.set_gbnf(gbnf);
    if (kind == 2) constraint.set_regex("[a-z]+");
    EXPECT_TRUE(FromProto(constraint).ok()) << kind;
    EXPECT_EQ(FromProto(constraint, stopped).status(), stopped()) << kind;
  }
}

}  // namespace
}  // namespace plimsoll::services
