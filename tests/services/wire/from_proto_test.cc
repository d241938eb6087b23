#include "services/wire/from_proto.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "services/wire/to_proto.h"

namespace plimsoll::services {
namespace {

using ::testing::HasSubstr;
using Code = absl::StatusCode;

TEST(FromProtoTest, UnknownEnumsAreRefusedByName) {
  v1::LoadOptions load;
  load.set_k_type(static_cast<v1::ElementType>(999));
  EXPECT_THAT(std::string(FromProto(load).status().message()),
              HasSubstr("k_type"));
}

TEST(FromProtoTest, LoadOptionsAreLimited) {
  const auto check = [](auto set) {
    v1::LoadOptions message;
    set(message);
    return FromProto(message).status().code();
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
  constexpr uint64_t kTooMany = uint64_t{1} << 63;
  EXPECT_EQ(check([](M& m) { m.set_idle_session_bytes(kTooMany - 1); }),
            Code::kOk);
  EXPECT_EQ(check([](M& m) { m.set_idle_session_bytes(kTooMany); }),
            Code::kInvalidArgument);
  EXPECT_EQ(check([](M& m) { m.set_margin_bytes(kTooMany); }),
            Code::kInvalidArgument);
  EXPECT_EQ(check([](M& m) { m.set_v_type(v1::ELEMENT_TYPE_Q8_0); }),
            Code::kOk);
  EXPECT_EQ(check([](M& m) { m.set_v_type(v1::ELEMENT_TYPE_Q4_K); }),
            Code::kInvalidArgument);
}

TEST(FromProtoTest, AbsentLoadOptionsAreTheCallersDefaults) {
  planner::PlanOptions defaults;
  defaults.n_slots = 4;
  defaults.n_ctx = 128;
  const auto options = FromProto(v1::LoadOptions(), defaults);
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->n_slots, 4);
  EXPECT_EQ(options->n_ctx, 128);
}

TEST(FromProtoTest, WhatGuessesSurvivesTheWayThereAndBack) {
  planner::PlanOptions options;
  EXPECT_EQ(ToProto(options).draft_source(), v1::DRAFT_SOURCE_UNSPECIFIED);
  options.draft_source = planner::DraftSource::kMtp;
  v1::LoadOptions message = ToProto(options);
  EXPECT_EQ(message.draft_source(), v1::DRAFT_SOURCE_MTP);
  const auto back = FromProto(message);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->draft_source, planner::DraftSource::kMtp);
  message.set_draft_source(v1::DRAFT_SOURCE_LOOKUP);
  EXPECT_EQ(FromProto(message, options)->draft_source,
            planner::DraftSource::kLookup);
  message.set_draft_source(static_cast<v1::DraftSource>(3));
  EXPECT_THAT(std::string(FromProto(message, options).status().message()),
              HasSubstr("draft_source"));
}

TEST(FromProtoTest, ARequestsIdleSessionsTakeThePlaceOfTheDefaults) {
  planner::PlanOptions of_bytes;
  of_bytes.idle_session_bytes = int64_t{5} << 30;
  v1::LoadOptions message = ToProto(of_bytes);
  EXPECT_FALSE(message.has_n_idle_sessions());
  planner::PlanOptions of_number;
  of_number.n_idle_sessions = 3;
  auto options = FromProto(message, of_number);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->idle_session_bytes, int64_t{5} << 30);
  EXPECT_EQ(options->n_idle_sessions, 0);
  options = FromProto(ToProto(of_number), of_bytes);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->idle_session_bytes, std::nullopt);
  EXPECT_EQ(options->n_idle_sessions, 3);
  options = FromProto(v1::LoadOptions(), of_bytes);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->idle_session_bytes, of_bytes.idle_session_bytes);
}

TEST(FromProtoTest, IdleSessionsByNumberAndByBytesAreRefused) {
  v1::LoadOptions message;
  message.set_n_idle_sessions(0);
  message.set_idle_session_bytes(1 << 20);
  const absl::Status status = FromProto(message).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("idle_session_bytes is set beside n_idle_sessions"));
}

TEST(FromProtoTest, WhereWeightsLieSurvivesTheWayThereAndBack) {
  planner::PlanOptions options;
  EXPECT_TRUE(ToProto(options).host_weights().empty());
  options.host_tables = true;
  const auto back = FromProto(ToProto(options));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_TRUE(back->host_tables);
  EXPECT_EQ(back->engine.host_weights, planner::HostWeights());
}

TEST(FromProtoTest, ExpertsOfTheCpuSurviveTheWayThereAndBack) {
  EXPECT_FALSE(ToProto(planner::PlanOptions()).has_n_cpu_experts());
  EXPECT_FALSE(ToProto(planner::PlanOptions()).has_auto_cpu_experts());
  for (const std::optional<int64_t> n : {std::optional<int64_t>(), {0}, {3}}) {
    planner::PlanOptions options;
    options.n_cpu_experts = n;
    const auto back = FromProto(ToProto(options));
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->n_cpu_experts, n);
  }
  planner::PlanOptions defaults;
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
  planner::PlanOptions options;
  options.engine.weight_type = DType::kQ4_K;
  options.engine.projector = planner::ProjectorBytes{1'000, 2'000};
  const v1::LoadOptions message = ToProto(options);
  const auto back = FromProto(message);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->engine.weight_type, DType::kQ4_K);
  ASSERT_TRUE(back->engine.projector.has_value());
  EXPECT_EQ(back->engine.projector->weights, 1'000);
  EXPECT_EQ(back->engine.projector->workspace, 2'000);
  const v1::LoadOptions empty = ToProto(planner::PlanOptions{});
  EXPECT_FALSE(empty.has_projector_weight_bytes());
  EXPECT_EQ(empty.weight_type(), v1::ELEMENT_TYPE_UNSPECIFIED);
}

TEST(FromProtoTest, ALoadTakesNothingThatPlansForOtherEngines) {
  const auto load = [](auto set) {
    v1::LoadOptions message;
    set(message);
    EXPECT_TRUE(FromProto(message).ok());
    return FromProto(message, planner::LoadOptions{}).status();
  };
  using M = v1::LoadOptions;
  for (const absl::Status& refusal :
       {load([](M& m) { m.set_policy(v1::RESERVE_POLICY_DENSE); }),
        load([](M& m) { m.set_ring(v1::RING_RULE_FULL); }),
        load([](M& m) { m.set_flash_attention(false); }),
        load([](M& m) { m.set_allocation(v1::ALLOCATION_RULE_POW2); }),
        load([](M& m) { m.set_weight_bytes(1); }),
        load([](M& m) { m.set_weight_type(v1::ELEMENT_TYPE_Q4_K); }),
        load([](M& m) { m.add_host_weights(v1::HOST_WEIGHTS_EXPERTS); }),
        load([](M& m) { m.set_projector_weight_bytes(1); })}) {
    EXPECT_EQ(refusal.code(), Code::kInvalidArgument);
    EXPECT_THAT(std::string(refusal.message()),
                HasSubstr("plan for other engines"));
  }
  EXPECT_TRUE(load([](M& m) {
                m.set_mmap_weights(true);
                m.add_host_weights(v1::HOST_WEIGHTS_TABLES);
                m.set_host_budget_bytes(1);
                m.set_ring_tokens(1);
              }).ok());
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

}  // namespace
}  // namespace plimsoll::services
