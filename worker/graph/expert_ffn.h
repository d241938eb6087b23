// A feed-forward network of experts, and perhaps one more expert that every row
// has.
#ifndef PLIMSOLL_WORKER_GRAPH_EXPERT_FFN_H_
#define PLIMSOLL_WORKER_GRAPH_EXPERT_FFN_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "planner/model/architecture.h"
#include "worker/graph/expert_network.h"
#include "worker/graph/gated_network.h"
#include "worker/graph/step_context.h"
#include "worker/graph/sublayer.h"

namespace plimsoll::worker {

class ExpertFfn final : public Sublayer {
 public:
  ExpertFfn(const planner::Architecture& architecture, int64_t layer,
            StepContext& context);

  // Names what this class cannot compute of layers of the architecture. The
  // text follows "architecture X with". It is empty if the class can compute
  // all of it.
  static absl::string_view Missing(const planner::Architecture& architecture);
  // True if it reads a layer's tensor of that name.
  static bool Reads(const planner::Architecture& architecture,
                    absl::string_view tensor);

  // x += the sum over a row's experts e of
  // weight_e * Wdown_e (activation(Wgate_e RMS(x)) * Wup_e RMS(x)), with the
  // biases that the file has; or the weights multiply what experts read.
  absl::Status Add(const StepBatch& batch) override;

 private:
  // Adds the output of the shared expert, if there is one. It leaves `x`
  // packed.
  absl::Status AddShared(const ProductInput& x);

  StepContext& context_;
  const float* norm_;
  ExpertNetwork chosen_;
  // The expert that every row has, if there is one. If it has a gate, that is a
  // router with one expert.
  std::optional<GatedNetwork> shared_;
  std::optional<ExpertNetwork> gated_shared_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_GRAPH_EXPERT_FFN_H_
