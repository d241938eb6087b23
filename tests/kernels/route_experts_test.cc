// The router of experts against its formulas, in double, on every backend.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/experts.h"
#include "tests/kernels/backend_fixture.h"

namespace plimsoll::kernels {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

// Rows of experts with the memory of their arrays.
class RoutedRows {
 public:
  RoutedRows(int64_t n_rows, int64_t n_experts, int64_t n_used)
      : bytes_(static_cast<size_t>(ExpertRowsBytes(n_rows, n_experts, n_used))),
        rows_(ExpertRowsAt(bytes_.data(), n_rows, n_experts, n_used)) {}

  const ExpertRows& rows() const { return rows_; }
  std::vector<int32_t> experts() const {
    return {rows_.experts, rows_.experts + rows_.NumPlaces()};
  }
  std::vector<float> weights() const {
    return {rows_.weights, rows_.weights + rows_.NumPlaces()};
  }

 private:
  std::vector<std::byte> bytes_;
  ExpertRows rows_;
};

class RouteExpertsTest : public BackendTest {
 protected:
  RoutedRows Route(const std::vector<float>& logits, int64_t n_experts,
                   int64_t n_used, const Routing& routing) {
    return RouteBiased(logits, n_experts, n_used, routing,
                       /*choice_bias=*/nullptr);
  }
  RoutedRows RouteBiased(const std::vector<float>& logits, int64_t n_experts,
                         int64_t n_used, const Routing& routing,
                         const float* choice_bias) {
    const int64_t n_rows = std::ssize(logits) / n_experts;
    RoutedRows routed(n_rows, n_experts, n_used);
    const absl::Status status =
        backend().RouteExperts({.logits = logits.data(),
                                .to = routed.rows(),
                                .routing = routing,
                                .choice_bias = choice_bias});
    EXPECT_TRUE(status.ok()) << status;
    return routed;
  }

