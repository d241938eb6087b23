// Default precision, with keys and values in F16, beside what two independent
// engines say in float32: how close a tiny model of each family is. Skipped
// visibly where the shared data or numpy is not there.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <string>

#include "tests/worker/engine/engine_harness.h"
#include "tests/worker/golden/closeness.h"
#include "tests/worker/golden/families.h"
#include "tests/worker/golden/family_models.h"
#include "tests/worker/json.h"

namespace plimsoll::worker {
namespace {

using ::plimsoll::testing::Closeness;
using ::plimsoll::testing::Family;
using ::plimsoll::testing::FamilyModel;
using ::plimsoll::testing::Json;
using ::plimsoll::testing::kFamilies;
using ::plimsoll::testing::LoadEngine;
using ::plimsoll::testing::MeasureCloseness;

void Report(const std::string& name, const Closeness& sum) {
  std::printf("[ default  ] %s: prefix %.3f, error mean %.4f worst %.4f\n",
              name.c_str(), sum.prefix / sum.n, sum.error / sum.n, sum.worst);
}

Closeness ClosenessOf(const char* family) {
  const FamilyModel model(family);
  const Json& golden = model.golden();
  auto engine =
      LoadEngine(model.path(), {.n_ctx = golden.at("n_ctx").get<int64_t>(),
                                .kv_type = DType::kF16,
                                .precision = Precision::kDefault});
  EXPECT_TRUE(engine.ok()) << family << ": " << engine.status();
  if (!engine.ok()) return {};
  return MeasureCloseness(**engine, golden.at("completions"));
}

// In deepseek2-yarn the rounding of keys to F16 is enough for one row of a
// prompt to choose another expert, so that case alone is far away.
TEST(FamilyClosenessTest, DefaultPrecisionIsCloseToTheOracles) {
  const std::string why = plimsoll::testing::WhyNoFamilyModels();
  if (!why.empty()) GTEST_SKIP() << why;
  Closeness all;
  for (const Family& family : kFamilies) {
    const Closeness one = ClosenessOf(family.name);
    ASSERT_GT(one.n, 0) << family.name;
    Report(family.name, one);
    all.Add(one);
  }
  Report("all", all);
  EXPECT_GE(all.prefix / all.n, 0.9);
  EXPECT_LE(all.error / all.n, 0.03);
}

}  // namespace
}  // namespace plimsoll::worker
