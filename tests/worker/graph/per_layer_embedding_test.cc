// Per-layer embeddings beside plain loops, for all rows and for the sampled
// ones alone.
#include "worker/graph/per_layer_embedding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "tests/worker/graph/loaded_model.h"

namespace plimsoll::worker {
namespace {

using planner::StepBuffer;

constexpr int64_t kLayer = 4;

class PerLayerEmbeddingTest : public LoadedModelTest {
 protected:
  PerLayerEmbeddingTest() : PerLayerEmbeddingTest("gemma4_shared") {}
  explicit PerLayerEmbeddingTest(const char* model) : LoadedModelTest(model) {}

  size_t ple_dim() const { return static_cast<size_t>(file_->shape().ple_dim); }

  // The inputs of a row in all layers.
  Doubles ExpectedInputs(size_t row) const {
    Doubles x = Row(row);
    for (double& value : x) value /= std::sqrt(static_cast<double>(dim()));
    const Doubles products =
        Product(context_->Matrix("per_layer_model_proj.weight"), x);
    const auto* table = reinterpret_cast<const float*>(
        context_->Matrix("per_layer_token_embd.weight").data);
    table += static_cast<size_t>(batch_.tokens[row]) * products.size();
    const double scale = std::sqrt(static_cast<double>(ple_dim()));
    Doubles inputs;
    for (size_t begin = 0; begin < products.size(); begin += ple_dim()) {
      const double* const first = products.data() + begin;
      for (const double value :
           Normed({first, first + ple_dim()},
                  context_->Vector("per_layer_proj_norm.weight"))) {
        const auto own = static_cast<double>(*table++);
        inputs.push_back((value + own * scale) / std::numbers::sqrt2);
      }
    }
    return inputs;
  }

  // What the layer adds to a row, for `x` that its gate reads.
  Doubles ExpectedSum(const Doubles& x, const Doubles& inputs) const {
    const std::string p = "blk.4.";
    Doubles gated = Product(context_->Matrix(p + "inp_gate.weight"), x);
    for (size_t i = 0; i < gated.size(); ++i) {
      gated[i] = GeluTanh(gated[i]) * inputs[kLayer * ple_dim() + i];
    }
    return Normed(Product(context_->Matrix(p + "proj.weight"), gated),
                  context_->Vector(p + "post_norm.weight"));
  }
};

TEST_F(PerLayerEmbeddingTest, InputsAreOfTheTokenAndOfItsEmbedding) {
  ASSERT_TRUE(PerLayerInputs(*context_).Compute(batch_).ok());
  const float* got = context_->Buffer(StepBuffer::kPerLayer);
  for (size_t row = 0; row < n_rows(); ++row) {
    for (const double wanted : ExpectedInputs(row)) {
      EXPECT_NEAR(*got++, wanted, 2e-6) << row;
    }
  }
}

TEST_F(PerLayerEmbeddingTest, ALayerAddsItsOwnInputsGated) {
  ASSERT_TRUE(PerLayerInputs(*context_).Compute(batch_).ok());
  std::vector<Doubles> wanted;
  for (size_t row = 0; row < n_rows(); ++row) {
    const Doubles sum = ExpectedSum(Row(row), ExpectedInputs(row));
    wanted.push_back(Row(row));
    for (size_t i = 0; i < sum.size(); ++i) wanted.back()[i] += sum[i];
  }
  PerLayerEmbedding embedding(architecture(), kLayer, *context_);
  ASSERT_TRUE(embedding.Add(batch_).ok());
  ASSERT_TRUE(context_->FinishResidual().ok());
  for (size_t row = 0; row < n_rows(); ++row) {
    ExpectNear(Row(row), wanted[row], 5e-6);
  }
}

TEST_F(PerLayerEmbeddingTest, ASampledRowKeepsItsInputs) {
  ASSERT_TRUE(PerLayerInputs(*context_).Compute(batch_).ok());
  PerLayerEmbedding embedding(architecture(), kLayer, *context_);
  ASSERT_TRUE(embedding.Add(batch_).ok());
  ASSERT_TRUE(context_->FinishResidual().ok());
  const Doubles wanted = Row(2);
  BeginStep();
  ASSERT_TRUE(PerLayerInputs(*context_).Compute(batch_).ok());
  ASSERT_TRUE(context_->KeepSampled(batch_, 32).ok());
  EXPECT_FALSE(context_->HasAllRows());
  ASSERT_TRUE(embedding.Add(batch_).ok());
  ASSERT_TRUE(context_->FinishResidual().ok());
  EXPECT_EQ(Row(0), wanted);
}

class StreamEmbeddingTest : public PerLayerEmbeddingTest {
 protected:
  StreamEmbeddingTest() : PerLayerEmbeddingTest("gemma3n_q5_0") {}
};

TEST_F(StreamEmbeddingTest, TheFirstStreamGatesWhatTheOthersGet) {
  ASSERT_TRUE(PerLayerInputs(*context_).Compute(batch_).ok());
  const float* const weight =
      context_->Vector("blk.4.altup_correct_scale.weight");
  std::vector<Doubles> wanted;
  for (size_t row = 0; row < n_rows(); ++row) {
    Doubles x = Row(context_->Stream(0), row);
    for (size_t i = 0; i < x.size(); ++i)
      x[i] *= static_cast<double>(weight[i]);
    const Doubles sum = ExpectedSum(x, ExpectedInputs(row));
    for (int64_t s = 0; s < context_->n_streams(); ++s) {
      wanted.push_back(Row(context_->Stream(s), row));
      for (size_t i = 0; s > 0 && i < dim(); ++i) wanted.back()[i] += sum[i];
    }
  }
  PerLayerEmbedding embedding(architecture(), kLayer, *context_);
  ASSERT_TRUE(embedding.Add(batch_).ok());
  auto next = wanted.begin();
  for (size_t row = 0; row < n_rows(); ++row) {
    for (int64_t s = 0; s < context_->n_streams(); ++s) {
      ExpectNear(Row(context_->Stream(s), row), *next++, 5e-6);
    }
  }
}

}  // namespace
}  // namespace plimsoll::worker
