#include "services/wire/to_proto.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "tests/services/wire/message_json.h"

namespace plimsoll::services {
namespace {

using ::testing::HasSubstr;
using testing::JsonOf;

TEST(ToProtoTest, CountsAreCutToWhatFits) {
  EXPECT_EQ(ToUint32(-1), 0u);
  EXPECT_EQ(ToUint32(int64_t{1} << 40), std::numeric_limits<uint32_t>::max());
  EXPECT_EQ(ToUint64(-5), 0u);
}

TEST(ToProtoTest, ZeroAndFalseOfAPlanAreVisible) {
  planner::MemoryPlan plan = {};
  plan.regions.push_back({.name = "kv_full",
                          .offset = 0,
                          .bytes = 0,
                          .alignment = 64,
                          .basis = planner::Basis::kDerived,
                          .formula = "0"});
  plan.regions.push_back({.name = "runtime",
                          .offset = -1,
                          .bytes = 5,
                          .alignment = 0,
                          .basis = planner::Basis::kEstimated,
                          .formula = "5"});
  const v1::MemoryPlan message = ToProto(plan);
  const std::string json = JsonOf(message);
  for (const char* field :
       {"\"n_ctx\":0", "\"fits\":false", "\"total_bytes\":\"0\"",
        "\"budget_bytes\":\"0\"", "\"arena_bytes\":\"0\"",
        "\"missing_bytes\":\"0\"", "\"bytes\":\"0\"", "\"offset\":\"0\"",
        "\"basis\":\"BASIS_DERIVED\""}) {
    EXPECT_THAT(json, HasSubstr(field));
  }
  EXPECT_FALSE(message.regions(1).has_offset());
}

TEST(ToProtoTest, ADurationsPartsHaveOneSign) {
  const auto message = ToProto(-absl::Milliseconds(1500));
  EXPECT_EQ(message.seconds(), -1);
  EXPECT_EQ(message.nanos(), -500'000'000);
}

}  // namespace
}  // namespace plimsoll::services
