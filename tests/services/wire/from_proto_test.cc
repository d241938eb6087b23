#include "services/wire/from_proto.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "services/wire/to_proto.h"

namespace plimsoll::services {
namespace {

using ::testing::HasSubstr;
using Code = absl::StatusCode;

absl::StatusOr<worker::GenerateOptions> Options(
    const v1::StoppingOptions& stopping) {
  return FromProto(v1::SamplingOptions(), stopping, v1::ResponseOptions(),
                   v1::CONTEXT_POLICY_UNSPECIFIED);
}

TEST(FromProtoTest, AbsentFieldsAreTheDefaults) {
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

TEST(FromProtoTest, ZeroIsNotAbsent) {
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

TEST(FromProtoTest, BiasesAndPenaltiesArrive) {
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

TEST(FromProtoTest, SamplingThatMakesNoSenseIsRefused) {
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

TEST(FromProtoTest, StopStringsAreLimited) {
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

TEST(FromProtoTest, StopTokensAreLimited) {
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

TEST(FromProtoTest, CandidatesAreLimited) {
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

TEST(FromProtoTest, ARollHasItsFieldsAndDefaults) {
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

TEST(FromProtoTest, ARollThatMakesNoSenseIsRefusedByName) {
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

TEST(FromProtoTest, UnknownEnumsAreRefusedByName) {
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
  v1::LoadOptions load;
  load.set_k_type(static_cast<v1::ElementType>(999));
  EXPECT_THAT(
      std::string(FromProto(load, planner::LoadOptions{}).status().message()),
      HasSubstr("k_type"));
}

TEST(FromProtoTest, LoadOptionsAreLimited) {
  const auto check = [](auto set) {
    v1::LoadOptions message;
    set(message);
    return FromProto(message, planner::LoadOptions{}).status().code();
  };
  using M = v1::LoadOptions;
  EXPECT_EQ(check([](M& m) { m.set_n_slots(0); }), Code::kInvalidArgument);
  EXPECT_EQ(check([](M& m) { m.set_n_slots(4096); }), Code::kOk);
  EXPECT_EQ(check([](M& m) { m.set_n_slots(4097); }), Code::kInvalidArgument);
  EXPECT_EQ(check([](M& m) { m.set_n_ubatch(0); }), Code::kInvalidArgument);
  EXPECT_EQ(check([](M& m) { m.set_n_ubatch(65536); }), Code::kOk);
  EXPECT_EQ(check([](M& m) { m.set_n_ubatch(65537); }), Code::kInvalidArgument);
  EXPECT_EQ(check([](M& m) { m.set_n_ctx(0); }), Code::kInvalidArgument);
  EXPECT_EQ(check([](M& m) { m.set_n_ctx(999'999'999); }), Code::kOk);
  EXPECT_EQ(check([](M& m) { m.set_max_inference_len(0); }),
            Code::kInvalidArgument);
  EXPECT_EQ(check([](M& m) { m.set_kv_tokens(1); }), Code::kOk);
  EXPECT_EQ(check([](M& m) { m.set_kv_tokens(0); }), Code::kInvalidArgument);
  EXPECT_EQ(check([](M& m) { m.set_n_draft(15); }), Code::kOk);
  EXPECT_EQ(check([](M& m) { m.set_n_draft(16); }), Code::kInvalidArgument);
  EXPECT_EQ(check([](M& m) { m.set_n_parked(4096); }), Code::kOk);
  EXPECT_EQ(check([](M& m) { m.set_n_parked(4097); }), Code::kInvalidArgument);
  EXPECT_EQ(check([](M& m) { m.set_n_idle_sessions(65536); }), Code::kOk);
  EXPECT_EQ(check([](M& m) { m.set_n_idle_sessions(65537); }),
            Code::kInvalidArgument);
  EXPECT_EQ(check([](M& m) { m.set_margin_bytes(uint64_t{1} << 63); }),
            Code::kInvalidArgument);
  EXPECT_EQ(check([](M& m) { m.set_v_type(v1::ELEMENT_TYPE_Q8_0); }),
            Code::kOk);
  EXPECT_EQ(check([](M& m) { m.set_v_type(v1::ELEMENT_TYPE_Q4_K); }),
            Code::kInvalidArgument);
}

TEST(FromProtoTest, AbsentLoadOptionsAreTheCallersDefaults) {
  planner::LoadOptions defaults;
  defaults.n_slots = 4;
  defaults.n_ctx = 128;
  const auto options = FromProto(v1::LoadOptions(), defaults);
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->n_slots, 4);
  EXPECT_EQ(options->n_ctx, 128);
}

TEST(FromProtoTest, WhereWeightsLieSurvivesTheWayThereAndBack) {
  planner::LoadOptions options;
  EXPECT_TRUE(ToProto(options).host_weights().empty());
  options.engine.host_weights.tables = true;
  const auto back = FromProto(ToProto(options), planner::LoadOptions{});
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->engine.host_weights, options.engine.host_weights);
}

TEST(FromProtoTest, ExpertsOfTheCpuSurviveTheWayThereAndBack) {
  EXPECT_FALSE(ToProto(planner::LoadOptions()).has_n_cpu_experts());
  EXPECT_FALSE(ToProto(planner::LoadOptions()).has_auto_cpu_experts());
  for (const std::optional<int64_t> n : {std::optional<int64_t>(), {0}, {3}}) {
    planner::LoadOptions options;
    options.n_cpu_experts = n;
    const auto back = FromProto(ToProto(options), planner::LoadOptions{});
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->n_cpu_experts, n);
  }
  planner::LoadOptions defaults;
  defaults.n_cpu_experts.reset();
  v1::LoadOptions message;
  EXPECT_EQ(FromProto(message, defaults)->n_cpu_experts, std::nullopt);
  message.set_auto_cpu_experts(false);
  EXPECT_EQ(FromProto(message, defaults)->n_cpu_experts, 0);
  message.set_n_cpu_experts(512);
  EXPECT_EQ(FromProto(message, defaults)->n_cpu_experts, 512);
  message.set_n_cpu_experts(513);
  EXPECT_EQ(FromProto(message, defaults).status().code(),
            Code::kInvalidArgument);
  message.set_n_cpu_experts(3);
  message.set_auto_cpu_experts(true);
  EXPECT_EQ(FromProto(message, defaults).status().code(),
            Code::kInvalidArgument);
}

TEST(FromProtoTest, AnotherFileAndAProjectorSurviveTheWayThereAndBack) {
  planner::LoadOptions options;
  options.engine.weight_type = DType::kQ4_K;
  options.engine.projector = planner::ProjectorBytes{1'000, 2'000};
  const v1::LoadOptions message = ToProto(options);
  const auto back = FromProto(message, planner::LoadOptions{});
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->engine.weight_type, DType::kQ4_K);
  ASSERT_TRUE(back->engine.projector.has_value());
  EXPECT_EQ(back->engine.projector->weights, 1'000);
  EXPECT_EQ(back->engine.projector->workspace, 2'000);
  const v1::LoadOptions empty = ToProto(planner::LoadOptions{});
  EXPECT_FALSE(empty.has_projector_weight_bytes());
  EXPECT_EQ(empty.weight_type(), v1::ELEMENT_TYPE_UNSPECIFIED);
}

TEST(FromProtoTest, AProfileSurvivesTheWayThereAndBack) {
  planner::DeviceProfile profile = planner::CommittedCpuProfile();
  profile.total_bytes = 1 << 30;
  profile.free_bytes = 1 << 29;
  profile.runtime_note = std::string(256, 'n');
  profile.message_bytes = 64 << 20;
  const auto back = FromProto(ToProto(profile));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(ToProto(*back).SerializeAsString(),
            ToProto(profile).SerializeAsString());
  EXPECT_EQ(back->message_bytes, 64 << 20);
}

TEST(FromProtoTest, AProfilesRulesAreLimited) {
  planner::DeviceProfile profile = planner::CommittedCpuProfile();
  profile.total_bytes = profile.free_bytes = 1 << 30;
  v1::DeviceProfile message = ToProto(profile);
  while (message.storage_size() < 65) {
    *message.add_storage() = message.storage(0);
  }
  EXPECT_THAT(std::string(FromProto(message).status().message()),
              HasSubstr("storage"));
  message = ToProto(profile);
  message.set_runtime_note(std::string(257, 'n'));
  EXPECT_THAT(std::string(FromProto(message).status().message()),
              HasSubstr("runtime_note"));
  message = ToProto(profile);
  message.set_allocation(v1::ALLOCATION_RULE_UNSPECIFIED);
  EXPECT_EQ(FromProto(message).status().code(), Code::kInvalidArgument);
}

TEST(FromProtoTest, EveryElementTypeHasItsNumber) {
  for (const DTypeInfo& info : kDTypes) {
    const v1::ElementType type = ToProto(info.dtype);
    EXPECT_TRUE(v1::ElementType_IsValid(type)) << info.name;
    EXPECT_EQ(*FromProto(type, "type"), info.dtype);
  }
}

// A small constraint may be compiled without asking.
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
