// A loaded random model and a step of three rows, for tests of a graph's parts
// beside plain loops in double precision.
#ifndef PLIMSOLL_TESTS_WORKER_GRAPH_LOADED_MODEL_H_
#define PLIMSOLL_TESTS_WORKER_GRAPH_LOADED_MODEL_H_

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <numbers>
#include <optional>
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

using Doubles = std::vector<double>;

inline constexpr double kRandomModelEps = 1e-5;

inline double GeluTanh(double x) {
  return 0.5 * x *
         (1 + std::tanh(std::sqrt(2 / std::numbers::pi) *
                        (x + 0.044715 * x * x * x)));
}

inline double RootMeanSquare(const Doubles& x) {
  double sum = 0;
  for (const double value : x) sum += value * value;
  return std::sqrt(sum / static_cast<double>(x.size()));
}

// RMSNorm(x) * weight.
inline Doubles Normed(Doubles x, const float* weight) {
  const double size =
      std::sqrt(std::pow(RootMeanSquare(x), 2) + kRandomModelEps);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] *= static_cast<double>(weight[i]) / size;
  }
  return x;
}

inline Doubles Product(const kernels::WeightMatrix& w, const Doubles& x) {
  const auto* weights = reinterpret_cast<const float*>(w.data);
  Doubles y(static_cast<size_t>(w.rows));
  for (size_t r = 0; r < y.size(); ++r) {
    for (size_t c = 0; c < x.size(); ++c) {
      y[r] += static_cast<double>(weights[r * x.size() + c]) * x[c];
    }
  }
  return y;
}

// The model's weights are float32 and lie as in the file. The step samples its
// last row.
class LoadedModelTest : public ::testing::Test {
 protected:
  explicit LoadedModelTest(const char* model)
      : path_(plimsoll::testing::RandomModelBytes(FloatModel(model))) {}

  void SetUp() override {
    auto file = ModelFile::Open(path_.path());
    ASSERT_TRUE(file.ok()) << file.status();
    file_ = *std::move(file);
    planner::PlanOptions options;
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
    const auto parameters =
        ReadParameters(architecture(), file_->header(), inputs);
    ASSERT_TRUE(parameters.ok()) << parameters.status();
    context_.emplace(inputs, *parameters);
    batch_.tokens = {7, 300, 9};
    batch_.sampled_rows = {2};
    BeginStep();
  }

  // Every row of the residual stream, and of all if there are several, gets
  // values of its own.
  void BeginStep() {
    context_->Begin(std::ssize(batch_.tokens));
    const auto n_streams = static_cast<size_t>(context_->n_streams());
    const size_t n_arrays = n_streams > 1 ? n_streams + 1 : 1;
    for (size_t i = 0; i < n_arrays * n_rows() * dim(); ++i) {
      context_->Residual()[i] = std::sin(0.37f * static_cast<float>(i)) + 0.1f;
    }
  }

  const planner::Architecture& architecture() const {
    return *planner::FindArchitecture(file_->shape().architecture);
  }
  size_t n_rows() const { return static_cast<size_t>(context_->n_rows()); }
  size_t dim() const { return static_cast<size_t>(file_->shape().model_dim); }
  // Row `row` of an array of rows of the model's width.
  Doubles Row(const float* x, size_t row) const {
    return {x + row * dim(), x + (row + 1) * dim()};
  }
  Doubles Row(size_t row) const { return Row(context_->Residual(), row); }

  static void ExpectNear(const Doubles& got, const Doubles& wanted,
                         double error) {
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_NEAR(got[i], wanted[i], error) << i;
    }
  }

  std::unique_ptr<ModelFile> file_;
  planner::MemoryPlan plan_ = {};
  std::unique_ptr<kernels::Backend> backend_ = kernels::NewReferenceBackend();
  Arena arena_;
  std::optional<StepContext> context_;
  StepBatch batch_;

 private:
  static plimsoll::testing::RandomModel FloatModel(const char* name) {
    auto model = plimsoll::testing::FindRandomModel(name);
    model.default_type = DType::kF32;
    model.types = {};
    return model;
  }

  const plimsoll::testing::TemporaryFile path_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_TESTS_WORKER_GRAPH_LOADED_MODEL_H_
