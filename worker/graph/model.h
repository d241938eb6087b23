// A loaded model: rows of tokens in, logits of the sampled rows out.
#ifndef PLIMSOLL_WORKER_GRAPH_MODEL_H_
#define PLIMSOLL_WORKER_GRAPH_MODEL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/sync/progress_mark.h"
#include "kernels/backend.h"
#include "planner/layout/memory_plan.h"
#include "worker/cache/kv_cache.h"
#include "worker/device/arena.h"
#include "worker/device/load_fence.h"
#include "worker/device/model_file.h"
#include "worker/device/model_mapping.h"
#include "worker/device/precision.h"

namespace plimsoll::worker {

// The rows of one sequence in a step: consecutive tokens at consecutive
// positions.
struct SequenceRows {
  int64_t slot;
  int64_t first_row;
  int64_t n_rows;
  int64_t first_position;
  int64_t n_draft = 0;     // last rows that may be taken back
  bool is_prompt = false;  // no row is of a generated token
};

// One step: at most plan.n_rows rows, at most plan.n_sampled of them sampled.
struct StepBatch {
  std::vector<int32_t> tokens;     // [n_rows]
  std::vector<int64_t> positions;  // [n_rows]
  // Each row's position less the number of tokens that left its sequence. A row
  // attends to a pinned prefix from this position.
  std::vector<int64_t> prefix_positions;  // [n_rows]
  bool has_rolled_prefix = false;         // in any of the sequences
  std::vector<SequenceRows> sequences;    // in the order of their rows
  std::vector<int32_t> sampled_rows;      // ascending, at the end of sequences
  // Keeps all rows for ComputeLogits and for an MTP head. Otherwise the last
  // layer goes on with the sampled rows only.
  bool keeps_all_rows = false;
  // True if every row belongs to a sequence that decodes. A backend may start
  // such a step as one piece.
  bool only_decodes = false;
  // In a step of an MTP head, the row of the model, by its place among those
  // that were kept, that goes with each token.
  std::vector<int32_t> model_rows;
  // The part of each sampled row's logits that is read; empty: everything.
  std::span<const kernels::TopOutputs> top;
  // For a piece of a step (step_pieces.h): the numbers of rows and of sampled
  // rows in the pieces before it.
  int64_t first_row = 0;
  int64_t first_sampled = 0;
  // Is touched after each part of a layer, by any thread that computes; or
  // null.
  ProgressMark* progress = nullptr;
};

// Used from one thread at a time: the step thread, or a thread that computes a
// part of a step for it.
class Model {
 public:
  virtual ~Model() = default;

  // Reads the weights whose values the host needs. It is called once, when they
  // are loaded and before the first step.
  // Errors: those of the backend.
  virtual absl::Status FinishLoad() { return absl::OkStatus(); }

  // Runs the batch. The cache must have room for every position (Extend).
  // Afterwards the logits of the i-th sampled row are at Logits() +
  // (batch.first_sampled + i) * vocab_size; logits that batch.top does not name
  // may be kernels::kNotComputed. The cache has the keys and values of all
  // rows; those of draft rows are in its drafts instead of its rings.
  // Errors: those of the backend.
  virtual absl::Status Step(const StepBatch& batch) = 0;

  // Replaces the logits by those of other rows of the last step, which must
  // have kept all rows; at most plan.n_sampled rows at a time.
  // Errors: those of the backend.
  virtual absl::Status ComputeLogits(std::span<const int32_t> rows) = 0;

  // f32 [n_sampled, vocab_size], device memory.
  virtual const float* Logits() const = 0;
};

// What a graph is built from: a whole model, or its layers on one device. All
// of it outlives the graph.
struct GraphInputs {
  const planner::ModelShape* shape;  // shape of these layers
  const planner::MemoryPlan* plan;
  const Arena* arena;
  kernels::Backend* backend;
  KvCache* cache;
  Precision precision;
  // Where matrices lie that have no place in the arena; or null.
  const ModelMapping* mapping = nullptr;
  int64_t first_layer = 0;
  // Rows of the residual stream in the host's memory, [plan.n_rows, model_dim].
  // `input` comes from the layers before, `output` goes to the layers after. A
  // piece of a step has its rows from its first_row on. `input` is empty for
  // the first layer, which has embeddings; `output` is empty for the last
  // layer, which has logits.
  std::span<const float> input = {};
  std::span<float> output = {};
  // What the CPU computes of these layers for a device with memory of its own:
  // experts, whose weights lie in an arena of the host's. Or null.
  const GraphInputs* host = nullptr;
  // Where a model leaves the normed rows of a step for its MTP head, which
  // replaces them by those of its own sampled rows: f32 [plan.n_rows,
  // model_dim] in device memory, in the region `mtp`. Null if no head is
  // loaded.
  float* mtp_rows = nullptr;
  // For an MTP head: what its model is built from. Null for a model.
  const GraphInputs* trunk = nullptr;
};

// Bytes of the file that LoadWeights reads.
int64_t BytesToLoad(const planner::ModelShape& shape,
                    const planner::MemoryPlan& plan);

// Copies the file's weights into the arena, in the backend's storage, through a
// small buffer. A device with memory of its own has two buffers: one is filled
// while the other is copied. Weights without a place in the arena are left out.
// `fence` is called between chunks.
// Errors: kDataLoss if the file cannot be read or has changed; what `fence`
// returned.
absl::Status LoadWeights(ModelFile& file, const GraphInputs& inputs,
                         const LoadFence& fence);

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_GRAPH_MODEL_H_
