#include "services/worker/models/eviction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "services/wire/errors.h"

namespace plimsoll::services {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::Status Lacking(int64_t bytes) {
  return WithDetails(absl::ResourceExhaustedError("model x needs more"),
                     {v1::ERROR_REASON_MEMORY_BUDGET_EXCEEDED,
                      {{"missing_bytes", absl::StrCat(bytes)}},
                      std::nullopt});
}

EvictionCandidate Idle(const std::string& name, int64_t bytes, int64_t since) {
  return {name, bytes, absl::FromUnixSeconds(since)};
}

EvictionCandidate Busy(const std::string& name, int64_t bytes) {
  return {name, bytes, std::nullopt};
}

EvictionCandidate Kept(const std::string& name, int64_t bytes,
                       const std::string& why) {
  return {name, bytes, absl::FromUnixSeconds(1), why};
}

TEST(EvictionTest, TheLongestIdleModelGoesFirst) {
  const auto chosen =
      ChooseEvicted({Idle("new", 10, 9), Idle("old", 10, 3)}, Lacking(5));
  EXPECT_THAT(chosen.value(), ElementsAre("old"));
}

TEST(EvictionTest, BytesDecideHowManyGo) {
  const std::vector<EvictionCandidate> models = {
      Idle("a", 10, 1), Idle("b", 20, 2), Idle("c", 30, 3)};
  EXPECT_THAT(ChooseEvicted(models, Lacking(10)).value(), ElementsAre("a"));
  EXPECT_THAT(ChooseEvicted(models, Lacking(30)).value(),
              ElementsAre("a", "b"));
  EXPECT_THAT(ChooseEvicted(models, Lacking(60)).value(),
              ElementsAre("a", "b", "c"));
}

TEST(EvictionTest, NoModelGoesThatIsNotNeeded) {
  const std::vector<EvictionCandidate> models = {
      Idle("small", 1, 1), Idle("middle", 10, 2), Idle("large", 50, 3)};
  EXPECT_THAT(ChooseEvicted(models, Lacking(50)).value(), ElementsAre("large"));
  EXPECT_THAT(ChooseEvicted(models, Lacking(51)).value(),
              ElementsAre("middle", "large"));
}

TEST(EvictionTest, ModelsInUseGoLast) {
  const std::vector<EvictionCandidate> models = {Busy("busy", 10),
                                                 Idle("idle", 10, 9)};
  EXPECT_THAT(ChooseEvicted(models, Lacking(10)).value(), ElementsAre("idle"));
  EXPECT_THAT(ChooseEvicted(models, Lacking(11)).value(),
              ElementsAre("idle", "busy"));
}

TEST(EvictionTest, WhatIsKeptIsNamedWhereTheRestIsNotEnough) {
  const absl::Status status =
      ChooseEvicted({Kept("pin", 100, "it is pinned"), Idle("idle", 10, 1)},
                    Lacking(11))
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(
      status.message(),
      AllOf(HasSubstr("model x needs more"),
            HasSubstr("unloading 1 other model would give 10 bytes, so that 1 "
                      "would still be missing"),
            HasSubstr("pin keeps 100 bytes because it is pinned")));
  EXPECT_EQ(MissingBytes(status), 11);
}

TEST(EvictionTest, ARefusalWithoutBytesStaysAsItIs) {
  const absl::Status refusal = absl::ResourceExhaustedError("no thread");
  EXPECT_EQ(ChooseEvicted({Idle("a", 10, 1)}, refusal).status(), refusal);
  EXPECT_EQ(ChooseEvicted({}, Lacking(1)).status().message(),
            Lacking(1).message());
}

}  // namespace
}  // namespace plimsoll::services
