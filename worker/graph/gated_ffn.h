// A feed-forward network whose inner half is gated:
// down(activation(gate x) * up x).
#ifndef PLIMSOLL_WORKER_GRAPH_GATED_FFN_H_
#define PLIMSOLL_WORKER_GRAPH_GATED_FFN_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/model/architecture.h"
#include "worker/graph/gated_network.h"
#include "worker/graph/step_context.h"
#include "worker/graph/sublayer.h"

namespace plimsoll::worker {

class GatedFfn final : public Sublayer {
 public:
  GatedFfn(const planner::Architecture& architecture, int64_t layer,
           StepContext& context);

  // True if it reads a layer's tensor of that name.
  static bool Reads(const planner::Architecture& architecture,
                    absl::string_view tensor);

  // x += Wdown (activation(Wgate RMS(x)) * Wup RMS(x)), with the biases that
  // the file has; the sum is normed if the architecture norms it, and gates are
  // cut where the file cuts them.
  absl::Status Add(const StepBatch& batch) override;
  // out = what Add adds, before any norm of it.
  absl::Status Compute(float* out);

 private:
  absl::StatusOr<ProductInput> Input();

  StepContext& context_;
  const bool is_parallel_;       // it reads what attention has read
  const float* norm_ = nullptr;  // null: its input is not normed
  GatedNetwork network_;
  ResidualEnd end_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_GRAPH_GATED_FFN_H_