  static void ExpectWeights(const RoutedRows& routed,
                            const std::vector<double>& expected) {
    const std::vector<float> weights = routed.weights();
    ASSERT_EQ(weights.size(), expected.size());
    for (size_t i = 0; i < weights.size(); ++i) {
      // Exponentials and a few roundings.
      EXPECT_NEAR(weights[i], expected[i], expected[i] * 0x1p-20) << i;
    }
  }
};

const std::vector<float>& FourLogits() {
  static const auto* const logits =
      new std::vector<float>{0.5f, 2.0f, -1.0f, 1.0f};
  return *logits;
}

TEST_P(RouteExpertsTest, SoftmaxOverAllExperts) {
  const double sum =
      std::exp(0.5) + std::exp(2.0) + std::exp(-1.0) + std::exp(1.0);
  const RoutedRows routed = Route(FourLogits(), 4, 2, {});
  EXPECT_THAT(routed.experts(), ElementsAre(1, 3));
  ExpectWeights(routed, {std::exp(2.0) / sum, std::exp(1.0) / sum});
}

TEST_P(RouteExpertsTest, NormalizedAndScaled) {
  const double sum = std::exp(2.0) + std::exp(1.0);
  const RoutedRows routed =
      Route(FourLogits(), 4, 2, {.is_normalized = true, .scale = 2.5f});
  ExpectWeights(routed, {2.5 * std::exp(2.0) / sum, 2.5 * std::exp(1.0) / sum});
}

TEST_P(RouteExpertsTest, SoftmaxOverTheChosenExperts) {
  const double sum = std::exp(2.0) + std::exp(1.0);
  const RoutedRows routed =
      Route(FourLogits(), 4, 2, {.gate = RouterGate::kSoftmaxOfChosen});
  EXPECT_THAT(routed.experts(), ElementsAre(1, 3));
  ExpectWeights(routed, {std::exp(2.0) / sum, std::exp(1.0) / sum});
}

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

TEST_P(RouteExpertsTest, ABiasOfTheChoiceIsInNoWeight) {
  // In a vector's memory, which devices can read.
  const std::vector<float> bias = {0.0f, -1.0f, 1.0f, 0.0f};
  const RoutedRows routed = RouteBiased(
      FourLogits(), 4, 2, {.gate = RouterGate::kSigmoid}, bias.data());
  // 0.62, -0.12, 1.27 and 0.73 with the bias.
  EXPECT_THAT(routed.experts(), ElementsAre(2, 3));
  ExpectWeights(routed, {Sigmoid(-1.0), Sigmoid(1.0)});
}

TEST_P(RouteExpertsTest, SmallSumsAreNotDividedBy) {
  const RoutedRows routed =
      Route({-20.0f, -21.0f, -22.0f}, 3, 2,
            {.gate = RouterGate::kSigmoid, .is_normalized = true});
  constexpr double kLeast = 0x1p-14;
  ExpectWeights(routed, {Sigmoid(-20.0) / kLeast, Sigmoid(-21.0) / kLeast});
}

TEST_P(RouteExpertsTest, ExpertsOfTheBestGroupsAreChosen) {
  // The groups' two best add up to 1.2, 1.4, 1.3 and 1.1.
  const std::vector<double> scores = {0.9, 0.3, 0.1, 0.7, 0.7, 0.2,
                                      0.8, 0.5, 0.4, 0.6, 0.5, 0.05};
  std::vector<float> logits;
  for (const double score : scores) {
    logits.push_back(static_cast<float>(std::log(score / (1 - score))));
  }
  Routing routing = {
      .gate = RouterGate::kSigmoid, .n_groups = 4, .n_groups_used = 2};
  const RoutedRows routed = Route(logits, 12, 3, routing);
  EXPECT_THAT(routed.experts(), ElementsAre(6, 3, 4));
  ExpectWeights(routed, {0.8, 0.7, 0.7});
  routing.groups_by_best = true;
  EXPECT_THAT(Route(logits, 12, 3, routing).experts(), ElementsAre(0, 6, 7));
}

TEST_P(RouteExpertsTest, AGroupOfOneIsAsGoodAsItsExpert) {
  const RoutedRows routed =
      Route(FourLogits(), 4, 1,
            {.gate = RouterGate::kSigmoid, .n_groups = 4, .n_groups_used = 1});
  EXPECT_THAT(routed.experts(), ElementsAre(1));
}

TEST_P(RouteExpertsTest, EqualScoresAreTakenInOrder) {
  const RoutedRows routed =
      Route(std::vector<float>(40, 1.0f), 40, 3, {.is_normalized = true});
  EXPECT_THAT(routed.experts(), ElementsAre(0, 1, 2));
  ExpectWeights(routed, {1.0 / 3, 1.0 / 3, 1.0 / 3});
}

TEST_P(RouteExpertsTest, AGateOfOneExpertIsItsSigmoid) {
  const RoutedRows routed =
      Route({-3.0f, 0.0f, 5.0f}, 1, 1, {.gate = RouterGate::kSigmoid});
  EXPECT_THAT(routed.experts(), Each(0));
  ExpectWeights(routed, {Sigmoid(-3.0), 0.5, Sigmoid(5.0)});
}

TEST_P(RouteExpertsTest, WhatIsNoNumberShowsInTheWeights) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float bad : {kNan, kInfinity}) {
    std::vector<float> logits(50, 0.5f);
    logits[7] = bad;
    const RoutedRows routed =
        Route(logits, 50, 4,
              {.is_normalized = true, .n_groups = 10, .n_groups_used = 2});
    for (int i = 0; i < 4; ++i) {
      EXPECT_TRUE(std::isnan(routed.weights()[static_cast<size_t>(i)]));
      for (int k = 0; k < i; ++k) {
        EXPECT_NE(routed.experts()[static_cast<size_t>(i)],
                  routed.experts()[static_cast<size_t>(k)]);
      }
      EXPECT_GE(routed.experts()[static_cast<size_t>(i)], 0);
      EXPECT_LT(routed.experts()[static_cast<size_t>(i)], 50);
    }
  }
}

