// A branch beside attention, beside plain loops.
#include "worker/graph/low_rank_branch.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/worker/graph/loaded_model.h"

namespace plimsoll::worker {
namespace {

class LowRankBranchTest : public LoadedModelTest {
 protected:
  LowRankBranchTest() : LoadedModelTest("gemma3n_q5_0") {}
};

TEST_F(LowRankBranchTest, AddsItsInputAndTheNormedProducts) {
  const std::string p = "blk.1.";
  const float* const norm = context_->Vector(p + "attn_norm.weight");
  std::vector<Doubles> wanted;
  for (size_t row = 0; row < n_rows(); ++row) {
    const Doubles x = Normed(Row(row), norm);
    const Doubles low = Product(context_->Matrix(p + "laurel_l.weight"), x);
    const Doubles added =
        Normed(Product(context_->Matrix(p + "laurel_r.weight"), low),
               context_->Vector(p + "laurel_post_norm.weight"));
    wanted.push_back(Row(row));
    for (size_t i = 0; i < dim(); ++i) wanted.back()[i] += x[i] + added[i];
  }
  const auto input = context_->SublayerInput(norm);
  ASSERT_TRUE(input.ok()) << input.status();
  ASSERT_TRUE(LowRankBranch(1, norm, *context_).Add(*input).ok());
  for (size_t row = 0; row < n_rows(); ++row) {
    ExpectNear(Row(row), wanted[row], 1e-5);
  }
}

}  // namespace
}  // namespace plimsoll::worker
