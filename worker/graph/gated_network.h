// A gated network: gate and up by the same input, and down. Without a gate,
// `up` is its own gate.
#ifndef PLIMSOLL_WORKER_GRAPH_GATED_NETWORK_H_
#define PLIMSOLL_WORKER_GRAPH_GATED_NETWORK_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "worker/graph/step_context.h"

namespace plimsoll::worker {

class GatedNetwork {
 public:
  // Its tensors are called PREFIXffn_gateSUFFIX.weight and so on; the prefix is
  // the layer's "blk.N.". If there is a `cut`, gates are cut there
  // (kernels::CutRowsArgs::deviations) before they are activated.
  GatedNetwork(const std::string& prefix, absl::string_view suffix,
               StepContext& context, std::optional<float> cut = std::nullopt);

  // Returns activation(Wgate x + bias) * (Wup x + bias); in a network without
  // gates the first product is the second one, too. It writes to where `x`
  // is packed.
  absl::StatusOr<ProductInput> Gated(const ProductInput& x);
  // The product that follows, without a norm.
  const ResidualEnd& down() const { return down_; }
  // out = Wdown Gated(x) + bias.
  absl::Status Compute(const ProductInput& x, const ProductOutput& to);

 private:
  StepContext& context_;
  const std::optional<float> cut_;
  bool has_gates_;
  kernels::WeightMatrix gate_, up_;
  const float* gate_bias_;  // each may be null
  const float* up_bias_;
  ResidualEnd down_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_GRAPH_GATED_NETWORK_H_
