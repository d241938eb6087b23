// One tensor of an architecture, as data: its name, its dimensions, and the
// condition under which a model has it.
#ifndef PLIMSOLL_PLANNER_MODEL_TENSOR_ROLE_H_
#define PLIMSOLL_PLANNER_MODEL_TENSOR_ROLE_H_

#include <array>
#include <span>

#include "absl/strings/string_view.h"
#include "planner/model/model_shape.h"

namespace plimsoll::planner {

// A dimension of a tensor, in terms of the model.
enum class Dim {
  kNone,          // no dimension
  kOne,           // 1
  kModel,         // model_dim
  kVocab,         // vocab_size
  kQuery,         // n_heads * head_dim
  kQueryProduct,  // kQuery, or twice that if there are gates
  kKv,            // n_kv_heads * head_dim
  kQkv,           // queries, keys and values together
  kHead,          // head_dim
  kHeads,         // n_heads
  kAttended,      // inputs of the output's product, from all heads
  // The next dimensions belong to latent attention.
  kQueryRank,
  kLatent,      // rank of keys and values
  kRotatedKey,  // the part of a key that is rotated
  kPlainKey,    // the other part of a key
  kValueHead,   // a head's value
  kPlainQuery,  // n_heads keys
  kFfn,         // ffn_dim
  kTwoFfn,      // gate and up
  kExpertFfn,   // expert_ffn_dim
  kTwoExpertFfn,
  kExperts,    // n_experts
  kSharedFfn,  // shared_ffn_dim
  kRotary,     // half of the rotated dimensions
  kPle,        // ple_dim
  kAllPle,     // ple_dim of every layer
  kStreams,    // n_streams
  kStreamPairs,
  kOtherStreams,
  kBranch,    // branch_rank
  kTwoModel,  // 2 * model_dim
  // The next dimensions belong to layers with a state.
  kTaps,
  kChannels,
  kThreeModel,  // 3 * model_dim
  kStateHeads,  // n_heads
  kTwoStateHeads,
  kStateHead,  // head_dim
  kInner,      // all heads together
  kGroups,
  kGroupInner,    // kInner / n_groups
  kStateProduct,  // all products of a layer's input
};

// The condition under which a model, or one of its layers, has a tensor.
enum class When {
  kAlways,
  kAttends,    // the layer has attention
  kRecurrent,  // the layer keeps a state
  kSeparateQkv,
  kOwnKv,      // the layer has keys and values of its own
  kOwnValues,  // kOwnKv, unless values are the keys
  kFusedQkv,
  kHeadNorms,
  kOwnKeyNorm,  // kHeadNorms, in a layer with keys of its own
  kQueryRank,   // two products make the queries of latent attention
  kNoQueryRank,
  kOptionalHeadNorms,
  kJointHeadNorms,  // one norm for all heads together
  kOptionalBias,
  kOptionalQkvBias,       // kOptionalBias and kSeparateQkv
  kOptionalFusedQkvBias,  // kOptionalBias and kFusedQkv
  kOptionalFfnBias,       // kOptionalBias and kGatedFfn
  kQkvBias,
  kSeparateQkvBias,  // kQkvBias and kSeparateQkv
  kFusedQkvBias,     // kQkvBias and kFusedQkv
  kAllBiases,
  kPreNorms,
  kFfnNorm,  // kPreNorms, unless the FFN reads what attention reads or is all
             // of its layer
  kPostNorms,
  kGatedFfn,
  kPlainFfn,
  kFusedFfn,
  kExperts,  // the layer has experts
  kExpertsSplit,
  kExpertGatesSplit,  // kExpertsSplit, if experts have gates
  kExpertsFused,
  kExpertBias,
  kSharedExpert,
  kSharedExpertGate,  // kSharedExpert, if experts have gates
  kGatedSharedExpert,
  kPle,
};

// A kUsual tensor may be missing from a file, but models have it.
enum class Presence { kRequired, kUsual, kOptional };

// Rows of a matrix, or elements of a vector, which have no tensor of their own
// in the file, but are treated as one everywhere else.
struct TensorSlice {
  absl::string_view name;
  Dim rows;
};

struct TensorRole {
  absl::string_view name;  // in a layer, the part after "blk.N."
  When when;
  Presence presence;
  std::array<Dim, 3> dims;
  WeightKind kind = WeightKind::kDense;
  // If not empty, the tensor consists of these parts, one after the other.
  std::span<const TensorSlice> slices = {};
};

// The dimensions of a vector.
constexpr std::array<Dim, 3> VectorOf(Dim n) {
  return {n, Dim::kNone, Dim::kNone};
}
// The dimensions of `count` vectors, one after the other.
constexpr std::array<Dim, 3> VectorsOf(Dim n, Dim count) {
  return {n, Dim::kNone, count};
}
// The dimensions of a matrix that makes `rows` outputs of `cols` inputs.
constexpr std::array<Dim, 3> MatrixOf(Dim cols, Dim rows) {
  return {cols, rows, Dim::kNone};
}

// A bias of the router that only affects the choice of experts.
inline constexpr auto kChoiceBias = std::to_array<TensorRole>({
    {"exp_probs_b.bias", When::kExperts, Presence::kUsual,
     VectorOf(Dim::kExperts)},
});

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_MODEL_TENSOR_ROLE_H_
