// Biases and penalties against their definitions, and their limits.
#include "worker/sampling/logit_bias.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace plimsoll::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

constexpr int32_t kVocab = 100;

TEST(RecentTokensTest, CountsTheNewestTokensOnly) {
  RecentTokens recent(std::vector<int32_t>{9, 1, 2, 1}, 3);
  EXPECT_THAT(recent.counts(),
              UnorderedElementsAre(std::pair(1, 2), std::pair(2, 1)));
  recent.Add(5);
  EXPECT_THAT(
      recent.counts(),
      UnorderedElementsAre(std::pair(1, 1), std::pair(2, 1), std::pair(5, 1)));
}

TEST(RecentTokensTest, AgreesWithCountingAgain) {
  std::mt19937 random(3);
  for (const int64_t limit : {1, 7, 64}) {
    std::vector<int32_t> all = {4, 4, 2};
    RecentTokens recent(all, limit);
    for (int i = 0; i < 300; ++i) {
      all.push_back(static_cast<int32_t>(random() % 5));
      recent.Add(all.back());
      std::map<int32_t, int32_t> expected;
      const size_t n = std::min(all.size(), static_cast<size_t>(limit));
      for (size_t j = all.size() - n; j < all.size(); ++j) ++expected[all[j]];
      ASSERT_THAT(recent.counts(),
                  ::testing::UnorderedElementsAreArray(expected));
    }
  }
}

TEST(LogitBiasTest, PenaltiesFollowTheirDefinition) {
  const RecentTokens recent(std::vector<int32_t>{0, 1, 1}, 64);
  std::vector<float> logits = {4, -4, 4};
  ApplyLogitBias({.repetition_penalty = 2,
                  .presence_penalty = 0.5f,
                  .frequency_penalty = 0.25f},
                 &recent, logits);
  EXPECT_THAT(logits, ElementsAre(2 - 0.75f, -8 - 1.0f, 4));
}

TEST(LogitBiasTest, NothingLiftsASuppressedToken) {
  LogitBiasOptions options = {
      .repetition_penalty = LogitBiasOptions::kMinRepetition,
      .presence_penalty = -LogitBiasOptions::kMaxPenalty,
      .biases = {{1, LogitBiasOptions::kMaxBias}, {2, 3}}};
  SuppressTokens(std::vector<int32_t>{0, 1, 1}, options);
  EXPECT_EQ(options.biases.size(), 3u);
  const RecentTokens recent(std::vector<int32_t>{0, 1}, 64);
  std::vector<float> logits = {1e4f, 1e4f, 0};
  ApplyLogitBias(options, &recent, logits);
  EXPECT_LT(logits[0], -1e20f);
  EXPECT_LT(logits[1], -1e20f);
  EXPECT_EQ(logits[2], 3);
}

TEST(LogitBiasTest, BiasesAreAddedBeforePenalties) {
  const RecentTokens recent(std::vector<int32_t>{0}, 64);
  std::vector<float> logits = {-1, 0, 0};
  ApplyLogitBias({.repetition_penalty = 2, .biases = {{0, 5}, {2, -3}}},
                 &recent, logits);
  EXPECT_THAT(logits, ElementsAre(2, 0, -3));
}

