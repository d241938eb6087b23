// Gates that are cut, beside plain loops.
#include "worker/graph/gated_network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/worker/graph/loaded_model.h"

namespace plimsoll::worker {
namespace {

class GatedNetworkTest : public LoadedModelTest {
 protected:
  GatedNetworkTest() : LoadedModelTest("gemma3n_q5_0") {}
};

TEST_F(GatedNetworkTest, GatesThatAreCutCountAsZero) {
  constexpr float kCut = 0.5f;
  const ProductInput x = {context_->Residual(), nullptr};
  const auto got = GatedNetwork("blk.1.", "", *context_, kCut).Gated(x);
  ASSERT_TRUE(got.ok()) << got.status();
  size_t n_cut = 0;
  for (size_t row = 0; row < n_rows(); ++row) {
    const Doubles gate =
        Product(context_->Matrix("blk.1.ffn_gate.weight"), Row(row));
    const Doubles up =
        Product(context_->Matrix("blk.1.ffn_up.weight"), Row(row));
    const auto n = static_cast<double>(gate.size());
    double mean = 0;
    double squares = 0;
    for (const double value : gate) mean += value / n;
    for (const double value : gate) squares += std::pow(value - mean, 2);
    const double cut = mean + kCut * std::sqrt(squares / n);
    for (size_t i = 0; i < gate.size(); ++i) {
      const double above = std::max(gate[i] - cut, 0.0);
      n_cut += above == 0 ? 1 : 0;
      EXPECT_NEAR(got->x[row * gate.size() + i], GeluTanh(above) * up[i], 1e-5);
    }
  }
  EXPECT_GT(n_cut, 0u);
}

}  // namespace
}  // namespace plimsoll::worker
