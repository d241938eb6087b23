// Several residual streams beside plain loops: both ends, and what a layer does
// to them.
#include "worker/graph/residual_streams.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/worker/graph/loaded_model.h"

namespace plimsoll::worker {
namespace {

class ResidualStreamsTest : public LoadedModelTest {
 protected:
  static constexpr double kError = 1e-5;

  ResidualStreamsTest() : LoadedModelTest("gemma3n_q5_0") {}

  size_t n_streams() const {
    return static_cast<size_t>(context_->n_streams());
  }
  Doubles StreamRow(size_t stream, size_t row) const {
    return Row(context_->Stream(static_cast<int64_t>(stream)), row);
  }
  // [streams] of a row.
  std::vector<Doubles> StreamRows(size_t row) const {
    std::vector<Doubles> rows;
    for (size_t s = 0; s < n_streams(); ++s) rows.push_back(StreamRow(s, row));
    return rows;
  }
  void ExpectRows(size_t row, const std::vector<Doubles>& wanted) const {
    for (size_t s = 0; s < n_streams(); ++s) {
      SCOPED_TRACE(s);
      ExpectNear(StreamRow(s, row), wanted[s], kError);
    }
  }

  // The i-th product of `x` by the tensor, with the size of `like`.
  Doubles InSize(const std::string& tensor, size_t i, const Doubles& x,
                 const Doubles& like) const {
    const auto index = static_cast<int64_t>(i);
    Doubles y = Product(context_->Experts(tensor).Of(index), x);
    const double factor = RootMeanSquare(like) / RootMeanSquare(y);
    for (double& value : y) value *= factor;
    return y;
  }

  // The weights that a row of the layer makes.
  Doubles Weights(const std::string& tensor, const Doubles& x) const {
    const std::string p = "blk.1.";
    Doubles input = Normed(x, context_->Vector(p + "altup_router_norm.weight"));
    for (double& value : input) value /= static_cast<double>(dim());
    Doubles modes = Product(context_->Matrix(p + "altup_router.weight"), input);
    for (double& mode : modes) mode = std::tanh(mode);
    return Product(context_->Matrix(p + tensor), modes);
  }

  std::vector<Doubles> Predicted(size_t row) const {
    const std::vector<Doubles> before = StreamRows(row);
    const Doubles weights = Weights("altup_predict_coef.weight", before[0]);
    std::vector<Doubles> after = before;
    for (size_t s = 0; s < n_streams(); ++s) {
      for (size_t t = 0; t < n_streams(); ++t) {
        for (size_t i = 0; i < dim(); ++i) {
          after[s][i] += weights[s * n_streams() + t] * before[t][i];
        }
      }
    }
    return after;
  }
};

TEST_F(ResidualStreamsTest, StreamsBeginAsProductsInTheSizeOfTheFirst) {
  std::vector<std::vector<Doubles>> wanted(n_rows());
  for (size_t row = 0; row < n_rows(); ++row) {
    const Doubles x = Row(row);
    wanted[row] = {x};
    for (size_t s = 1; s < n_streams(); ++s) {
      wanted[row].push_back(InSize("altup_proj.weight", s - 1, x, x));
    }
  }
  ASSERT_TRUE(ResidualStreams(*context_).Split().ok());
  for (size_t row = 0; row < n_rows(); ++row) ExpectRows(row, wanted[row]);
}

TEST_F(ResidualStreamsTest, TheyEndAsTheirMean) {
  std::vector<Doubles> wanted;
  for (size_t row = 0; row < n_rows(); ++row) {
    const Doubles first = StreamRow(0, row);
    Doubles mean = first;
    for (size_t s = 1; s < n_streams(); ++s) {
      const Doubles other =
          InSize("altup_unembd_proj.weight", s - 1, StreamRow(s, row), first);
      for (size_t i = 0; i < mean.size(); ++i) mean[i] += other[i];
    }
    for (double& value : mean) value /= static_cast<double>(n_streams());
    wanted.push_back(mean);
  }
  ASSERT_TRUE(ResidualStreams(*context_).Merge().ok());
  for (size_t row = 0; row < n_rows(); ++row) {
    ExpectNear(Row(row), wanted[row], kError);
  }
}

TEST_F(ResidualStreamsTest, ARowOfZerosStaysZero) {
  std::fill_n(context_->Residual(), n_rows() * dim(), 0.0f);
  ResidualStreams streams(*context_);
  ASSERT_TRUE(streams.Split().ok());
  ASSERT_TRUE(streams.Merge().ok());
  EXPECT_EQ(Row(1), Doubles(dim()));
}

TEST_F(ResidualStreamsTest, APredictionMixesAllStreams) {
  std::vector<std::vector<Doubles>> wanted;
  for (size_t row = 0; row < n_rows(); ++row) wanted.push_back(Predicted(row));
  ASSERT_TRUE(PredictStreams(1, *context_).Add(batch_).ok());
  for (size_t row = 0; row < n_rows(); ++row) {
    ExpectRows(row, wanted[row]);
    EXPECT_EQ(Row(row), StreamRow(0, row));
  }
}

TEST_F(ResidualStreamsTest, ACorrectionAddsWhatTheLayerAdded) {
  std::vector<std::vector<Doubles>> wanted;
  for (size_t row = 0; row < n_rows(); ++row) {
    const Doubles x = Row(row);
    const Doubles weights = Weights("altup_correct_coef.weight", x);
    std::vector<Doubles> after = StreamRows(row);
    const Doubles predicted = after[0];
    for (size_t s = 0; s < n_streams(); ++s) {
      for (size_t i = 0; i < dim(); ++i) {
        after[s][i] += (1 + weights[s]) * (x[i] - predicted[i]);
      }
    }
    wanted.push_back(after);
  }
  ASSERT_TRUE(CorrectStreams(1, *context_).Add(batch_).ok());
  for (size_t row = 0; row < n_rows(); ++row) ExpectRows(row, wanted[row]);
}

TEST_F(ResidualStreamsTest, ASampledRowKeepsItsStreams) {
  const Doubles x = Row(2);
  const std::vector<Doubles> wanted = StreamRows(2);
  ASSERT_TRUE(context_->KeepSampled(batch_, 32).ok());
  EXPECT_EQ(Row(0), x);
  EXPECT_EQ(StreamRows(0), wanted);
}

TEST_F(ResidualStreamsTest, WithoutRowsNothingIsMerged) {
  batch_.sampled_rows.clear();
  ASSERT_TRUE(context_->KeepSampled(batch_, 32).ok());
  EXPECT_TRUE(ResidualStreams(*context_).Merge().ok());
}

}  // namespace
}  // namespace plimsoll::worker
