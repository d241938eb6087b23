// Changes of load options as flags.
#include "services/wire/change_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "services/wire/to_proto.h"

namespace plimsoll::services {
namespace {

using planner::Change;
using ::testing::IsEmpty;

TEST(ChangeWordsTest, EveryFieldHasItsFlag) {
  EXPECT_THAT(FlagsOf({}), IsEmpty());
  EXPECT_EQ(FlagsOf({.n_ubatch = 64}), "--n-ubatch 64");
  EXPECT_EQ(FlagsOf({.kv_type = DType::kQ8_0}), "--kv-type q8_0");
  EXPECT_EQ(FlagsOf({.n_parked = 0}), "--parked-slots 0");
  EXPECT_EQ(FlagsOf({.n_slots = 1}), "--slots 1");
  EXPECT_EQ(FlagsOf({.n_cpu_experts = 12}), "--cpu-experts 12");
  EXPECT_EQ(FlagsOf({.n_ctx = 4'096}), "--n-ctx 4096");
  EXPECT_EQ(FlagsOf({.max_inference_len = 512}), "--max-inference-len 512");
  EXPECT_EQ(FlagsOf({.weight_type = DType::kQ4_K}), "--weights q4_K");
  EXPECT_EQ(FlagsOf({.host_weights = {.experts = true}}),
            "--host-weights experts");
  EXPECT_EQ(FlagsOf({.host_weights = {.per_layer_embeddings = true}}),
            "--host-weights per-layer-embeddings");
  EXPECT_EQ(FlagsOf({.host_tables = true}), "--tables host");
}

TEST(ChangeWordsTest, ManyFlagsHaveOneOrder) {
  EXPECT_EQ(
      FlagsOf({.host_weights = {.experts = true, .per_layer_embeddings = true},
               .host_tables = true,
               .n_ubatch = 16,
               .kv_type = DType::kQ4_0,
               .n_parked = 0,
               .n_slots = 3,
               .n_ctx = 16,
               .weight_type = DType::kQ8_0}),
      "--tables host --host-weights per-layer-embeddings,experts --n-ubatch 16 "
      "--kv-type q4_0 --parked-slots 0 --slots 3 --n-ctx 16 --weights q8_0");
}

TEST(ChangeWordsTest, TheWireHasTheFlags) {
  const v1::Suggestion message = ToProto(planner::Suggestion{
      .change = {.n_ubatch = 64, .n_slots = 1}, .saves_bytes = 5, .n_ctx = 32});
  EXPECT_EQ(message.text(), "--n-ubatch 64 --slots 1");
  EXPECT_EQ(message.saves_bytes(), 5u);
  EXPECT_EQ(message.n_ctx(), 32u);
}

}  // namespace
}  // namespace plimsoll::services
