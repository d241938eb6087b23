// A dense feed-forward network and experts side by side. Each has norms of its
// own before and after it, the sum of both is normed too, and the router reads
// the residual stream through a norm of its own.
#ifndef PLIMSOLL_WORKER_GRAPH_GATED_AND_EXPERT_FFN_H_
#define PLIMSOLL_WORKER_GRAPH_GATED_AND_EXPERT_FFN_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "planner/model/architecture.h"
#include "worker/graph/expert_network.h"
#include "worker/graph/gated_ffn.h"
#include "worker/graph/step_context.h"
#include "worker/graph/sublayer.h"

namespace plimsoll::worker {

class GatedAndExpertFfn final : public Sublayer {
 public:
  GatedAndExpertFfn(const planner::Architecture& architecture, int64_t layer,
                    StepContext& context);

  // Names what this class cannot compute of layers of the architecture. The
  // text follows "architecture X with". It is empty if the class can compute
  // all of it.
  static absl::string_view Missing(const planner::Architecture& architecture);
  // True if it reads a layer's tensor of that name.
  static bool Reads(const planner::Architecture& architecture,
                    absl::string_view tensor);

  // x += RMS(RMS(dense(RMS(x))) + RMS(experts(RMS(x)))).
  absl::Status Add(const StepBatch& batch) override;

 private:
  // out = RMS(output).
  absl::Status NormOutput(const float* output, const float* weight,
                          const ProductOutput& to);

  StepContext& context_;
  GatedFfn dense_;
  ExpertNetwork experts_;
  const float* router_norm_;
  const float* experts_norm_;
  const float* dense_post_norm_;
  const float* experts_post_norm_;
  const float* post_norm_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_GRAPH_GATED_AND_EXPERT_FFN_H_
