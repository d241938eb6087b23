// Biases: every row of every buffer gets its own, and nothing else changes.
#include "tests/kernels/backend_fixture.h"

namespace plimsoll::kernels {
namespace {

using AddBiasTest = BackendTest;

TEST_P(AddBiasTest, AddsToEveryRowOfEveryBuffer) {
  RandomData random(61);
  const std::vector<int64_t> dims = {1, 31, 577, 1'024};
  for (const int64_t n_rows : {1, 3, 40}) {
    std::vector<std::vector<float>> x, biases, before;
    for (const int64_t dim : dims) {
      before.push_back(random.FloatsWithin(n_rows * dim, 4.0f));
      biases.push_back(random.FloatsWithin(dim, 4.0f));
    }
    x = before;
    std::vector<AddBiasArgs> args;
    for (size_t i = 0; i < dims.size(); ++i) {
      args.push_back({biases[i].data(), x[i].data(), n_rows, dims[i]});
    }
    ASSERT_EQ(args.size(), kMaxBiases);
    ASSERT_TRUE(backend().AddBiases(args).ok());
    ASSERT_TRUE(backend().Synchronize().ok());
    for (size_t i = 0; i < dims.size(); ++i) {
      const auto dim = static_cast<size_t>(dims[i]);
      for (size_t j = 0; j < x[i].size(); ++j) {
        ASSERT_EQ(x[i][j], before[i][j] + biases[i][j % dim])
            << n_rows << " rows of " << dim << ", element " << j;
      }
    }
  }
}

TEST_P(AddBiasTest, WhatMakesNoSenseIsRefused) {
  std::vector<float> x(64), bias(32);
  const AddBiasArgs good = {bias.data(), x.data(), 1, 32};
  AddBiasArgs two_rows = good;
  two_rows.n_rows = 2;
  const std::vector<AddBiasArgs> many(kMaxBiases + 1, good);
  const std::vector<AddBiasArgs> uneven = {good, two_rows};
  for (const auto& args : {many, uneven}) {
    EXPECT_EQ(backend().AddBiases(args).code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_TRUE(backend().AddBiases({}).ok());
}

INSTANTIATE_TEST_SUITE_P(Paths, AddBiasTest,
                         ::testing::ValuesIn(BackendNames()), BackendTestName);

}  // namespace
}  // namespace plimsoll::kernels