TEST_P(RouteExpertsTest, RowsHavePlacesInOrderOfTheirExperts) {
  constexpr int64_t kRows = 70;
  constexpr int64_t kExperts = 41;
  constexpr int64_t kUsed = 5;
  RandomData random(51);
  const RoutedRows routed =
      Route(random.FloatsWithin(kRows * kExperts, 3.0f), kExperts, kUsed, {});
  const ExpertRows& rows = routed.rows();
  EXPECT_EQ(rows.begins[0], 0);
  EXPECT_EQ(rows.begins[kExperts], kRows * kUsed);
  std::vector<bool> is_taken(static_cast<size_t>(kRows * kUsed));
  for (int64_t i = 0; i < kRows * kUsed; ++i) {
    const int32_t place = rows.places[i];
    const int32_t expert = rows.experts[i];
    ASSERT_GE(place, rows.begins[expert]);
    ASSERT_LT(place, rows.begins[expert + 1]);
    ASSERT_FALSE(is_taken[static_cast<size_t>(place)]);
    is_taken[static_cast<size_t>(place)] = true;
    EXPECT_EQ(rows.rows[place], i / kUsed);
    if (place > rows.begins[expert]) {
      EXPECT_LT(rows.rows[place - 1], rows.rows[place]);
    }
  }
}

TEST_P(RouteExpertsTest, ARowHasTheSameBitsInAnyBatch) {
  constexpr int64_t kExperts = 64;
  RandomData random(52);
  const auto logits = random.FloatsWithin(30 * kExperts, 3.0f);
  const RoutedRows all = Route(logits, kExperts, 6, {.is_normalized = true});
  for (int64_t r = 0; r < 30; ++r) {
    const std::vector<float> row(logits.begin() + r * kExperts,
                                 logits.begin() + (r + 1) * kExperts);
    const RoutedRows alone = Route(row, kExperts, 6, {.is_normalized = true});
    EXPECT_EQ(Bits(alone.weights()), Bits(all.rows().weights + r * 6, 6));
    EXPECT_TRUE(std::equal(alone.rows().experts, alone.rows().experts + 6,
                           all.rows().experts + r * 6));
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, RouteExpertsTest,
                         ::testing::ValuesIn(BackendNames()), BackendTestName);

TEST(RouteExpertsErrorsTest, LimitsAreKept) {
  const auto made = MakeBackend(kReferenceName, 1);
  const auto route = [&](int64_t n_experts, int64_t n_used,
                         const Routing& routing) {
    const std::vector<float> logits(static_cast<size_t>(n_experts));
    std::vector<std::byte> bytes(
        static_cast<size_t>(ExpertRowsBytes(1, n_experts, n_used)));
    return made.backend
        ->RouteExperts({.logits = logits.data(),
                        .to = ExpertRowsAt(bytes.data(), 1, n_experts, n_used),
                        .routing = routing})
        .code();
  };
  constexpr auto kOk = absl::StatusCode::kOk;
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(route(kMaxExperts, 1, {}), kOk);
  EXPECT_EQ(route(kMaxExperts + 1, 1, {}), kInvalid);
  EXPECT_EQ(route(4, 4, {}), kOk);
  EXPECT_EQ(route(4, 5, {}), kInvalid);
  EXPECT_EQ(route(4, 0, {}), kInvalid);
  EXPECT_EQ(route(6, 2, {.n_groups = 4, .n_groups_used = 2}), kInvalid);
  EXPECT_EQ(route(6, 4, {.n_groups = 3, .n_groups_used = 2}), kOk);
  EXPECT_EQ(route(6, 5, {.n_groups = 3, .n_groups_used = 2}), kInvalid);
  EXPECT_EQ(route(6, 2, {.n_groups = 3, .n_groups_used = 4}), kInvalid);
}

}  // namespace
}  // namespace plimsoll::kernels
