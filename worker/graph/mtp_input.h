// The rows that the layer of an MTP head works on.
#ifndef PLIMSOLL_WORKER_GRAPH_MTP_INPUT_H_
#define PLIMSOLL_WORKER_GRAPH_MTP_INPUT_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "kernels/backend.h"
#include "worker/graph/graph_parameters.h"
#include "worker/graph/step_context.h"

namespace plimsoll::worker {

// Joins a row that the model made of a token with the embedding of the token
// after it. Both are normed, and one product makes the head's row of them.
class MtpInput {
 public:
  // `context` is the head's, whose inputs name the model. It outlives the
  // object.
  MtpInput(StepContext& context, const GraphParameters& parameters);

  // True if it reads a layer's tensor of that name.
  static bool Reads(absl::string_view tensor);

  // Makes the residual stream of the batch: its tokens, with the rows that
  // batch.model_rows names.
  // Errors: those of the backend.
  absl::Status Compute(const StepBatch& batch);

 private:
  // Norms the rows `x` and puts them into half of the joined rows: 0 is the
  // first half.
  absl::Status Join(const float* x, const float* norm, int64_t half);

  StepContext& context_;
  kernels::WeightMatrix embedding_;
  kernels::WeightMatrix product_;
  const float* embedding_norm_;
  const float* row_norm_;
  std::vector<int64_t> from_offsets_;
  std::vector<int64_t> to_offsets_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_GRAPH_MTP_INPUT_H_
