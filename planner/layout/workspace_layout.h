// The buffers of one step, with their lifetimes, packed into as few bytes as
// the lifetimes allow. The worker uses these offsets.
#ifndef PLIMSOLL_PLANNER_LAYOUT_WORKSPACE_LAYOUT_H_
#define PLIMSOLL_PLANNER_LAYOUT_WORKSPACE_LAYOUT_H_

#include <array>
#include <cstdint>

#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "planner/layout/device_profile.h"
#include "planner/model/model_shape.h"

namespace plimsoll::planner {

// R = rows of a step (n_ubatch), D = model_dim, Q = n_heads * head_dim, V =
// n_heads * the width of a value in the cache, KV = n_kv_heads * head_dim, F =
// ffn_dim, or that of all experts of a token, or ple_dim; each is that of the
// widest layer. E = experts, K = experts of a token. S = sampled rows. A =
// residual arrays: 1, or in a model with several streams (X) one more than
// there are streams.
enum class StepBuffer {
  kResidual,      // f32 [A, R, D]: what a layer works on, then the streams
  kNormed,        // f32 [R, D], input of projections and output of post-norms
  kActivations,   // packed activations of the widest product input
  kAngles,        // f32 [R, 2, head_dim / 2, cos|sin]: local and global base
  kPrefixAngles,  // like kAngles, for the prefix rotation of q
  kQuery,         // f32 [R, Q], or [R, all products of a recurrent layer]
  kPrefixQuery,   // f32 [R, Q], q rotated for prefix pages
  kBranch,        // f32 [R, branch_rank], between the branch's two products
  kHeads,         // f32 [R, n_heads, widest], latent attention's heads: queries
                  // before they are as wide as the cache, and values
                  // afterwards; queries and their gates; or what a recurrent
                  // layer's convolution makes, [R, channels]
  kKey,           // f32 [R, KV]
  kValue,         // f32 [R, KV]
  kChunkKey,      // KV type [R, KV]: keys of a ring layer's chunk; they live
                  // on where later layers read them too
  kChunkValue,    // KV type [R, KV]
  kAttention,     // f32 [R, V], output of attention
  kGate,          // f32 [R, F]
  kUp,            // f32 [R, F]
  kRouter,        // f32 [R, E], the experts' scores
  kRouting,       // four words for [R, K], and [E + 1] words: who goes where
  kExpertRows,    // f32 [R, K, D], inputs of experts, then their outputs
  kFfnSum,        // f32 [R, D], what a dense FFN and experts add up to
  kPerLayer,      // f32 [R, layers * ple_dim], per-layer inputs
  kMixing,        // f32 [R, X + X * X], a router's outputs, and the weights
                  // that they make
  kSampled,       // f32 [A, S, D], rows whose logits are wanted
  kSampledActivations,  // packed activations [S, D]
  kScratch,             // the kernels' scratch
};
inline constexpr int kNumStepBuffers = 25;
const char* StepBufferName(StepBuffer buffer);

struct WorkspaceBuffer {
  int64_t offset;   // from the start of the workspace region
  int64_t bytes;    // 0 if this model does not need it
  int first_stage;  // lifetime in stages of a layer, both ends included
  int last_stage;
};

struct WorkspacePlan {
  std::array<WorkspaceBuffer, kNumStepBuffers> buffers;  // by StepBuffer
  int64_t bytes;
  const WorkspaceBuffer& operator[](StepBuffer b) const {
    return buffers[static_cast<size_t>(b)];
  }
};

// The widest layer of every kind. A step's buffers depend on these and on its
// rows only.
struct StepWidths {
  int64_t query = 0;      // n_heads * head_dim, or a query's rank
  int64_t recurrent = 0;  // all products of a recurrent layer's input
  int64_t heads = 0;      // the buffer of heads
  int64_t attended = 0;   // attention's output
  int64_t product = 0;    // input of a product after attention's first ones
  int64_t kv = 0;         // n_kv_heads * head_dim
  int64_t ffn = 0;        // a dense FFN's, all experts' of a token, or ple_dim
  int64_t head_dim = 0;
  int64_t chunk_key_bytes = 0;  // one row of a layer with a window
  int64_t chunk_value_bytes = 0;
  bool has_windows = false;
  // Some layers have a dense FFN and experts, and norm their sum.
  bool has_ffn_sums = false;
  // Some layers read the keys and values of an earlier layer with a window.
  bool shares_windows = false;

  // Makes each width at least that of `other`.
  void WidenBy(const StepWidths& other);
};

// Errors: kInvalidArgument for an element type whose block does not divide a
// head; kOutOfRange on overflow.
absl::StatusOr<StepWidths> WidthsOf(const ModelShape& shape, DType k_type,
                                    DType v_type);

// What decides the sizes of a step's buffers beside the model.
struct StepSize {
  int64_t n_rows;     // the most rows of the step
  int64_t n_sampled;  // the most rows whose logits are computed
  bool has_rings;     // if no layer has a ring, the chunk buffers are empty
};

// Lays out the buffers of one step. Buffers whose lifetimes overlap never
// overlap in memory; offsets are multiples of the profile's alignment.
//
// Requires a valid profile.
// Errors: kInvalidArgument for a count that is not positive; kOutOfRange on
// overflow.
absl::StatusOr<WorkspacePlan> WorkspaceLayout(const ModelShape& shape,
                                              const StepWidths& widths,
                                              const StepSize& step,
                                              const DeviceProfile& profile);

// Lays out the buffers with which the CPU computes a step's experts for another
// device: kNormed has the experts' inputs, then their sums. All other buffers
// that no expert needs are empty.
//
// Requires a valid profile.
// Errors: those of WorkspaceLayout.
absl::StatusOr<WorkspacePlan> ExpertWorkspaceLayout(
    const ModelShape& shape, int64_t n_rows, const DeviceProfile& profile);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_LAYOUT_WORKSPACE_LAYOUT_H_
