// A branch of low rank beside attention (LAuReL): it adds attention's input to
// the residual stream, as it is and through two narrow products.
// Source: Menghani et al., "LAuReL: Learned Augmented Residual Layer".
#ifndef PLIMSOLL_WORKER_GRAPH_LOW_RANK_BRANCH_H_
#define PLIMSOLL_WORKER_GRAPH_LOW_RANK_BRANCH_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "worker/graph/step_context.h"

namespace plimsoll::worker {

// Belongs to a layer's mixer. A mixer with this branch divides its sum by the
// square root of 2.
class LowRankBranch {
 public:
  // `norm` is the weight of the norm before attention.
  LowRankBranch(int64_t layer, const float* norm, StepContext& context);

  // True if it reads a layer's tensor of that name.
  static bool Reads(absl::string_view tensor);

  // Residual() += x + RMS(R L x) for attention's input x = RMS(Residual()),
  // which nobody may read afterwards.
  absl::Status Add(const ProductInput& x);

 private:
  StepContext& context_;
  const float* norm_;
  kernels::WeightMatrix left_, right_;
  const float* post_norm_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_GRAPH_LOW_RANK_BRANCH_H_
