// A feed-forward network of experts: a router gives each row some of many gated
// networks, and their outputs are added, each with its weight. There may be one
// more expert that every row has.
#ifndef PLIMSOLL_WORKER_GRAPH_EXPERT_FFN_H_
#define PLIMSOLL_WORKER_GRAPH_EXPERT_FFN_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "kernels/experts.h"
#include "planner/model/architecture.h"
#include "worker/graph/step_context.h"
#include "worker/graph/sublayer.h"

namespace plimsoll::worker {

class ExpertFfn final : public Sublayer {
 public:
  ExpertFfn(const planner::Architecture& architecture, int64_t layer,
            StepContext& context);

  // What of such a layer, which has experts, this class cannot compute, as a
  // text for "architecture X with ..."; empty if it can compute all of it.
  static absl::string_view Missing(const planner::Architecture& architecture,
                                   const planner::LayerShape& layer);
  // True if it reads a layer's tensor of that name.
  static bool Reads(const planner::Architecture& architecture,
                    absl::string_view tensor);

  // x += the sum over a row's experts e of
  // weight_e * Wdown_e (activation(Wgate_e RMS(x)) * Wup_e RMS(x)).
  absl::Status Add(const StepBatch& batch) override;

 private:
  // A router with its experts.
  struct Experts {
    kernels::WeightMatrix router;
    kernels::Routing routing;
    int64_t n_used;
    kernels::ExpertMatrices gate, up, down;
  };

  // Adds the experts' outputs to the residual stream. It writes to where `x` is
  // packed.
  absl::Status AddExperts(const Experts& experts, const ProductInput& x);

  StepContext& context_;
  const float* norm_;
  Experts chosen_;
  // The expert that every row has; its gate is a router with one expert.
  std::optional<Experts> shared_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_GRAPH_EXPERT_FFN_H_