LogitBiasOptions RandomBias(std::mt19937& random) {
  const auto one_of = [&random](std::vector<float> values) {
    return values[random() % values.size()];
  };
  LogitBiasOptions options;
  options.repetition_penalty = one_of({0.01f, 0.7f, 1, 1, 1.3f, 100});
  options.presence_penalty = one_of({-100, -0.5f, 0, 0, 0.5f, 100});
  options.frequency_penalty = one_of({-1, 0, 0, 0.3f});
  for (int32_t id = 0; id < 10; ++id) {
    if (random() % 3 != 0) continue;
    options.biases.push_back({id, one_of({-1'000, -1, 0, 0.1f, 3})});
  }
  return options;
}

TEST(LogitBiasTest, OneTokensChangeIsThatOfTheRow) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 3);
  for (int i = 0; i < 300; ++i) {
    const LogitBiasOptions options = RandomBias(random);
    const RecentTokens recent(std::vector<int32_t>{0, 1, 1, 5, 5, 5, 12}, 64);
    std::vector<float> logits(20);
    for (float& logit : logits) logit = normal(random);
    std::vector<float> changed = logits;
    ApplyLogitBias(options, &recent, changed);
    for (size_t id = 0; id < logits.size(); ++id) {
      EXPECT_EQ(
          ChangedLogit(options, &recent, static_cast<int32_t>(id), logits[id]),
          changed[id]);
    }
  }
}

TEST(LogitBiasTest, NoTokenComesAboveTheMostThatChangesMake) {
  std::mt19937 random(2);
  const std::vector<int32_t> ids = {1, 3, 5, 7};
  const std::vector<int32_t> seen = {0, 1, 2, 2, 7, 11, 11, 11};
  int n_reached = 0;
  for (int i = 0; i < 2'000; ++i) {
    const LogitBiasOptions options = RandomBias(random);
    const RecentTokens recent(seen, 64);
    const RecentTokens* const counts = i % 3 == 0 ? nullptr : &recent;
    const float most = static_cast<float>(random() % 9) - 4;
    // All that are not among `ids` have at most that, in steps of a quarter.
    std::vector<float> logits(20);
    for (float& logit : logits) {
      logit = most - 0.25f * static_cast<float>(random() % 3);
    }
    for (const int32_t id : ids) logits[static_cast<size_t>(id)] = most + 50;
    ApplyLogitBias(options, counts, logits);
    const float bound = MostChanged(options, counts, most, ids);
    for (int32_t id = 0; id < 20; ++id) {
      if (std::ranges::binary_search(ids, id)) continue;
      const float logit = logits[static_cast<size_t>(id)];
      EXPECT_LE(logit, bound) << id;
      n_reached += logit == bound ? 1 : 0;
    }
  }
  EXPECT_GT(n_reached, 1'000) << "the bound is loose";
}

TEST(LogitBiasTest, TheDefaultsChangeNothing) {
  EXPECT_FALSE(LogitBiasOptions().ChangesAnything());
  EXPECT_FALSE(
      LogitBiasOptions({.presence_penalty = 1, .penalty_last_tokens = 0})
          .ChangesAnything());
  EXPECT_TRUE(LogitBiasOptions({.biases = {{1, 0}}}).ChangesAnything());
}

struct BiasLimit {
  const char* field;
  LogitBiasOptions options;
  bool is_valid;
};

std::vector<LogitBias> Biases(size_t n) {
  std::vector<LogitBias> biases;
  for (size_t i = 0; i < n; ++i) {
    biases.push_back({static_cast<int32_t>(i), 1});
  }
  return biases;
}

TEST(LogitBiasTest, OptionsAreCheckedAtTheirLimits) {
  using Limits = LogitBiasOptions;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto above = [](float value) { return std::nextafter(value, 1e9f); };
  const auto below = [](float value) { return std::nextafter(value, -1e9f); };
  const std::vector<BiasLimit> limits = {
      {"repetition_penalty",
       {.repetition_penalty = Limits::kMinRepetition},
       true},
      {"repetition_penalty",
       {.repetition_penalty = below(Limits::kMinRepetition)},
       false},
      {"repetition_penalty",
       {.repetition_penalty = Limits::kMaxRepetition},
       true},
      {"repetition_penalty",
       {.repetition_penalty = above(Limits::kMaxRepetition)},
       false},
      {"repetition_penalty", {.repetition_penalty = nan}, false},
      {"presence_penalty", {.presence_penalty = -Limits::kMaxPenalty}, true},
      {"presence_penalty",
       {.presence_penalty = below(-Limits::kMaxPenalty)},
       false},
      {"frequency_penalty", {.frequency_penalty = Limits::kMaxPenalty}, true},
      {"frequency_penalty",
       {.frequency_penalty = above(Limits::kMaxPenalty)},
       false},
      {"frequency_penalty", {.frequency_penalty = nan}, false},
      {"penalty_last_tokens",
       {.penalty_last_tokens = Limits::kMaxLastTokens},
       true},
      {"penalty_last_tokens",
       {.penalty_last_tokens = Limits::kMaxLastTokens + 1},
       false},
      {"penalty_last_tokens", {.penalty_last_tokens = -1}, false},
      {"logit_bias", {.biases = {{kVocab - 1, Limits::kMaxBias}}}, true},
      {"logit_bias", {.biases = {{kVocab, 0}}}, false},
      {"logit_bias", {.biases = {{-1, 0}}}, false},
      {"logit_bias", {.biases = {{1, above(Limits::kMaxBias)}}}, false},
      {"logit_bias", {.biases = {{1, nan}}}, false},
      {"logit_bias", {.biases = {{1, 0}, {1, 0}}}, false},
  };
  for (const BiasLimit& limit : limits) {
    const absl::Status status = ValidateLogitBias(limit.options, kVocab);
    EXPECT_EQ(status.ok(), limit.is_valid) << limit.field << ": " << status;
    if (limit.is_valid) continue;
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(limit.field));
  }
  constexpr auto kMax = static_cast<int32_t>(Limits::kMaxBiases);
  EXPECT_TRUE(
      ValidateLogitBias({.biases = Biases(Limits::kMaxBiases)}, kMax).ok());
  EXPECT_FALSE(
      ValidateLogitBias({.biases = Biases(Limits::kMaxBiases + 1)}, kMax + 1)
          .ok());
}

}  // namespace
}  // namespace plimsoll::worker
