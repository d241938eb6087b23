// Rows of a tensor on their way from a checkpoint to a file.
#include "services/convert/row_converter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/quant/quantize.h"

namespace plimsoll::services {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RowConverterTest : public ::testing::Test {
 protected:
  // The bytes that become of `values`, float32 in the checkpoint.
  absl::Status Convert(const RowPlan& plan, const std::vector<float>& values) {
    kernels::ThreadPool pool(n_threads_);
    result_.clear();
    return RowConverter(pool).Convert(
        plan,
        [&](int64_t offset, std::span<std::byte> out) {
          std::memcpy(
              out.data(),
              reinterpret_cast<const std::byte*>(values.data()) + offset,
              out.size());
          return absl::OkStatus();
        },
        [&](std::span<const std::byte> bytes) {
          result_.insert(result_.end(), bytes.begin(), bytes.end());
          ++n_writes_;
          return absl::OkStatus();
        });
  }

  std::vector<float> Floats() const {
    std::vector<float> floats(result_.size() / sizeof(float));
    std::memcpy(floats.data(), result_.data(), result_.size());
    return floats;
  }

  int n_threads_ = 2;
  std::vector<std::byte> result_;
  int n_writes_ = 0;
};

constexpr RowPlan kPlain = {
    .rows = 4, .cols = 1, .from = DType::kF32, .to = DType::kF32};

TEST_F(RowConverterTest, AddsOneAndMovesRows) {
  const std::vector<float> values = {0, 1, 2, 3};
  ASSERT_TRUE(Convert(kPlain, values).ok());
  EXPECT_THAT(Floats(), ElementsAre(0, 1, 2, 3));
  RowPlan plan = kPlain;
  plan.adds_one = true;
  ASSERT_TRUE(Convert(plan, values).ok());
  EXPECT_THAT(Floats(), ElementsAre(1, 2, 3, 4));
  plan = kPlain;
  plan.head_dim = plan.n_rot = 4;
  ASSERT_TRUE(Convert(plan, values).ok());
  EXPECT_THAT(Floats(), ElementsAre(0, 2, 1, 3));
}

TEST_F(RowConverterTest, LargeTensorsGoInPiecesWithTheSameResult) {
  constexpr int64_t kRows = 3'000;
  constexpr int64_t kCols = 512;
  std::vector<float> values(kRows * kCols);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = std::sin(static_cast<float>(i));
  }
  const RowPlan plan = {
      .rows = kRows, .cols = kCols, .from = DType::kF32, .to = DType::kQ8_0};
  std::vector<std::byte> expected(
      static_cast<size_t>(*RowBytes(DType::kQ8_0, kRows * kCols)));
  ASSERT_TRUE(kernels::QuantizeRow(DType::kQ8_0, values.data(), kRows * kCols,
                                   expected.data())
                  .ok());
  for (const int n_threads : {1, 4}) {
    n_threads_ = n_threads;
    n_writes_ = 0;
    ASSERT_TRUE(Convert(plan, values).ok());
    EXPECT_EQ(result_, expected);
    EXPECT_EQ(n_writes_, 2);
  }
}

TEST_F(RowConverterTest, ErrorsNameTheRow) {
  std::vector<float> values(64);
  values[40] = INFINITY;
  const RowPlan plan = {
      .rows = 2, .cols = 32, .from = DType::kF32, .to = DType::kQ8_0};
  const absl::Status infinite = Convert(plan, values);
  EXPECT_TRUE(absl::IsInvalidArgument(infinite));
  EXPECT_THAT(std::string(infinite.message()), HasSubstr("row 1: "));
  EXPECT_THAT(std::string(infinite.message()), HasSubstr("column 8"));
  values[40] = 1e6f;
  RowPlan half = plan;
  half.to = DType::kF16;
  EXPECT_TRUE(absl::IsOutOfRange(Convert(half, values)));
}

TEST_F(RowConverterTest, ErrorsOfReadingAndWritingEndIt) {
  kernels::ThreadPool pool(1);
  RowConverter converter(pool);
  const auto fine = [](auto...) { return absl::OkStatus(); };
  const auto bad = [](auto...) { return absl::DataLossError("bad"); };
  EXPECT_TRUE(absl::IsDataLoss(converter.Convert(kPlain, bad, fine)));
  EXPECT_TRUE(absl::IsDataLoss(converter.Convert(kPlain, fine, bad)));
}

}  // namespace
}  // namespace plimsoll::services
