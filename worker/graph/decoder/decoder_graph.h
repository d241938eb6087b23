// The graph of every architecture: embedding, layers of a mixer and an FFN,
// norm, vocabulary projection. An MTP head is such a graph of one layer, which
// has an MtpInput in place of the embedding.
#ifndef PLIMSOLL_WORKER_GRAPH_DECODER_DECODER_GRAPH_H_
#define PLIMSOLL_WORKER_GRAPH_DECODER_DECODER_GRAPH_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "planner/model/architecture.h"
#include "worker/graph/attention/attention_rows.h"
#include "worker/graph/graph_parameters.h"
#include "worker/graph/mtp_input.h"
#include "worker/graph/per_layer_embedding.h"
#include "worker/graph/recurrent/state_rows.h"
#include "worker/graph/residual_streams.h"
#include "worker/graph/step_context.h"
#include "worker/graph/sublayer.h"

namespace plimsoll::worker {

class DecoderGraph final : public Model {
 public:
  // Requires CheckArchitecture.
  DecoderGraph(const planner::Architecture& architecture,
               const GraphInputs& inputs, const GraphParameters& parameters);

  // Names what this class cannot compute of such a model outside of its layers.
  // The text follows "architecture X with". It is empty if the class can
  // compute all of it.
  static absl::string_view Missing(const planner::Architecture& architecture,
                                   const planner::ModelShape& shape);
  // True if it reads a tensor of that name that belongs to no layer.
  static bool Reads(absl::string_view tensor);
  // True if it reads a layer's tensor of that name.
  static bool ReadsInLayer(const planner::Architecture& architecture,
                           absl::string_view tensor);

  absl::Status FinishLoad() override;
  absl::Status Step(const StepBatch& batch) override;
  absl::Status ComputeLogits(std::span<const int32_t> rows) override;
  const float* Logits() const override { return logits_; }

 private:
  struct Layer {
    std::vector<std::unique_ptr<Sublayer>> sublayers;  // in their order
    float output_scale = 1;  // multiplies the residual stream at the end
  };

  // Sets the input and the vocabulary projection of an MTP head.
  void SetMtpEnds(const GraphParameters& parameters);
  Layer MakeLayer(const planner::Architecture& architecture, int64_t layer);
  // The mixer of a layer that has one.
  std::unique_ptr<Sublayer> MakeMixer(const planner::Architecture& architecture,
                                      int64_t layer);
  absl::Status AddLayer(const Layer& layer, const StepBatch& batch);
  // Computes everything between the input rows and the output rows.
  absl::Status Compute(const StepBatch& batch);
  absl::Status ComputeAngles(const std::vector<int64_t>& positions,
                             planner::StepBuffer buffer);
  // Leaves the rows for the MTP head, as the output norm makes them.
  absl::Status KeepMtpRows();
  void SetQueryFactors(const std::vector<int64_t>& positions);
  // Computes logits of the batch's sampled rows.
  absl::Status StepLogits(const StepBatch& batch);
  // Computes logits of the first n_sampled rows of the buffer kSampled. They
  // are the step's logits from `first` on.
  absl::Status SampledLogits(int64_t n_sampled, int64_t first,
                             std::span<const kernels::TopOutputs> top);

  const GraphInputs& inputs() const { return context_.inputs(); }

  StepContext context_;
  AttentionScratch attention_scratch_;
  std::optional<StateRows> state_rows_;  // if some layers keep a state
  std::optional<PerLayerInputs> per_layer_inputs_;
  std::optional<ResidualStreams> streams_;  // if there are several
  std::optional<MtpInput> mtp_input_;       // only in an MTP head
  std::vector<Layer> layers_;
  kernels::WeightMatrix embedding_ = {};  // set if the layers begin with it
  kernels::WeightMatrix output_ = {};     // set if logits are made here
  const float* output_norm_ = nullptr;
  float* logits_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_GRAPH_DECODER_DECODER_GRAPH_H_
