// Per-layer embeddings beside plain loops, for all rows and for the sampled
// ones alone.
#include "worker/graph/per_layer_embedding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <numbers>
#include <optional>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "planner/layout/memory_plan.h"
#include "planner/model/architectures.h"
#include "tests/worker/random_model.h"
#include "worker/device/arena.h"
#include "worker/device/compute_device.h"
#include "worker/device/model_file.h"
#include "worker/graph/graph_parameters.h"
#include "worker/graph/model.h"
#include "worker/graph/step_context.h"

namespace plimsoll::worker {
namespace {

using planner::StepBuffer;
using ::plimsoll::testing::FindRandomModel;
using ::plimsoll::testing::RandomModel;
using ::plimsoll::testing::RandomModelBytes;
using ::plimsoll::testing::TemporaryFile;

using Doubles = std::vector<double>;

constexpr int64_t kLayer = 4;
constexpr double kEps = 1e-5;  // random models have it

RandomModel FloatModel() {
  RandomModel model = FindRandomModel("gemma4_shared");
  model.default_type = DType::kF32;
  model.types = {};
  return model;
}

double GeluTanh(double x) {
  return 0.5 * x *
         (1 + std::tanh(std::sqrt(2 / std::numbers::pi) *
                        (x + 0.044715 * x * x * x)));
}

// Divides `n` values from `begin` on by their root mean square.
void Norm(Doubles& x, size_t begin, size_t n, const float* weight) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += x[begin + i] * x[begin + i];
  const double scale = 1 / std::sqrt(sum / static_cast<double>(n) + kEps);
  for (size_t i = 0; i < n; ++i) {
    x[begin + i] *= scale * static_cast<double>(weight[i]);
  }
}

Doubles Product(const kernels::WeightMatrix& w, const Doubles& x) {
  const auto* weights = reinterpret_cast<const float*>(w.data);
  Doubles y(static_cast<size_t>(w.rows));
  for (size_t r = 0; r < y.size(); ++r) {
    for (size_t c = 0; c < x.size(); ++c) {
      y[r] += static_cast<double>(weights[r * x.size() + c]) * x[c];
    }
  }
  return y;
}

// A loaded model whose weights lie as in the file, and a step of three rows.
class PerLayerEmbeddingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto file = ModelFile::Open(path_.path());
    ASSERT_TRUE(file.ok()) << file.status();
    file_ = *std::move(file);
    planner::LoadOptions options;
    options.n_ctx = 64;
    options.n_ubatch = 16;
    auto plan = planner::Layout(file_->shape(), options, LocalCpu().Profile(),
                                int64_t{1} << 40);
    ASSERT_TRUE(plan.ok()) << plan.status();
    plan_ = *std::move(plan);
    auto arena = Arena::Allocate(plan_, *backend_,
                                 [](int64_t) { return absl::OkStatus(); });
    ASSERT_TRUE(arena.ok()) << arena.status();
    arena_ = *std::move(arena);
    const GraphInputs inputs = {.shape = &file_->shape(),
                                .plan = &plan_,
                                .arena = &arena_,
                                .backend = backend_.get(),
                                .cache = nullptr,
                                .precision = Precision::kExact};
    ASSERT_TRUE(LoadWeights(*file_, inputs, [](const LoadProgress&) {
                  return absl::OkStatus();
                }).ok());
    const auto parameters = ReadParameters(*planner::FindArchitecture("gemma4"),
                                           file_->header(), inputs);
    ASSERT_TRUE(parameters.ok()) << parameters.status();
    context_.emplace(inputs, *parameters);
    batch_.tokens = {7, 300, 9};
    batch_.sampled_rows = {2};
    BeginStep();
  }

  // Every row of the residual stream gets values of its own.
  void BeginStep() {
    context_->Begin(std::ssize(batch_.tokens));
    for (size_t i = 0; i < n_rows() * dim(); ++i) {
      context_->Residual()[i] = std::sin(0.37f * static_cast<float>(i)) + 0.1f;
    }
  }

  size_t n_rows() const { return batch_.tokens.size(); }
  size_t dim() const { return static_cast<size_t>(file_->shape().model_dim); }
  size_t ple_dim() const { return static_cast<size_t>(file_->shape().ple_dim); }
  size_t n_layers() const {
    return static_cast<size_t>(file_->shape().n_layers);
  }
  Doubles Row(size_t row) const {
    const float* x = context_->Residual() + row * dim();
    return {x, x + dim()};
  }

  // The inputs of a row in all layers.
  Doubles ExpectedInputs(size_t row) const {
    Doubles x = Row(row);
    for (double& value : x) value /= std::sqrt(static_cast<double>(dim()));
    Doubles inputs =
        Product(context_->Matrix("per_layer_model_proj.weight"), x);
    const auto* table = reinterpret_cast<const float*>(
        context_->Matrix("per_layer_token_embd.weight").data);
    table += static_cast<size_t>(batch_.tokens[row]) * inputs.size();
    for (size_t il = 0; il < n_layers(); ++il) {
      Norm(inputs, il * ple_dim(), ple_dim(),
           context_->Vector("per_layer_proj_norm.weight"));
    }
    const double scale = std::sqrt(static_cast<double>(ple_dim()));
    for (size_t i = 0; i < inputs.size(); ++i) {
      inputs[i] += static_cast<double>(table[i]) * scale;
      inputs[i] /= std::numbers::sqrt2;
    }
    return inputs;
  }

  // The residual stream of a row after the layer.
  Doubles ExpectedRow(size_t row, const Doubles& inputs) const {
    const std::string p = "blk.4.";
    Doubles x = Row(row);
    Doubles gated = Product(context_->Matrix(p + "inp_gate.weight"), x);
    for (size_t i = 0; i < gated.size(); ++i) {
      gated[i] = GeluTanh(gated[i]) * inputs[kLayer * ple_dim() + i];
    }
    Doubles added = Product(context_->Matrix(p + "proj.weight"), gated);
    Norm(added, 0, added.size(), context_->Vector(p + "post_norm.weight"));
    for (size_t i = 0; i < x.size(); ++i) x[i] += added[i];
    return x;
  }

  const TemporaryFile path_{RandomModelBytes(FloatModel())};
  std::unique_ptr<ModelFile> file_;
  planner::MemoryPlan plan_ = {};
  std::unique_ptr<kernels::Backend> backend_ = kernels::NewReferenceBackend();
  Arena arena_;
  std::optional<StepContext> context_;
  StepBatch batch_;
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
    wanted.push_back(ExpectedRow(row, ExpectedInputs(row)));
  }
  ASSERT_TRUE(PerLayerEmbedding(kLayer, *context_).Add(batch_).ok());
  ASSERT_TRUE(context_->FinishResidual().ok());
  for (size_t row = 0; row < n_rows(); ++row) {
    const Doubles got = Row(row);
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_NEAR(got[i], wanted[row][i], 5e-6) << row;
    }
  }
}

TEST_F(PerLayerEmbeddingTest, ASampledRowKeepsItsInputs) {
  ASSERT_TRUE(PerLayerInputs(*context_).Compute(batch_).ok());
  PerLayerEmbedding embedding(kLayer, *context_);
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

}  // namespace
}  // namespace plimsoll::worker
