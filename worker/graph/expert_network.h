// A router with its experts: it chooses some of many gated networks for each
// row, and their outputs are added, each with its weight. The experts may lie
// in host memory, where the CPU computes them; the router is always on the
// device.
#ifndef PLIMSOLL_WORKER_GRAPH_EXPERT_NETWORK_H_
#define PLIMSOLL_WORKER_GRAPH_EXPERT_NETWORK_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "kernels/experts.h"
#include "worker/graph/step_context.h"

namespace plimsoll::worker {

// The names of a network's tensors begin with the layer's prefix. The name of a
// matrix of the experts ends with the suffix.
struct ExpertNames {
  std::string prefix;        // "blk.N."
  absl::string_view router;  // "ffn_gate_inp"
  absl::string_view suffix;  // "_exps"
};

// Which of its experts a router gives to a row.
struct ExpertChoice {
  kernels::Routing routing;
  int64_t n_used;               // experts of a row
  const float* bias = nullptr;  // RouteExpertsArgs::choice_bias
  bool weights_inputs = false;  // and not the outputs
};

class ExpertNetwork {
 public:
  ExpertNetwork(const ExpertNames& names, const ExpertChoice& choice,
                StepContext& context);

  // True if the chosen experts of a layer read its tensor of that name.
  static bool Reads(absl::string_view tensor);

  // Chooses the experts of each row by what the router makes of `x`.
  absl::Status Route(const ProductInput& x);
  // out = the sum over a row's experts e of
  // weight_e * Wdown_e (activation(Wgate_e x) * Wup_e x); or of Wdown_e
  // (activation(Wgate_e y) * Wup_e y), where y = weight_e x, if the choice says
  // so. Requires Route. It writes to where `x` is packed.
  absl::Status Compute(const ProductInput& x, const ProductOutput& to);

 private:
  // The rows of the experts, in the buffers of `at`.
  kernels::ExpertRows Rows(const StepContext& at) const;
  // Compute with the buffers and the backend of home_.
  absl::Status ComputeAtHome(const ProductInput& x, const ProductOutput& to);
  // Compute on the CPU: the rows and the router's choice go to host memory, and
  // one sum for each row comes back.
  absl::Status ComputeOnHost(const ProductInput& x, const ProductOutput& to);

  StepContext& context_;
  StepContext& home_;  // where the experts' matrices and biases are
  kernels::WeightMatrix router_;
  const float* router_bias_;  // [n_experts]; may be null
  ExpertChoice choice_;
  kernels::ExpertMatrices gate_, up_, down_;
  const float* gate_bias_;  // a vector of each expert; each may be null
  const float* up_bias_;
  const float* down_bias_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_GRAPH_EXPERT_NETWORK_H_
